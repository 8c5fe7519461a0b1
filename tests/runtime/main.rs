//! The runtime against recorded calls.

#[path = "../reader/archive.rs"]
mod archive;
mod assets;
mod cases;
mod command;
mod conformance;
mod hostile;
mod memory;
mod numbers;
mod programs;
mod properties;
mod robust;
mod semantics;
