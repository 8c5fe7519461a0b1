//! A Python that exists: its version, its packages, and a key that changes when any of them does.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::interrupt::Interrupt;
use super::lock::hex;
use super::spec::python_in;

/// More files than this are not looked at one by one; a PyTorch environment has about 20 000.
const MOST_FILES: usize = 300_000;
/// Folders deeper than this are not looked into.
const MOST_DEPTH: usize = 40;

/// What is known of an existing Python.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The interpreter, absolute; a virtual environment's link is kept.
    pub python: PathBuf,
    /// Its version (`3.11.7`).
    pub version: String,
    /// Distribution name → version.
    pub packages: BTreeMap<String, String>,
    /// SHA-256 over the version, the packages and the name, size and time of every file of theirs.
    pub key: String,
}

/// Why a Python cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing there.
    #[error("{}: no Python there", path.display())]
    Gone {
        /// What was named.
        path: PathBuf,
    },
    /// It cannot be started.
    #[error("{}: cannot be run: {source}", path.display())]
    Run {
        /// The interpreter.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is older than what converts.
    #[error("{}: is Python {version}: 3.11 or later is needed", path.display())]
    Old {
        /// The interpreter.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// It is another program.
    #[error("{}: is no Python: {said}", path.display())]
    NoPython {
        /// The program.
        path: PathBuf,
        /// What it said.
        said: String,
    },
    /// It is a Python, and cannot tell what is installed.
    #[error("{}: Python {version} does not start properly: {said}", path.display())]
    Broken {
        /// The interpreter.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The last line of what it said.
        said: String,
    },
}

#[derive(Deserialize)]
struct Answer {
    version: String,
    minor: u32,
    packages: BTreeMap<String, String>,
    /// Where packages are imported from, the standard library left out.
    search: Vec<PathBuf>,
}

/// The oldest Python that converts, 3.11.
const OLDEST: u32 = 311;
/// Begins the answer of [`VERSION`].
const MARK: &str = "coreai-audit-python ";
/// Understood by every Python.
const VERSION: &str = "import sys; print('coreai-audit-python %d %s' % (sys.version_info[0] * 100 + sys.version_info[1], sys.version.split()[0]))";
const SCRIPT: &str = "\
import json, os, sys, sysconfig
from importlib import metadata
own = {os.path.abspath(sysconfig.get_path(p)) for p in ('stdlib', 'platstdlib')}
own.add(os.path.join(sysconfig.get_path('stdlib'), 'lib-dynload'))
packages = {}
for d in metadata.distributions():
    name = d.metadata['Name'] if d.metadata else None
    if name:
        packages.setdefault(name.lower().replace('_', '-'), d.version or '')
packages.pop('coreai-audit', None)
search = [os.path.abspath(p) for p in sys.path if p and os.path.isdir(p)]
print(json.dumps({
    'version': sys.version.split()[0], 'minor': sys.version_info[0] * 100 + sys.version_info[1],
    'packages': packages, 'search': [p for p in search if p not in own]}))
";

/// Asks the Python at `path` (an interpreter or a virtual environment) what it has.
///
/// # Errors
/// When it cannot be run, or is no Python 3.11 or later.
pub fn probe(path: &Path, interrupt: &Interrupt) -> Result<Probed, ProbeError> {
    let (python, answer) = ask(path, interrupt)?;
    Ok(Probed {
        key: key(&python, &answer),
        python,
        version: answer.version,
        packages: answer.packages,
    })
}

/// The interpreter at `path` and its version.
///
/// # Errors
/// As for [`probe`].
pub fn version(path: &Path, interrupt: &Interrupt) -> Result<(PathBuf, String), ProbeError> {
    let (python, answer) = ask(path, interrupt)?;
    Ok((python, answer.version))
}

fn ask(path: &Path, interrupt: &Interrupt) -> Result<(PathBuf, Answer), ProbeError> {
    let gone = || ProbeError::Gone {
        path: path.to_owned(),
    };
    let python = match path.is_dir() {
        true => python_in(path).ok_or_else(gone)?,
        false if path.is_file() => path.to_owned(),
        false => return Err(gone()),
    };
    // Not canonicalised: a virtual environment's interpreter is a link, and the link is what counts.
    let python = std::path::absolute(&python).unwrap_or(python);
    let run = |source| ProbeError::Run {
        path: python.clone(),
        source,
    };
    let said = said(&python, &["-P", "-c", SCRIPT], interrupt).map_err(run)?;
    let answer: Option<Answer> = match said.good {
        true => serde_json::from_str(said.last_output()).ok(),
        false => None,
    };
    let (path, version) = match answer {
        Some(answer) if answer.minor >= OLDEST => return Ok((python, answer)),
        Some(answer) => (python, answer.version),
        // An older one does not know the option, another program none of it: what is it?
        None => match version_of(&python, interrupt) {
            Some((minor, version)) if minor >= OLDEST => {
                return Err(ProbeError::Broken {
                    path: python,
                    version,
                    said: said.last_error(),
                })
            }
            Some((_, version)) => (python, version),
            None => {
                return Err(ProbeError::NoPython {
                    path: python,
                    said: said.first_error(),
                })
            }
        },
    };
    Err(ProbeError::Old { path, version })
}

/// What a program said.
struct Said {
    good: bool,
    out: String,
    err: String,
}

impl Said {
    fn last_output(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }

    /// Python tells what is wrong at the end.
    fn last_error(&self) -> String {
        let mut lines = self.err.lines().filter(|l| !l.trim().is_empty());
        lines
            .next_back()
            .unwrap_or("it says nothing")
            .trim()
            .to_owned()
    }

    /// Other programs begin with it.
    fn first_error(&self) -> String {
        let all = self.err.lines().chain(self.out.lines());
        match all.map(str::trim).find(|l| !l.is_empty()) {
            Some(line) => format!("it says {:?}", line.chars().take(200).collect::<String>()),
            None => "it says nothing".to_owned(),
        }
    }
}

fn said(python: &Path, args: &[&str], interrupt: &Interrupt) -> io::Result<Said> {
    let mut command = Command::new(python);
    // The current folder and the caller's variables are no part of an environment.
    command
        .args(args)
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (child, guard) = interrupt.spawn(&mut command)?;
    let output = child.wait_with_output()?;
    drop(guard);
    Ok(Said {
        good: output.status.success(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The version of any Python: as 311 for 3.11, and as text.
fn version_of(python: &Path, interrupt: &Interrupt) -> Option<(u32, String)> {
    let said = said(python, &["-c", VERSION], interrupt).ok()?;
    let (minor, version) = said.last_output().strip_prefix(MARK)?.split_once(' ')?;
    Some((minor.parse().ok()?, version.trim().to_owned()))
}

fn key(python: &Path, answer: &Answer) -> String {
    let mut hasher = Sha256::new();
    hasher.update("coreai-audit existing environment 1\n");
    hasher.update(format!("{}\n{}\n", python.display(), answer.version));
    for (name, version) in &answer.packages {
        hasher.update(format!("{name}=={version}\n"));
    }
    let mut walk = Walk::default();
    for folder in &answer.search {
        hasher.update(format!("{}\n", folder.display()));
        walk.files.clear();
        walk.enter(folder, 0);
        walk.files.sort();
        walk.files.iter().for_each(|f| hasher.update(f));
    }
    hex(&hasher.finalize())
}

/// Name, size and time of every file below folders; compiled bytecode and this tool left out.
#[derive(Default)]
struct Walk {
    files: Vec<String>,
    count: usize,
    /// Folders behind links: a link may lead to one that it is in.
    behind_links: HashSet<PathBuf>,
}

impl Walk {
    fn enter(&mut self, folder: &Path, depth: usize) {
        if let Some(folder) = std::fs::canonicalize(folder).ok().filter(|_| depth == 0) {
            self.behind_links.insert(folder);
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            if name == "__pycache__" || (depth == 0 && is_ours(&name.to_string_lossy())) {
                continue;
            }
            // Of what a link leads to: a package may be linked into an environment.
            let Ok(meta) = std::fs::metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                let is_link = entry.file_type().is_ok_and(|t| t.is_symlink());
                let is_new = !is_link
                    || std::fs::canonicalize(&path).is_ok_and(|to| self.behind_links.insert(to));
                if depth < MOST_DEPTH && is_new {
                    self.enter(&path, depth + 1);
                }
                continue;
            }
            if self.count == MOST_FILES {
                return;
            }
            self.count += 1;
            let time = meta
                .modified()
                .ok()
                .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
                .map_or(0, |t| t.as_nanos());
            self.files
                .push(format!("{} {} {time}\n", path.display(), meta.len()));
        }
    }
}

/// Whether an entry of a folder of packages is this tool, which workers bring along themselves.
fn is_ours(name: &str) -> bool {
    let metadata = name.strip_prefix("coreai_audit-");
    let editable = ["__editable__.coreai_audit-", "__editable___coreai_audit_"];
    matches!(name, "coreai_audit" | "coreai_audit.pth")
        || metadata.is_some_and(|rest| rest.ends_with(".dist-info"))
        || editable.iter().any(|e| name.starts_with(e))
}

/// SHA-256 of the tool that runs: its version, and the size and time of its files.
///
/// A development build keeps its version while it changes.
pub fn tool_key() -> String {
    let mut walk = Walk::default();
    match crate::convert::package_folder() {
        Some(folder) => walk.enter(&folder, 1),
        None => {
            if let Some(program) = std::env::current_exe().ok().filter(|p| p.is_file()) {
                let meta = std::fs::metadata(&program);
                let time = meta.as_ref().ok().and_then(|m| m.modified().ok());
                let line = format!("{} {time:?}", program.display());
                walk.files.push(line);
            }
        }
    }
    walk.files.sort();
    let mut hasher = Sha256::new();
    hasher.update(env!("CARGO_PKG_VERSION"));
    walk.files.iter().for_each(|f| hasher.update(f));
    hex(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_is_linked_into_an_environment_is_looked_at_and_only_this_tool_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let files = || {
            let mut walk = Walk::default();
            walk.enter(&dir.path().join("site"), 0);
            walk.files.sort();
            walk.files
        };
        write("site/a.py", "1");
        write("elsewhere/code.py", "1");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join("site/linked"))
            .unwrap();
        // A link back to where it is leads nowhere new.
        std::os::unix::fs::symlink(dir.path().join("site"), dir.path().join("elsewhere/back"))
            .unwrap();
        let mut before = files();
        for (name, counts) in [
            ("elsewhere/code.py", true),
            ("site/coreai_audit_shim.pth", true),
            ("site/coreai_auditor/x.py", true),
            ("site/coreai_audit/x.py", false),
            ("site/coreai_audit.pth", false),
            ("site/coreai_audit-0.1.0.dist-info/METADATA", false),
            ("site/__pycache__/a.pyc", false),
        ] {
            write(name, "changed");
            let now = files();
            assert_eq!(now != before, counts, "{name}");
            before = now;
        }
    }

    #[test]
    fn what_is_no_python_is_told_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let shown = |path: &Path| {
            let error = probe(path, &Interrupt::default()).unwrap_err().to_string();
            error.replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(shown(&dir.path().join("gone")), "DIR/gone: no Python there");
        assert_eq!(shown(dir.path()), "DIR: no Python there");
        let file = dir.path().join("text");
        std::fs::write(&file, "hello").unwrap();
        assert!(shown(&file).starts_with("DIR/text: cannot be run: "));
    }

    #[cfg(unix)]
    #[test]
    fn an_old_python_and_a_program_that_is_none_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("python");
        let says = |script: &str| {
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let error = probe(&program, &Interrupt::default())
                .unwrap_err()
                .to_string();
            error.replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(
            says(r#"echo '{"version":"3.9.1","minor":309,"packages":{},"search":[]}'"#),
            "DIR/python: is Python 3.9.1: 3.11 or later is needed"
        );
        // Python 3.8 does not know the option -P.
        assert_eq!(
            says("[ $1 = -P ] && { echo 'unknown option -P' >&2; echo 'Try `python -h` for more' >&2; exit 2; }; echo coreai-audit-python 308 3.8.12"),
            "DIR/python: is Python 3.8.12: 3.11 or later is needed"
        );
        assert_eq!(
            says("[ $1 = -P ] && { echo 'Traceback:' >&2; echo 'no module named json' >&2; exit 1; }; echo coreai-audit-python 312 3.12.1"),
            "DIR/python: Python 3.12.1 does not start properly: no module named json"
        );
        assert_eq!(
            says("echo \"$0: invalid option -- 'P'\" >&2; echo 'Try --help' >&2; exit 2")
                .replace("DIR/python: invalid", "ls: invalid"),
            "DIR/python: is no Python: it says \"ls: invalid option -- 'P'\""
        );
        assert_eq!(says("exit 0"), "DIR/python: is no Python: it says nothing");
    }
}
