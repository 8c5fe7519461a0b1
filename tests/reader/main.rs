//! Readers of programs: printed IR, bytecode, and the contract in them.

mod archive;
mod conformance;
mod extract;
mod print;
mod text;
