//! Reading assets and contracts from Python; everything is handed over as JSON text.

use std::error::Error;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::asset::inspect::{inspect, Effort};
use crate::asset::{self, Found};
use crate::contract;
use crate::load;

create_exception!(
    coreai_audit,
    AuditError,
    PyValueError,
    "A file that cannot be read; the message says where, what was expected and what to do."
);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The document of `coreai-audit inspect --format json` for one asset.
#[pyfunction]
pub(super) fn inspect_json(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    without_gil(py, || {
        let asset = match asset::open(&path)? {
            Found::Asset(asset) => asset,
            Found::Bundle(bundle) => return Err(load::of_bundle(&bundle).into()),
        };
        let (inspection, _) = inspect(&asset, Effort { hash: true })?;
        Ok(serde_json::to_string(&inspection)?)
    })
}

/// The contract in an asset, contract file or snapshot, as JSON.
#[pyfunction]
pub(super) fn contract_json(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    without_gil(py, || Ok(contract::json(&load::contract(&path)?)))
}

/// The changes between two contracts, as a JSON list.
#[pyfunction]
pub(super) fn diff_json(py: Python<'_>, old: PathBuf, new: PathBuf) -> PyResult<String> {
    without_gil(py, || {
        let changes = contract::diff(&load::contract(&old)?, &load::contract(&new)?);
        Ok(serde_json::to_string(&changes)?)
    })
}

/// Other Python threads run meanwhile; a failure carries its causes.
fn without_gil(py: Python<'_>, read: impl FnOnce() -> Result<String> + Send) -> PyResult<String> {
    py.detach(|| read().map_err(|e| with_causes(e.as_ref())))
        .map_err(AuditError::new_err)
}

pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}
