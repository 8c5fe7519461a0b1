//! Contracts from whatever file a person names.

use super::Failure;
use crate::contract::snapshot::Snapshot;
use crate::contract::{self, file, Contract};
use std::path::Path;

/// The contract in a file: JSON, or a snapshot (accepted or pending), told apart by how the text begins.
pub(super) fn load_contract(path: &Path) -> Result<Contract, Failure> {
    let text = file::read_text(path)?;
    let origin = path.display().to_string();
    if text.starts_with("---") {
        Ok(Snapshot::parse(&text, &origin)?.contract)
    } else {
        Ok(contract::parse(&text, &origin)?)
    }
}
