//! Accepted contracts on disk, in insta's file format.
//!
//! `snapshots/<model>.snap` is the accepted contract of a model, `snapshots/<model>.snap.new` one that
//! waits to be accepted or rejected. `cargo insta review` works on both, and so does
//! `coreai-audit snapshot review` for people without cargo.

mod error;
mod format;
mod names;
mod store;

pub use error::SnapshotError;
pub use format::Snapshot;
pub use store::{Entry, Status, Store};

#[cfg(test)]
mod tests;
