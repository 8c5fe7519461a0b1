//! What a person writes to name an environment: package versions, a file of them, or a Python that exists.

use std::path::{Path, PathBuf};

use super::requirements::{lines_of, read as read_file, split};

/// One environment of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSpec {
    /// How reports call it; unique in a run.
    pub label: String,
    /// Where its packages come from.
    pub source: Source,
    /// Python version of an environment that is made (`3.12`), or the path of an interpreter.
    pub python: Option<String>,
}

/// Where an environment's packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A Python that exists, used as it is.
    Existing(PathBuf),
    /// Nothing usable, and why; told in its cells.
    Nothing(String),
    /// Requirements to be resolved and installed.
    Requirements {
        /// One requirement a line, as pip and uv read them.
        lines: Vec<String>,
        /// The folder that relative paths in them are relative to.
        folder: Option<PathBuf>,
    },
}

/// Why a text names no environment.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Nothing was written.
    #[error("an environment is needed: requirements such as \"torch==2.13.0\", a requirements file, or a Python that exists")]
    Empty,
    /// It looks like a path, and nothing is there.
    #[error("{text}: no such environment, interpreter or requirements file")]
    NoSuchPath {
        /// What was written.
        text: String,
    },
    /// A folder without Python in it.
    #[error("{text}: expected a virtual environment (no bin/python in it)")]
    NoPython {
        /// What was written.
        text: String,
    },
    /// The requirements file cannot be read.
    #[error("{}: cannot read the requirements", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A word is no requirement.
    #[error(
        "{word:?} is no requirement: expected a package with a version, such as torch==2.13.0"
    )]
    Requirement {
        /// The word.
        word: String,
    },
}

/// In requirements this stands for the interpreter itself.
const PYTHON: &str = "python";

impl EnvSpec {
    /// Reads `torch==2.13.0 coreai-torch==0.4.3`, a requirements file, a virtual environment or an
    /// interpreter; `python==3.12` among requirements chooses the interpreter's version.
    pub fn parse(text: &str) -> Result<EnvSpec, SpecError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SpecError::Empty);
        }
        let path = Path::new(text);
        if path.is_dir() {
            return match python_in(path) {
                Some(_) => Ok(EnvSpec::existing(text, path)),
                None => Err(SpecError::NoPython { text: text.into() }),
            };
        }
        if path.is_file() {
            // On some disks every file is executable.
            let is_text = path.extension().is_some_and(|e| e == "txt" || e == "in");
            return match is_executable(path) && !is_text {
                true => Ok(EnvSpec::existing(text, path)),
                false => EnvSpec::file(text, path),
            };
        }
        if let Some(python) = python_on_path(text) {
            return Ok(EnvSpec::existing(text, &python));
        }
        EnvSpec::requirements(text, split(text), None)
    }

    /// Named requirements; relative paths in them are relative to `folder`.
    pub fn requirements(
        label: &str,
        lines: Vec<String>,
        folder: Option<PathBuf>,
    ) -> Result<EnvSpec, SpecError> {
        let mut python = None;
        let mut kept = Vec::new();
        for line in lines {
            let line = line.trim().to_owned();
            if let Some(version) = python_version(&line) {
                python = Some(version.to_owned());
                continue;
            }
            if folder.is_none() && path_in(&line).is_some_and(|p| !Path::new(p).exists()) {
                return Err(SpecError::NoSuchPath { text: line });
            }
            let starts = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
            if !line.starts_with(starts) {
                return Err(SpecError::Requirement { word: line });
            }
            kept.push(line);
        }
        Ok(EnvSpec {
            label: label.to_owned(),
            source: Source::Requirements {
                lines: kept,
                folder,
            },
            python,
        })
    }

    /// One whose place is wrong: its cells say so, and the others go on.
    ///
    /// # Errors
    /// Gives back an error that is about something else.
    pub fn misplaced(label: &str, error: SpecError) -> Result<EnvSpec, SpecError> {
        match error {
            SpecError::NoSuchPath { .. } | SpecError::NoPython { .. } | SpecError::Read { .. } => {
                Ok(EnvSpec {
                    label: label.to_owned(),
                    source: Source::Nothing(super::with_causes(&error)),
                    python: None,
                })
            }
            other => Err(other),
        }
    }

    /// A Python that exists.
    pub fn existing(label: &str, path: &Path) -> EnvSpec {
        EnvSpec {
            label: label.to_owned(),
            source: Source::Existing(path.to_owned()),
            python: None,
        }
    }

    /// A requirements file.
    pub fn file(label: &str, path: &Path) -> Result<EnvSpec, SpecError> {
        let read = |source| SpecError::Read {
            path: path.to_owned(),
            source,
        };
        let lines = lines_of(&read_file(path).map_err(read)?);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        EnvSpec::requirements(label, lines, Some(folder))
    }
}

