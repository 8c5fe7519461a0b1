//! The interpreter inside the stand-alone binary.

use std::ffi::CString;
use std::path::PathBuf;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};

use crate::convert::EMBEDDED_PYTHON;

/// The stand-alone binary as a worker: starts CPython and serves; returns the exit status.
pub fn worker() -> i32 {
    Python::initialize();
    let result = Python::attach(|py| -> PyResult<()> {
        install_package(py)?;
        check_environment(py)?;
        Ok(super::worker::serve(py)?)
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            // Standard error is the log that the supervisor shows.
            Python::attach(|py| error.display(py));
            2
        }
    }
}

/// The Python half of the package, compiled in: the target environment need not have it.
const SOURCES: &[(&str, &str)] = &[
    (
        "coreai_audit",
        include_str!("../../python/coreai_audit/__init__.py"),
    ),
    (
        "coreai_audit.recipe",
        include_str!("../../python/coreai_audit/recipe.py"),
    ),
    (
        "coreai_audit.worker",
        include_str!("../../python/coreai_audit/worker/__init__.py"),
    ),
    (
        "coreai_audit.worker.describe",
        include_str!("../../python/coreai_audit/worker/describe.py"),
    ),
    (
        "coreai_audit.worker.failures",
        include_str!("../../python/coreai_audit/worker/failures.py"),
    ),
    (
        "coreai_audit.worker.inputs",
        include_str!("../../python/coreai_audit/worker/inputs.py"),
    ),
    (
        "coreai_audit.worker.observe",
        include_str!("../../python/coreai_audit/worker/observe.py"),
    ),
    (
        "coreai_audit.worker.paths",
        include_str!("../../python/coreai_audit/worker/paths.py"),
    ),
    (
        "coreai_audit.worker.recipes",
        include_str!("../../python/coreai_audit/worker/recipes.py"),
    ),
    (
        "coreai_audit.worker.session",
        include_str!("../../python/coreai_audit/worker/session.py"),
    ),
    (
        "coreai_audit.worker.signature",
        include_str!("../../python/coreai_audit/worker/signature.py"),
    ),
    (
        "coreai_audit.worker.sites",
        include_str!("../../python/coreai_audit/worker/sites.py"),
    ),
    (
        "coreai_audit.worker.values",
        include_str!("../../python/coreai_audit/worker/values.py"),
    ),
];

/// Makes the compiled-in package importable.
fn install_package(py: Python<'_>) -> PyResult<()> {
    let sources = PyDict::new(py);
    for (name, text) in SOURCES {
        sources.set_item(name, text)?;
    }
    let code = CString::new(include_str!("embedded.py"))?;
    let module = PyModule::from_code(py, &code, c"embedded.py", c"coreai_audit_embedded")?;
    module.call_method1("install", (sources,))?;
    Ok(())
}

/// The interpreter inside must be of the version that the environment was made for.
fn check_environment(py: Python<'_>) -> PyResult<()> {
    let Some(asked) = std::env::var_os(EMBEDDED_PYTHON).map(PathBuf::from) else {
        return Ok(());
    };
    let Some(prefix) = asked.parent().and_then(|p| p.parent()) else {
        return Ok(());
    };
    if !prefix.join("pyvenv.cfg").is_file() {
        return Ok(());
    }
    let sys = py.import("sys")?;
    let version: (u8, u8) = sys
        .getattr("version_info")?
        .get_item(0)?
        .extract()
        .and_then(|major| Ok((major, sys.getattr("version_info")?.get_item(1)?.extract()?)))?;
    let name = format!("python{}.{}", version.0, version.1);
    if cfg!(unix) && !prefix.join("lib").join(&name).is_dir() {
        return Err(PyRuntimeError::new_err(format!(
            "{}: this binary embeds Python {}.{}, the environment is of another version; make one \
             with {name}, or install the wheel there and use its coreai-audit",
            prefix.display(),
            version.0,
            version.1
        )));
    }
    Ok(())
}
