//! The runtime against recorded calls.

#[path = "../reader/archive.rs"]
mod archive;
mod cases;
mod conformance;
