//! Convert PyTorch models to Core AI assets and audit what came out.
//!
//! Map of the crate (dependencies point downwards only):
//!
//! - [`contract`]: the ordered input, state and output contract, and its comparison
//! - [`ir`]: typed graphs and ops, read from printed IR or from an asset

pub mod contract;
pub mod ir;
