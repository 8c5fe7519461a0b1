//! Convert PyTorch models to Core AI assets and audit what came out.
//!
//! Map of the crate (dependencies point downwards only):
//!
//! - [`cli`]: the commands; the only place that prints or exits
//! - [`gate`]: one model from recipe to verdict; [`manifest`]: which models a project has
//! - [`report`]: findings and how they are shown
//! - [`convert`]: the worker process that runs PyTorch and the converter, and who watches it
//! - [`check`]: an asset run against what PyTorch computed
//! - [`contract`]: the ordered input, state and output contract, and its comparison
//! - [`runtime`]: execution of assets
//! - [`asset`]: the `.aimodel` directory and the bytecode inside
//! - [`ir`]: typed graphs and ops, read from printed IR or from an asset
//! - [`upgrade`]: models under several toolchains, compared
//! - [`text`]: names from untrusted files, made safe to print

pub mod asset;
pub mod check;
pub mod cli;
pub mod contract;
pub mod convert;
mod files;
pub mod gate;
pub mod ir;
mod load;
pub mod manifest;
#[cfg(feature = "python")]
pub mod python;
pub mod report;
pub mod runtime;
pub mod text;
pub mod upgrade;
