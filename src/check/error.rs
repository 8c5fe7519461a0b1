//! Why a check could not run.

use std::path::PathBuf;

use crate::asset;
use crate::check::trace::TraceError;
use crate::runtime::{LoadError, RunError, TensorError};
use crate::text::name;

/// Why a check could not run. What the asset gets wrong is a finding, not an error.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The asset cannot be read.
    #[error(transparent)]
    Asset(#[from] asset::Error),
    /// The asset cannot be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Memory is not to be had.
    #[error(transparent)]
    Memory(#[from] TensorError),
    /// A call of our own making fails.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The vendor's interpreter cannot be consulted.
    #[error(transparent)]
    Oracle(#[from] super::oracle::OracleError),
    /// Nothing in the trace belongs to this asset.
    #[error("{}: has calls of {}, and the asset has {}; is it the trace of this model?", trace.display(), list(traced), list(functions))]
    NoFunction {
        /// The trace.
        trace: PathBuf,
        /// Functions in the trace.
        traced: Vec<String>,
        /// Functions in the asset.
        functions: Vec<String>,
    },
    /// PyTorch refused the first call, and what it was given does not fit the asset either.
    #[error("{}: PyTorch refused its first call, which lacks the input {} of {}: {said}. Correct that entry of calls and record it again", trace.display(), name(input), name(function))]
    Refused {
        /// The trace.
        trace: PathBuf,
        /// The function.
        function: String,
        /// The input.
        input: String,
        /// What PyTorch said.
        said: String,
    },
    /// The contract that was given is of another asset.
    #[error(
        "the contract given has {}, and the asset has {}; is it the contract of this asset?",
        list(contract),
        list(functions)
    )]
    Contract {
        /// Functions in the contract.
        contract: Vec<String>,
        /// Functions in the asset.
        functions: Vec<String>,
    },
    /// The contract is another asset's.
    #[error("the contract is not of this asset: its {} has the {role}s {}, the asset's has {}. Give the contract of this asset, or leave out --contract", name(function), list(contract), list(asset))]
    OtherContract {
        /// The function.
        function: String,
        /// Input or state.
        role: crate::contract::Role,
        /// Names in the contract.
        contract: Vec<String>,
        /// Names in the asset.
        asset: Vec<String>,
    },
    /// An input that nothing in the trace belongs to.
    #[error("{}: no argument in it is the input {} of {}; it has {}. Give the contract with the sources: --contract", trace.display(), name(input), name(function), list(arguments))]
    Input {
        /// The trace.
        trace: PathBuf,
        /// The function.
        function: String,
        /// The input.
        input: String,
        /// Arguments in the trace.
        arguments: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let names: Vec<_> = names.iter().map(|n| name(n).into_owned()).collect();
    names.join(", ")
}
