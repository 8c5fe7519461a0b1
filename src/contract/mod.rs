//! The contract: which inputs, states and outputs an asset's functions have, in which order, and
//! what each of them *is*.
//!
//! [`Contract`] is the one type that flows from every reader to every report. Names and order alone
//! do not carry the promise the tool makes (see [`Source`]), so the contract also records which
//! PyTorch buffer or `forward` argument stands behind each port.

mod access;
pub mod agree;
mod diff;
mod extract;
pub mod file;
mod model;
pub mod names;
mod parse;
mod render;
mod role;
pub mod signature;
pub mod snapshot;
mod strict;

pub use diff::{diff, Change, ChangeId, Impact, Level};
pub use extract::{dtype_name, extract, Extracted, Note};
pub use model::{
    Access, Contract, Dim, Export, Function, Port, Source, SourceKind, State, SCHEMA_VERSION,
};
pub use parse::{parse, parse_from_line, ParseError};
pub use render::{human, json, shape};
pub use role::Role;
pub use signature::{FunctionSignature, Output as SignatureOutput, Placeholder, Site};

#[cfg(test)]
pub(crate) mod testing;
