//! The same models under several toolchains: what moves when PyTorch or the converter is upgraded.
//!
//! - [`spec`], [`resolve`]: from what a person writes to environments with a key
//! - [`uv`], [`lock`], [`envs`], [`probe`]: environments that are made, and those that exist
//! - [`run`], [`job`]: cells (a model in an environment) converted in workers, in parallel
//! - [`ray`]: cells as tasks of a cluster
//! - [`cache`], [`record`]: what became of a cell, kept for the next run
//! - [`matrix`], [`attribution`], [`signature_diff`]: what moved, and at which step
//! - [`document`], [`report`]: told as JSON and to a person; [`shard`]: a run spread over machines

mod attribution;
mod cache;
mod content;
mod document;
pub mod envs;
mod installed;
mod interrupt;
mod job;
mod lock;
mod matrix;
mod probe;
mod ray;
mod record;
mod report;
mod requirements;
mod resolve;
mod run;
mod shard;
mod signature_diff;
mod spec;
mod uv;

pub use attribution::{Counted, Step as ChainStep};
pub use document::{document, merge, MergeError, Merged};
pub use interrupt::Interrupt;
pub use lock::{Lock, Package};
pub use matrix::{Environment, Judged, Matrix, Row, State, SCHEMA_VERSION};
pub use ray::{remote_cell, Executor};
pub use record::{Failed, Record, Run, Signature, Slot};
pub use report::{details, table};
pub use run::{run, Plan, Watcher};
pub use shard::Shard;
pub use signature_diff::{Kind, SignatureChange};
pub use spec::{EnvSpec, Source, SpecError};

/// An error with its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
