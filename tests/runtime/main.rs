//! The runtime against recorded calls.

mod cases;
mod conformance;
