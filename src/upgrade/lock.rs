//! A resolved set of packages: exactly what an environment is made of.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a wheel takes on disk for each byte of its download, measured on the packages of PyTorch 2.13
/// with CUDA 13 (2.87 GB of wheels, 4.9 GB installed).
const UNPACKED: f64 = 1.75;
/// Taken for a package whose size the index does not tell, in bytes.
const UNKNOWN_SIZE: u64 = 20_000_000;
/// What an environment takes beside its packages' files, which are links: folders, scripts, metadata.
const FRAME: u64 = 60_000_000;

/// A resolved set of packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Version of the Python it was resolved for.
    pub python: String,
    /// The packages, sorted by name.
    pub packages: Vec<Package>,
}

/// One package of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Normalised name.
    pub name: String,
    /// Version, where the package has one before it is built.
    pub version: Option<String>,
    /// What installs exactly this: `torch==2.13.0`, or `name @ url`.
    pub requirement: String,
    /// Bytes to download, where known.
    pub size: Option<u64>,
    /// SHA-256 of a local file, which may change under one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Why a resolver's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It is no TOML, or not the tables that were expected.
    #[error("uv's lock cannot be read: {0}")]
    Format(#[from] toml::de::Error),
    /// A package without anything to install it from.
    #[error("uv's lock has no version and no place for {0}")]
    NoSource(String),
}

#[derive(Deserialize)]
struct Pylock {
    #[serde(default)]
    packages: Vec<Raw>,
}

#[derive(Deserialize)]
struct Raw {
    name: String,
    version: Option<String>,
    #[serde(default)]
    wheels: Vec<File>,
    sdist: Option<File>,
    archive: Option<File>,
    directory: Option<Folder>,
    vcs: Option<Vcs>,
}

#[derive(Deserialize)]
struct File {
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct Folder {
    path: String,
}

#[derive(Deserialize)]
struct Vcs {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
    #[serde(rename = "commit-id")]
    commit: String,
}

impl Lock {
    /// Reads `pylock.toml` as uv prints it for one Python; relative paths are below `folder`.
    ///
    /// # Errors
    /// When the text is not of that format.
    pub fn parse(text: &str, python: &str, folder: &Path) -> Result<Lock, LockError> {
        let raw: Pylock = toml::from_str(text)?;
        let mut packages = Vec::new();
        for package in raw.packages {
            packages.push(read(package, folder)?);
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Lock {
            python: python.to_owned(),
            packages,
        })
    }

    /// SHA-256 of the packages and the Python, as 64 hexadecimal digits.
    pub fn key(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(format!(
            "coreai-audit environment 1\n{} {} {}\n",
            self.python,
            std::env::consts::OS,
            std::env::consts::ARCH
        ));
        for package in &self.packages {
            let content = package.content.as_deref().unwrap_or_default();
            hasher.update(format!("{} {content}\n", package.requirement));
        }
        hex(&hasher.finalize())
    }

    /// Looks at local files again: their content may have changed since the lock was written.
    pub fn look_again(&mut self) {
        for package in &mut self.packages {
            if let Some((_, path)) = package.requirement.split_once(" @ file://") {
                package.content = sha256_of(Path::new(path));
            }
        }
    }

    /// One requirement a line.
    pub fn lines(&self) -> String {
        self.packages
            .iter()
            .map(|p| p.requirement.clone() + "\n")
            .collect()
    }

    /// Name → version.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let version = |p: &Package| p.version.clone().unwrap_or_else(|| p.requirement.clone());
        self.packages
            .iter()
            .map(|p| (p.name.clone(), version(p)))
            .collect()
    }

    /// Bytes of disk that installing takes where the packages `missing` are not in the installer's cache,
    /// or all packages' files have to be copied.
    pub fn disk(&self, missing: Option<&[String]>) -> u64 {
        let needed = |p: &&Package| missing.is_none_or(|m| m.contains(&p.name));
        let download: u64 = self
            .packages
            .iter()
            .filter(needed)
            .map(|p| p.size.unwrap_or(UNKNOWN_SIZE))
            .fold(0, u64::saturating_add);
        FRAME.saturating_add((download as f64 * UNPACKED) as u64)
    }
}

