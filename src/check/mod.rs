//! The runtime check.

pub mod trace;

#[cfg(test)]
pub(crate) mod testing;
