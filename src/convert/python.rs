//! The two ways into Python: the wheel's extension module, and the interpreter in the binary.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

use super::interpreter::Origin;
use super::worker;

/// `coreai_audit._core`: the command line and the worker, for Python to call.
#[pymodule]
#[pyo3(name = "_core")]
mod core_module {
    #[pymodule_export]
    use super::{main, worker_main};
}

/// Runs the command line; returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<i32> {
    let python: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let package: PathBuf = py.import("coreai_audit")?.getattr("__file__")?.extract()?;
    let package = package.parent().map(PathBuf::from).unwrap_or_default();
    Origin::set(Origin::Wheel { python, package });
    Ok(py.detach(|| crate::cli::run(argv)))
}

/// Serves conversion requests on standard input until it closes.
#[pyfunction]
#[pyo3(name = "worker")]
fn worker_main(py: Python<'_>) -> PyResult<()> {
    Ok(worker::serve(py)?)
}

/// The stand-alone binary as a worker: starts CPython and serves; returns the exit status.
#[cfg(feature = "embed")]
pub fn embedded_worker() -> i32 {
    Python::initialize();
    let result = Python::attach(|py| {
        embed::install_package(py)?;
        embed::check_environment(py)?;
        worker_main(py)
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

#[cfg(feature = "embed")]
mod embed {
    use super::*;
    use crate::convert::interpreter::EMBEDDED_PYTHON;
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::types::{PyDict, PyModule};
    use std::ffi::CString;

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
    pub(super) fn install_package(py: Python<'_>) -> PyResult<()> {
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
    pub(super) fn check_environment(py: Python<'_>) -> PyResult<()> {
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
}
