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

/// The Python half of the package that a worker imports, compiled in: the target environment need not have it.
macro_rules! sources {
    ($($name:literal => $file:literal,)*) => {
        &[$(($name, include_str!(concat!("../../python/coreai_audit/", $file))),)*]
    };
}

/// Module → source.
const SOURCES: &[(&str, &str)] = sources! {
    "coreai_audit" => "__init__.py",
    "coreai_audit.recipe" => "recipe.py",
    "coreai_audit.worker" => "worker/__init__.py",
    "coreai_audit.worker.describe" => "worker/describe.py",
    "coreai_audit.worker.failures" => "worker/failures.py",
    "coreai_audit.worker.inputs" => "worker/inputs.py",
    "coreai_audit.worker.observe" => "worker/observe.py",
    "coreai_audit.worker.outside" => "worker/outside.py",
    "coreai_audit.worker.past" => "worker/past.py",
    "coreai_audit.worker.paths" => "worker/paths.py",
    "coreai_audit.worker.randomness" => "worker/randomness.py",
    "coreai_audit.worker.recipes" => "worker/recipes.py",
    "coreai_audit.worker.session" => "worker/session.py",
    "coreai_audit.worker.signature" => "worker/signature.py",
    "coreai_audit.worker.sites" => "worker/sites.py",
    "coreai_audit.worker.trace" => "worker/trace.py",
    "coreai_audit.worker.values" => "worker/values.py",
};

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

#[cfg(test)]
mod tests {
    use super::SOURCES;

    #[test]
    fn every_module_of_the_worker_is_compiled_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/python/coreai_audit/worker");
        let mut wanted: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let module = name.strip_suffix(".py")?.to_owned();
                Some(match module.as_str() {
                    "__init__" => "coreai_audit.worker".to_owned(),
                    _ => format!("coreai_audit.worker.{module}"),
                })
            })
            .collect();
        wanted.sort();
        let of_worker = |name: &&str| name.starts_with("coreai_audit.worker");
        let mut found: Vec<&str> = SOURCES.iter().map(|s| s.0).filter(of_worker).collect();
        found.sort_unstable();
        assert_eq!(found, wanted);
    }
}