fn read(raw: Raw, folder: &Path) -> Result<Package, LockError> {
    let local = |path: &str| folder.join(path);
    let url_of = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        format!("file://{}", path.display())
    };
    let file = raw.archive.as_ref();
    let (place, content) = if let Some(path) = file.and_then(|f| f.path.as_deref()) {
        (Some(url_of(&local(path))), sha256_of(&local(path)))
    } else if let Some(url) = file.and_then(|f| f.url.clone()) {
        let content = url
            .strip_prefix("file://")
            .and_then(|p| sha256_of(Path::new(p)));
        (Some(url), content)
    } else if let Some(directory) = &raw.directory {
        (Some(url_of(&local(&directory.path))), None)
    } else if let Some(vcs) = &raw.vcs {
        let url = vcs.url.as_deref().unwrap_or_default();
        (Some(format!("{}+{url}@{}", vcs.kind, vcs.commit)), None)
    } else {
        (None, None)
    };
    let requirement = match (place, &raw.version) {
        (Some(place), _) => format!("{} @ {place}", raw.name),
        (None, Some(version)) => format!("{}=={version}", raw.name),
        (None, None) => return Err(LockError::NoSource(raw.name)),
    };
    let size = raw
        .wheels
        .iter()
        .map(|w| w.size)
        .chain([
            raw.sdist.and_then(|s| s.size),
            raw.archive.and_then(|a| a.size),
        ])
        .find_map(|size| size);
    Ok(Package {
        name: raw.name,
        version: raw.version,
        requirement,
        size,
        content,
    })
}

fn sha256_of(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match std::io::Read::read(&mut file, &mut buffer).ok()? {
            0 => return Some(hex(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
lock-version = "1.0"
created-by = "uv"
[[packages]]
name = "torch"
version = "2.13.0"
wheels = [{ url = "https://example.org/torch-2.13.0-cp311.whl", upload-time = 2026-07-08T16:04:07Z, size = 1000, hashes = { sha256 = "60" } }]
[[packages]]
name = "shim"
archive = { path = "shim-1.0-py3-none-any.whl", hashes = { sha256 = "aa" } }
[[packages]]
name = "mine"
directory = { path = "mine", editable = true }
[[packages]]
name = "theirs"
vcs = { type = "git", url = "https://example.org/theirs", commit-id = "abc" }
"#;

    #[test]
    fn a_lock_says_what_installs_exactly_this() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("shim-1.0-py3-none-any.whl"), "wheel").unwrap();
        let lock = Lock::parse(TEXT, "3.11.7", dir.path()).unwrap();
        let at = dir.path().display();
        assert_eq!(
            lock.lines(),
            format!(
                "mine @ file://{at}/mine\nshim @ file://{at}/shim-1.0-py3-none-any.whl\n\
                 theirs @ git+https://example.org/theirs@abc\ntorch==2.13.0\n"
            )
        );
        assert_eq!(lock.versions()["torch"], "2.13.0");
        let before = lock.key();
        std::fs::write(dir.path().join("shim-1.0-py3-none-any.whl"), "another").unwrap();
        let after = Lock::parse(TEXT, "3.11.7", dir.path()).unwrap().key();
        assert_ne!(before, after, "a local file may change under one name");
        let other = Lock::parse(TEXT, "3.12.0", dir.path()).unwrap().key();
        assert_ne!(after, other, "another Python is another environment");
    }

    #[test]
    fn disk_is_counted_for_what_is_missing() {
        let lock = Lock::parse(TEXT, "3.11.7", Path::new(".")).unwrap();
        assert_eq!(lock.disk(Some(&[])), FRAME);
        assert_eq!(lock.disk(Some(&["torch".into()])), FRAME + 1750);
        assert_eq!(
            lock.disk(None),
            FRAME + ((1000 + 3 * UNKNOWN_SIZE) as f64 * UNPACKED) as u64
        );
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        assert!(Lock::parse("packages = 3", "3.11", Path::new(".")).is_err());
        let bare = "[[packages]]\nname = \"x\"\n";
        assert_eq!(
            Lock::parse(bare, "3.11", Path::new("."))
                .unwrap_err()
                .to_string(),
            "uv's lock has no version and no place for x"
        );
    }
}
