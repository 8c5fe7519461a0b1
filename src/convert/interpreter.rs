//! Which Python runs the worker, and how it is started.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the running program comes from; set once by whoever starts it.
#[derive(Clone, Debug)]
pub enum Origin {
    /// The wheel: a Python process that imported the extension module.
    Wheel {
        /// `sys.executable`.
        python: PathBuf,
        /// The folder of the package `coreai_audit`.
        package: PathBuf,
    },
    /// The stand-alone binary, which embeds Python in its worker processes.
    Binary,
}

static ORIGIN: OnceLock<Origin> = OnceLock::new();

impl Origin {
    /// Says where the program comes from; the first call counts.
    pub fn set(origin: Origin) {
        let _ = ORIGIN.set(origin);
    }

    fn get() -> Origin {
        ORIGIN.get().cloned().unwrap_or(Origin::Binary)
    }
}

/// A Python to run the worker with.
#[derive(Clone, Debug)]
pub struct Interpreter {
    python: PathBuf,
    origin: Origin,
}

/// Why no Python was found.
#[derive(Debug, thiserror::Error)]
pub enum InterpreterError {
    /// The path given is neither an interpreter nor a virtual environment.
    #[error("{path}: no Python there; give --python an interpreter or the folder of a virtual environment")]
    NotPython {
        /// What was given.
        path: PathBuf,
    },
    /// Nothing was given and nothing found.
    #[error("no Python found: give --python, set `python` in coreai-audit.toml, or activate a virtual environment")]
    None,
}

impl Interpreter {
    /// The interpreter asked for, or the one a user would expect.
    ///
    /// In order: `asked` (from `--python` or the manifest); for the wheel, the Python it runs in; an
    /// active virtual environment; `.venv` in the current folder; `python3` on the path.
    pub fn find(asked: Option<&Path>) -> Result<Self, InterpreterError> {
        let origin = Origin::get();
        let python = match (asked, &origin) {
            (Some(path), _) => resolve(path).ok_or_else(|| InterpreterError::NotPython {
                path: path.to_owned(),
            })?,
            (None, Origin::Wheel { python, .. }) => python.clone(),
            (None, Origin::Binary) => std::env::var_os("VIRTUAL_ENV")
                .and_then(|venv| resolve(Path::new(&venv)))
                .or_else(|| resolve(Path::new(".venv")))
                .or_else(|| on_path("python3"))
                .ok_or(InterpreterError::None)?,
        };
        Ok(Interpreter { python, origin })
    }

    /// The interpreter's path.
    pub fn path(&self) -> &Path {
        &self.python
    }

    /// The command that starts a worker; its streams are the caller's to set.
    pub(super) fn worker_command(&self) -> Command {
        match &self.origin {
            Origin::Wheel { package, .. } => {
                let mut command = Command::new(&self.python);
                // The other interpreter need not have this package: give it ours, and only ours.
                command.args(["-c", BOOTSTRAP]).arg(package);
                command
            }
            Origin::Binary => {
                let program =
                    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("coreai-audit"));
                let mut command = Command::new(program);
                command
                    .arg(WORKER_ARGUMENT)
                    .env(EMBEDDED_PYTHON, &self.python);
                // CPython finds its environment from the first `python3` on the path.
                if let Some(folder) = self.python.parent() {
                    command.env("PATH", prepended(folder));
                }
                command.env_remove("PYTHONHOME");
                command
            }
        }
    }
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.python.display().fmt(f)
    }
}

/// The folder of the package `coreai_audit` that runs; `None` for the stand-alone binary.
pub fn package_folder() -> Option<PathBuf> {
    match Origin::get() {
        Origin::Wheel { package, .. } => Some(package),
        Origin::Binary => None,
    }
}

/// First argument of the stand-alone binary when it is to serve as a worker.
pub const WORKER_ARGUMENT: &str = "__worker";
/// Environment variable that tells an embedded worker which interpreter it stands for.
pub(crate) const EMBEDDED_PYTHON: &str = "COREAI_AUDIT_PYTHON";

const BOOTSTRAP: &str = "\
import importlib.util, os, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    'coreai_audit', os.path.join(folder, '__init__.py'), submodule_search_locations=[folder])
package = sys.modules['coreai_audit'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from coreai_audit._core import worker
worker()
";

/// An interpreter from a path to one, or to a virtual environment.
fn resolve(path: &Path) -> Option<PathBuf> {
    let candidates = if path.is_dir() {
        vec![
            path.join("bin/python3"),
            path.join("bin/python"),
            path.join("Scripts/python.exe"),
        ]
    } else {
        vec![path.to_owned()]
    };
    let found = candidates.into_iter().find(|c| c.is_file());
    // Not canonicalised: a virtual environment's interpreter is a link, and the link is what counts.
    found
        .map(|p| std::path::absolute(&p).unwrap_or(p))
        .or_else(|| {
            (path.components().count() == 1)
                .then(|| on_path(path.to_str()?))
                .flatten()
        })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|c| c.is_file())
}

fn prepended(folder: &Path) -> OsString {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&old));
    std::env::join_paths(folders).unwrap_or(old)
}
