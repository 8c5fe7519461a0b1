//! Contracts from whatever a person names: an asset, a contract in JSON, a snapshot.

use super::Failure;
use crate::asset::{self, Asset, Found, ReadOptions};
use crate::contract::snapshot::Snapshot;
use crate::contract::{self, file, Contract};
use crate::ir::Module;
use std::path::Path;

/// A contract, and the program it was read from where that is an asset.
pub(super) struct Loaded {
    pub(super) contract: Contract,
    pub(super) program: Option<(Box<Asset>, Module)>,
}

/// The contract in an asset or a file. A directory is an asset; files are JSON or a snapshot (accepted
/// or pending), told apart by how the text begins.
pub(super) fn load(path: &Path) -> Result<Loaded, Failure> {
    if path.is_dir() {
        let asset = match asset::open(path)? {
            Found::Asset(asset) => asset,
            Found::Bundle(bundle) => return Err(super::contract::of_bundle(&bundle).into()),
        };
        // The fingerprint needs the definitions.
        let module = asset
            .program(ReadOptions {
                definitions: true,
                locations: false,
            })?
            .module;
        let contract = contract::extract(&module).contract;
        return Ok(Loaded {
            contract,
            program: Some((asset, module)),
        });
    }
    let text = file::read_text(path)?;
    let origin = path.display().to_string();
    let contract = if text.starts_with("---") {
        Snapshot::parse(&text, &origin)?.contract
    } else {
        contract::parse(&text, &origin)?
    };
    Ok(Loaded {
        contract,
        program: None,
    })
}
