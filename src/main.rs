//! The stand-alone binary: see [`coreai_audit::cli`].

fn main() {}
