//! The runtime check against assets and traces of small models, each with a fault of its own or right.

#[path = "../reader/archive.rs"]
mod archive;
mod cases;
mod command;
