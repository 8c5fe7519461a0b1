//! Contracts from whatever a person names: an asset, a contract in JSON, a snapshot.

use crate::asset::{self, Asset, Bundle, Found, ReadOptions};
use crate::contract::snapshot::Snapshot;
use crate::contract::{self, file, Contract};
use crate::ir::Module;
use crate::text;
use std::error::Error;
use std::path::Path;

/// Why a file holds no contract.
type Failure = Box<dyn Error + Send + Sync>;

/// A contract, and the program it was read from where that is an asset.
pub(crate) struct Loaded {
    pub(crate) contract: Contract,
    pub(crate) program: Option<(Box<Asset>, Module)>,
}

/// The contract in an asset or a file. A directory is an asset; files are JSON or a snapshot (accepted
/// or pending), told apart by how the text begins.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    if path.is_dir() {
        let asset = asset_at(path)?;
        // The fingerprint needs the definitions.
        let module = asset
            .program(ReadOptions {
                definitions: true,
                locations: false,
                weights: true,
            })?
            .module;
        let contract = contract::extract(&module).contract;
        return Ok(Loaded {
            contract,
            program: Some((asset, module)),
        });
    }
    Ok(Loaded {
        contract: in_file(path)?,
        program: None,
    })
}

/// As [`load`], for the contract alone, for which little of a program is read.
#[cfg(feature = "python")]
pub(crate) fn contract(path: &Path) -> Result<Contract, Failure> {
    if path.is_dir() {
        return Ok(asset_at(path)?.contract()?.contract);
    }
    in_file(path)
}

fn asset_at(path: &Path) -> Result<Box<Asset>, Failure> {
    match asset::open(path)? {
        Found::Asset(asset) => Ok(asset),
        Found::Bundle(bundle) => Err(of_bundle(&bundle).into()),
    }
}

fn in_file(path: &Path) -> Result<Contract, Failure> {
    let text = file::read_text(path)?;
    let origin = path.display().to_string();
    Ok(if text.starts_with("---") {
        Snapshot::parse(&text, &origin)?.contract
    } else {
        contract::parse(&text, &origin)?
    })
}

/// What to say of a bundle where one asset is wanted.
pub(crate) fn of_bundle(bundle: &Bundle) -> String {
    let paths: Vec<String> = bundle
        .components
        .iter()
        .map(|c| format!("\n  {}: {}", text::name(&c.role), c.path.display()))
        .collect();
    format!(
        "{} is a bundle of {}; name one of them:{}",
        bundle.path.display(),
        text::count(bundle.components.len(), "asset"),
        paths.concat()
    )
}
