//! The only user of PyO3: the wheel's extension module, the worker, and the interpreter in the binary.

#[cfg(feature = "embed")]
pub mod embed;
mod reading;
mod reference;
mod running;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::Origin;

/// `coreai_audit._core`: the command line and the worker, for Python to call.
#[pymodule]
#[pyo3(name = "_core")]
mod core_module {
    #[pymodule_export]
    use super::reading::{contract_json, diff_json, inspect_json, AuditError};
    #[pymodule_export]
    use super::running::{RunError, RunModel};
    #[pymodule_export]
    use super::{main, upgrade_cell, worker_main};
}

/// Runs the command line; returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<i32> {
    set_origin(py)?;
    Ok(py.detach(|| crate::cli::run(argv)))
}

/// Says that the wheel runs; returns the Python it runs in.
fn set_origin(py: Python<'_>) -> PyResult<PathBuf> {
    let python: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let package: PathBuf = py.import("coreai_audit")?.getattr("__file__")?.extract()?;
    let package = package.parent().map(PathBuf::from).unwrap_or_default();
    Origin::set(Origin::Wheel {
        python: python.clone(),
        package,
    });
    Ok(python)
}

/// Converts one cell of an upgrade's matrix on this machine; JSON in and out, and the reference.
#[pyfunction]
fn upgrade_cell<'py>(
    py: Python<'py>,
    cell: &str,
    given: Option<&[u8]>,
    records: bool,
) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
    let python = set_origin(py)?;
    let (record, recorded) = py
        .detach(|| crate::upgrade::remote_cell(cell, &python, given, records))
        .map_err(PyRuntimeError::new_err)?;
    Ok((record, recorded.map(|bytes| PyBytes::new(py, &bytes))))
}

/// Serves conversion requests on standard input until it closes.
#[pyfunction]
#[pyo3(name = "worker")]
fn worker_main(py: Python<'_>) -> PyResult<()> {
    Ok(worker::serve(py)?)
}
