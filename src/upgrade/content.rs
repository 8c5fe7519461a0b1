//! What local files and folders hold, as a digest: a name alone does not say that they are the same.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::lock::hex;

/// Files above this are known by size and time instead of content, in bytes.
const HASHED_BELOW: u64 = 16 << 20;
/// A Python project has fewer files.
const MOST_FILES: usize = 20_000;
/// Folders deeper than this are not looked into.
const MOST_DEPTH: usize = 40;
/// Folders that a build leaves in a project, and that are no source, at its top.
const BUILT: &[&str] = &["build", "dist"];
/// Marks a folder that can be made again, such as Cargo's `target`.
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Marks a virtual environment.
const VENV_TAG: &str = "pyvenv.cfg";

/// SHA-256 of a file, or of the names and contents of the files of a project's folder; what builds leave
/// there, hidden folders and virtual environments are left out.
///
/// # Errors
/// When something cannot be read, or the folder is too large to be a project.
pub fn digest(path: &Path) -> io::Result<String> {
    match fs::metadata(path)?.is_dir() {
        true => of_folder(path),
        false => of_file(path),
    }
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

fn of_folder(folder: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    walk(folder, 0, &mut files)?;
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        let name = name.to_string_lossy();
        let meta = match fs::metadata(&file) {
            Ok(meta) => meta,
            // A link to nowhere, or gone meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let held = if meta.is_dir() {
            fs::read_link(&file)?.display().to_string()
        } else if !meta.is_file() {
            continue;
        } else if meta.len() > HASHED_BELOW {
            let time = meta.modified()?.duration_since(UNIX_EPOCH);
            let time = time.map_or(0, |t| t.as_nanos());
            format!("{} bytes at {time}", meta.len())
        } else {
            of_file(&file)?
        };
        hasher.update(format!("{} {name} {held}\n", name.len()));
    }
    Ok(hex(&hasher.finalize()))
}

/// The files below `folder` that a build may read; links to folders count as files.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            if !name.ends_with(".pyc") {
                files.push(path);
            }
            if files.len() > MOST_FILES {
                return Err(io::Error::other(format!(
                    "more than {MOST_FILES} files are no Python project: build a wheel of it and name that"
                )));
            }
            continue;
        }
        let is_built = name == "__pycache__"
            || name.starts_with('.')
            || name.ends_with(".egg-info")
            || (depth == 0 && BUILT.contains(&name.as_str()))
            || path.join(CACHE_TAG).exists()
            || path.join(VENV_TAG).exists();
        if !is_built && depth < MOST_DEPTH {
            walk(&path, depth + 1, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_its_sources_and_not_what_a_build_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("pyproject.toml", "[project]");
        write("pkg/__init__.py", "1");
        let first = digest(dir.path()).unwrap();
        for left in [
            "build/lib/pkg/__init__.py",
            "dist/pkg.whl",
            "pkg.egg-info/PKG-INFO",
            "pkg/__pycache__/x.pyc",
            ".git/HEAD",
            "target/CACHEDIR.TAG",
            "target/debug/x",
            "env/pyvenv.cfg",
            "env/lib/x.py",
        ] {
            write(left, "1");
            assert_eq!(digest(dir.path()).unwrap(), first, "{left}");
        }
        let mut seen = vec![first];
        for (name, text) in [
            ("pkg/__init__.py", "2"),
            ("pyproject.toml", "[project] "),
            ("pkg/build/data.txt", "1"),
            ("pkg/new.py", ""),
        ] {
            write(name, text);
            let now = digest(dir.path()).unwrap();
            assert!(!seen.contains(&now), "{name}");
            seen.push(now);
        }
        let file = dir.path().join("x.whl");
        fs::write(&file, "abc").unwrap();
        assert_eq!(
            digest(&file).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(digest(&dir.path().join("gone")).is_err());
    }
}
