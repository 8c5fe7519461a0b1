//! A resolved set of packages: exactly what an environment is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod edit;

use super::content::digest;
use super::requirements::Gathered;
pub(super) use edit::without_password;
use edit::{enforce, name_index, settle};

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
    /// The `pylock.toml` that is installed: paths absolute, nothing editable, only files that may be taken.
    #[serde(default)]
    pub text: String,
}

/// One package of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Normalised name.
    pub name: String,
    /// Version, where the package has one before it is built.
    pub version: Option<String>,
    /// What installs exactly this where no lock can be given: `torch==2.13.0 --hash=…`, or `name @ url`.
    pub requirement: String,
    /// Bytes to download, where known.
    pub size: Option<u64>,
    /// What stands in the installed package's `direct_url.json`; `None` for one of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Files and folders of this machine that it is made from, which may change under one name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<Local>,
}

/// Where a package comes from that no index has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// URL of the archive, folder or repository.
    pub url: String,
    /// Of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The folder in it, where it is not the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subdirectory: Option<String>,
}

/// A file or folder of this machine with what it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// Absolute.
    pub path: PathBuf,
    /// SHA-256.
    pub content: String,
}

/// Why a resolver's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It is no TOML, or not the tables that were expected.
    #[error("uv's lock cannot be read: {0}")]
    Format(#[from] toml::de::Error),
    /// It cannot be written again.
    #[error("uv's lock cannot be kept: {0}")]
    Write(#[from] toml::ser::Error),
    /// A package without anything to install it from.
    #[error("uv's lock has no version and no place for {0}")]
    NoSource(String),
    /// No file has a hash that is asked for.
    #[error("{package}: none of its files has a hash that the requirements ask for ({asked}): expected {there}")]
    Hash {
        /// Name and version.
        package: String,
        /// The hashes asked for.
        asked: String,
        /// Those there are.
        there: String,
    },
    /// There is a hash and nothing to compare it with, or the other way round.
    #[error("{package}: {why}")]
    NotHashed {
        /// Name.
        package: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A local file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Local {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
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
    subdirectory: Option<String>,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Folder {
    path: String,
    subdirectory: Option<String>,
}

#[derive(Deserialize)]
struct Vcs {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
    path: Option<String>,
    #[serde(rename = "commit-id")]
    commit: String,
    subdirectory: Option<String>,
}

impl Lock {
    /// Reads `pylock.toml` as uv prints it for one Python; relative paths are below `folder`. Of the files
    /// of a package for which hashes are `asked`, those with one of them are left.
    ///
    /// # Errors
    /// When the text is not of that format, a hash cannot be had, or a local file cannot be read.
    pub(super) fn parse(
        text: &str,
        python: &str,
        folder: &Path,
        asked: &Gathered,
    ) -> Result<Lock, LockError> {
        let mut table: toml::Table = toml::from_str(text)?;
        if let Some(toml::Value::Array(packages)) = table.get_mut("packages") {
            for package in packages.iter_mut().filter_map(toml::Value::as_table_mut) {
                settle(package, folder);
                name_index(package, asked);
                enforce(package, asked)?;
            }
        }
        let raw: Pylock = table.clone().try_into()?;
        let mut packages = Vec::new();
        for package in raw.packages {
            packages.push(read(package)?);
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Lock {
            python: python.to_owned(),
            packages,
            text: toml::to_string(&table)?,
        })
    }

    /// SHA-256 of what is installed and the Python, as 64 hexadecimal digits.
    pub fn key(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(format!(
            "coreai-audit environment 2\n{} {} {}\n{}\n{}\n",
            self.python,
            std::env::consts::OS,
            std::env::consts::ARCH,
            self.text.len(),
            self.text
        ));
        for package in &self.packages {
            hasher.update(format!("{}\n", package.requirement));
            for local in &package.local {
                hasher.update(format!("{} {}\n", local.path.display(), local.content));
            }
        }
        hex(&hasher.finalize())
    }

    /// Whether local files and folders still hold what they held when this was resolved.
    pub fn holds(&self) -> bool {
        self.changed().is_none()
    }

    /// A local file or folder that holds something else than when this was resolved.
    pub fn changed(&self) -> Option<&Path> {
        self.packages
            .iter()
            .flat_map(|p| &p.local)
            .find(|l| digest(&l.path).ok().as_ref() != Some(&l.content))
            .map(|l| l.path.as_path())
    }

    /// Whether a package comes from a branch, which moves on: its commit stands in none of `lines`.
    pub fn follows_a_branch(&self, lines: &[String]) -> bool {
        let commits = self
            .packages
            .iter()
            .filter_map(|p| p.origin.as_ref()?.commit.as_ref());
        let mut commits = commits.filter(|c| !lines.iter().any(|l| l.contains(c.as_str())));
        commits.next().is_some()
    }

    /// Packages whose build is of local files: what the installer has cached of them may be old.
    pub fn local_packages(&self) -> impl Iterator<Item = &str> {
        let local = self.packages.iter().filter(|p| !p.local.is_empty());
        local.map(|p| p.name.as_str())
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

fn read(raw: Raw) -> Result<Package, LockError> {
    let mut local = Vec::new();
    let mut look = |path: &Path| {
        let content = digest(path).map_err(|source| LockError::Local {
            path: path.to_owned(),
            source,
        })?;
        local.push(Local {
            path: path.to_owned(),
            content,
        });
        Ok::<(), LockError>(())
    };
    for file in raw.wheels.iter().chain(&raw.sdist).chain(&raw.archive) {
        let url = file.url.as_deref().and_then(path_of);
        if let Some(path) = file.path.clone().map(PathBuf::from).or(url) {
            look(&path)?;
        }
    }
    let origin = if let Some(archive) = &raw.archive {
        Some(Origin {
            url: url_of(archive.url.as_deref(), archive.path.as_deref()),
            commit: None,
            subdirectory: archive.subdirectory.clone(),
        })
    } else if let Some(directory) = &raw.directory {
        look(Path::new(&directory.path))?;
        Some(Origin {
            url: url_of(None, Some(&directory.path)),
            commit: None,
            subdirectory: directory.subdirectory.clone(),
        })
    } else {
        raw.vcs.as_ref().map(|vcs| Origin {
            url: url_of(vcs.url.as_deref(), vcs.path.as_deref()),
            commit: Some(vcs.commit.clone()),
            subdirectory: vcs.subdirectory.clone(),
        })
    };
    let files = || raw.wheels.iter().chain(&raw.sdist);
    let requirement = match (&origin, &raw.version) {
        (Some(origin), _) => {
            let kind = raw
                .vcs
                .as_ref()
                .map_or(String::new(), |v| format!("{}+", v.kind));
            let commit = origin
                .commit
                .as_ref()
                .map_or(String::new(), |c| format!("@{c}"));
            let folder = origin.subdirectory.as_ref();
            let folder = folder.map_or(String::new(), |f| format!("#subdirectory={f}"));
            format!("{} @ {kind}{}{commit}{folder}", raw.name, origin.url)
        }
        (None, Some(version)) => {
            let hashes = files().flat_map(|f| &f.hashes);
            let hashes = hashes.map(|(kind, digits)| format!(" --hash={kind}:{digits}"));
            format!("{}=={version}{}", raw.name, hashes.collect::<String>())
        }
        (None, None) => return Err(LockError::NoSource(raw.name)),
    };
    let size = files().chain(&raw.archive).find_map(|f| f.size);
    Ok(Package {
        name: raw.name,
        version: raw.version,
        requirement,
        size,
        origin,
        local,
    })
}

fn url_of(url: Option<&str>, path: Option<&str>) -> String {
    match (url, path) {
        (Some(url), _) => url.to_owned(),
        (None, path) => format!("file://{}", path.unwrap_or_default()),
    }
}

/// The path in a `file://` URL.
pub(super) fn path_of(url: &str) -> Option<PathBuf> {
    let bytes = url.strip_prefix("file://")?.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    Some(PathBuf::from(String::from_utf8(plain).ok()?))
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
