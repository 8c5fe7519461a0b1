//! Readers of programs: printed IR, bytecode, and the contract in them.

mod archive;
mod cli;
mod compare;
mod conformance;
mod extract;
mod fingerprint;
mod hostile;
mod print;
mod text;