/// What `python==3.12` or `python>=3.12` asks for, as `uv python find` takes it.
fn python_version(line: &str) -> Option<&str> {
    let wanted = line.strip_prefix(PYTHON)?.trim_start();
    match wanted.strip_prefix("==") {
        Some(version) => Some(version.trim()),
        None => wanted.starts_with(['<', '>', '~', '!']).then_some(wanted),
    }
}

/// The path that a requirement is, without extras, marker and hashes.
fn path_in(line: &str) -> Option<&str> {
    let bare = line.split([';', '[']).next()?;
    let bare = bare.split(" --hash").next()?.trim();
    let is_path = bare.contains('/')
        && !bare.contains("://")
        && !bare.contains('@')
        && !bare.starts_with('-');
    is_path.then_some(bare)
}

/// The interpreter of a virtual environment.
pub fn python_in(folder: &Path) -> Option<PathBuf> {
    ["bin/python3", "bin/python", "Scripts/python.exe"]
        .into_iter()
        .map(|p| folder.join(p))
        .find(|p| p.is_file())
}

/// `python3.12` and the like, where the search path has one.
fn python_on_path(text: &str) -> Option<PathBuf> {
    let version = text.strip_prefix("python")?;
    if !version.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(text))
        .find(|p| p.is_file())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "exe")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        match EnvSpec::parse(text).unwrap().source {
            Source::Requirements { lines, .. } => lines,
            other => panic!("{other:?} are no requirements"),
        }
    }

    #[test]
    fn requirements_are_words() {
        assert_eq!(lines("torch==2.13.0"), ["torch==2.13.0"]);
        assert_eq!(
            lines(" torch==2.15.0  coreai-torch==0.4.3 "),
            ["torch==2.15.0", "coreai-torch==0.4.3"]
        );
        assert_eq!(lines("torch >= 2.13, numpy<3"), ["torch>=2.13", "numpy<3"]);
        assert_eq!(
            lines("shim @ file:///a/shim.whl torch"),
            ["shim @ file:///a/shim.whl", "torch"]
        );
    }

    #[test]
    fn python_among_requirements_is_the_interpreter() {
        let spec = EnvSpec::parse("python==3.12 torch==2.13.0").unwrap();
        assert_eq!(spec.python.as_deref(), Some("3.12"));
        assert_eq!(lines("python==3.12 torch==2.13.0"), ["torch==2.13.0"]);
        let spec = EnvSpec::parse("python >=3.12,<3.14 python-dateutil").unwrap();
        assert_eq!(spec.python.as_deref(), Some(">=3.12,<3.14"));
        assert_eq!(
            lines("python >=3.12,<3.14 python-dateutil"),
            ["python-dateutil"]
        );
    }

    #[test]
    fn folders_and_files_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let text = dir.path().to_str().unwrap();
        assert!(EnvSpec::parse(text)
            .unwrap_err()
            .to_string()
            .ends_with("(no bin/python in it)"));
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/python"), "").unwrap();
        assert_eq!(
            EnvSpec::parse(text).unwrap().source,
            Source::Existing(dir.path().to_owned())
        );
        std::fs::write(
            dir.path().join("r.txt"),
            "# ours\ntorch==2.13.0  # pinned\n\n",
        )
        .unwrap();
        assert_eq!(lines(&path("r.txt")), ["torch==2.13.0"]);
        assert_eq!(
            EnvSpec::parse(&path("gone")).unwrap_err().to_string(),
            format!(
                "{}: no such environment, interpreter or requirements file",
                path("gone")
            )
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let all = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(dir.path().join("r.txt"), all).unwrap();
            assert_eq!(lines(&path("r.txt")), ["torch==2.13.0"]);
        }
        assert_eq!(
            lines("https://e.org/x-1.0-py3-none-any.whl git+https://e.org/g@main"),
            [
                "https://e.org/x-1.0-py3-none-any.whl",
                "git+https://e.org/g@main"
            ]
        );
        assert_eq!(
            lines(&format!("{}[all] ; python_version > '3.9'", path("bin"))),
            [format!("{}[all] ; python_version > '3.9'", path("bin"))]
        );
        let misplaced = EnvSpec::parse(&path("gone")).unwrap_err();
        let told = format!(
            "{}: no such environment, interpreter or requirements file",
            path("gone")
        );
        assert_eq!(
            EnvSpec::misplaced("new", misplaced).unwrap().source,
            Source::Nothing(told)
        );
        assert!(EnvSpec::misplaced("new", EnvSpec::parse("=2").unwrap_err()).is_err());
        assert_eq!(
            EnvSpec::parse("=2").unwrap_err().to_string(),
            "\"=2\" is no requirement: expected a package with a version, such as torch==2.13.0"
        );
        assert!(EnvSpec::parse("  ").is_err());
    }
}
