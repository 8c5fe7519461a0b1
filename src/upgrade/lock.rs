//! A resolved set of packages: exactly what an environment is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::content::digest;
use super::requirements::Gathered;

/// What a wheel takes on disk for each byte of its download, measured on the packages of PyTorch 2.13
/// with CUDA 13 (2.87 GB of wheels, 4.9 GB installed).
const UNPACKED: f64 = 1.75;
/// Taken for a package whose size the index does not tell, in bytes.
const UNKNOWN_SIZE: u64 = 20_000_000;
/// What an environment takes beside its packages' files, which are links: folders, scripts, metadata.
const FRAME: u64 = 60_000_000;

/// The index of uv where nothing else is said, and where its files are.
const PYPI: &str = "https://pypi.org/simple";
const PYPI_FILES: &str = "https://files.pythonhosted.org/";

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

/// Makes paths absolute: the lock is installed elsewhere than it was made. Nothing stays editable: an
/// environment does not change while it stands.
fn settle(package: &mut toml::Table, folder: &Path) {
    let absolute = |table: &mut toml::Table| {
        if let Some(toml::Value::String(path)) = table.get_mut("path") {
            let joined = folder.join(&*path);
            *path = plain(&joined).display().to_string();
        }
    };
    for key in ["archive", "directory", "vcs", "sdist"] {
        if let Some(toml::Value::Table(table)) = package.get_mut(key) {
            absolute(table);
            table.remove("editable");
        }
    }
    if let Some(toml::Value::Array(wheels)) = package.get_mut("wheels") {
        let tables = wheels.iter_mut().filter_map(toml::Value::as_table_mut);
        tables.for_each(absolute);
    }
}

/// Says which index a package is from, where its files tell: uv caches what it downloads by index, and
/// would download again what it has from another one.
fn name_index(package: &mut toml::Table, asked: &Gathered) {
    let files = package.get("wheels").and_then(|w| w.as_array());
    let files = files.into_iter().flatten().chain(package.get("sdist"));
    let urls: Option<Vec<&str>> = files.map(|f| f.get("url")?.as_str()).collect();
    let urls = urls.unwrap_or_default();
    let of_host = |index: &&str, files: &str| {
        let host = host_of(files);
        host.is_some() && urls.iter().all(|u| host_of(u) == host) && !index.is_empty()
    };
    let given = asked.index_urls();
    let mut given = given.filter(|index| of_host(index, index));
    let index = match given.next() {
        Some(index) => Some(index),
        None => Some(PYPI).filter(|index| of_host(index, PYPI_FILES)),
    };
    if let (Some(index), false) = (index, urls.is_empty() || package.contains_key("index")) {
        let index = without_password(index);
        package.insert("index".to_owned(), toml::Value::String(index));
    }
}

/// The host of a URL, without name and password.
fn host_of(url: &str) -> Option<&str> {
    let host = url.split_once("://")?.1.split('/').next()?;
    Some(host.rsplit('@').next().unwrap_or(host)).filter(|h| !h.is_empty())
}

/// A URL without the name and password in it.
pub(super) fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let user = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[user..])
        }
        None => url.to_owned(),
    }
}

/// Absolute, without `.` in it.
fn plain(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.components().collect()
}

/// Leaves the files of a package that have a hash asked for; all where none is.
fn enforce(package: &mut toml::Table, asked: &Gathered) -> Result<(), LockError> {
    let text = |key: &str| {
        package
            .get(key)
            .and_then(|v| v.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let (name, version) = (text("name"), text("version"));
    let refused = |why| LockError::NotHashed {
        package: name.clone(),
        why,
    };
    let Some(hashes) = asked.hashes.get(&name) else {
        return match asked.all_hashed {
            true => Err(refused(
                "has no hash in the requirements, and they say --require-hashes",
            )),
            false => Ok(()),
        };
    };
    if package.contains_key("directory") || package.contains_key("vcs") {
        return Err(refused(
            "has a hash in the requirements, and is no file that could be compared with it",
        ));
    }
    let mut there = Vec::new();
    let mut fits = |file: &toml::Value| {
        let of_file = file.get("hashes").and_then(|h| h.as_table());
        of_file.into_iter().flatten().any(|(kind, digits)| {
            let hash = format!("{kind}:{}", digits.as_str().unwrap_or_default());
            let fits = hashes.contains(&hash);
            there.push(hash);
            fits
        })
    };
    let mut left = false;
    if let Some(toml::Value::Array(wheels)) = package.get_mut("wheels") {
        wheels.retain(&mut fits);
        left = !wheels.is_empty();
        if !left {
            package.remove("wheels");
        }
    }
    for key in ["sdist", "archive"] {
        match package.get(key).map(&mut fits) {
            Some(true) => left = true,
            Some(false) => drop(package.remove(key)),
            None => {}
        }
    }
    if left {
        return Ok(());
    }
    let more = there.len().saturating_sub(1);
    let mut shown = there
        .into_iter()
        .next()
        .unwrap_or_else(|| "none".to_owned());
    if more > 0 {
        shown.push_str(&format!(" or one of {more} others"));
    }
    Err(LockError::Hash {
        package: format!("{name}=={version}")
            .trim_end_matches("==")
            .to_owned(),
        asked: crate::text::list(hashes),
        there: shown,
    })
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
vcs = { type = "git", url = "https://example.org/theirs", commit-id = "abc", subdirectory = "sub" }
"#;

    fn parse(text: &str, python: &str, folder: &Path) -> Result<Lock, LockError> {
        Lock::parse(text, python, folder, &Gathered::default())
    }

    /// A folder with what the text is about.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("shim-1.0-py3-none-any.whl"), "wheel").unwrap();
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        std::fs::write(dir.path().join("mine/code.py"), "1").unwrap();
        dir
    }

    #[test]
    fn a_lock_says_what_installs_exactly_this() {
        let dir = folder();
        let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
        let at = dir.path().display();
        assert_eq!(
            lock.lines(),
            format!(
                "mine @ file://{at}/mine\nshim @ file://{at}/shim-1.0-py3-none-any.whl\n\
                 theirs @ git+https://example.org/theirs@abc#subdirectory=sub\n\
                 torch==2.13.0 --hash=sha256:60\n"
            )
        );
        assert_eq!(lock.versions()["torch"], "2.13.0");
        assert!(
            lock.text.contains(&format!("path = \"{at}/mine\"\n")),
            "{}",
            lock.text
        );
        assert!(!lock.text.contains("editable"));
        let again: toml::Table = toml::from_str(&lock.text).unwrap();
        assert_eq!(again["lock-version"].as_str(), Some("1.0"));
        assert!(lock.follows_a_branch(&["theirs @ git+https://example.org/theirs@main".into()]));
        assert!(!lock.follows_a_branch(&["theirs @ git+https://example.org/theirs@abc".into()]));
    }

    #[test]
    fn what_is_installed_decides_the_key() {
        let dir = folder();
        let key = || parse(TEXT, "3.11.7", dir.path()).unwrap().key();
        let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
        let mut seen = vec![key()];
        assert_eq!(key(), seen[0]);
        assert!(lock.holds());
        for file in ["shim-1.0-py3-none-any.whl", "mine/code.py", "mine/new.py"] {
            std::fs::write(dir.path().join(file), "another").unwrap();
            assert!(!lock.holds(), "{file}");
            assert!(!seen.contains(&key()), "{file} may change under one name");
            seen.push(key());
        }
        let other = |from: &str, to: &str| {
            parse(&TEXT.replace(from, to), "3.11.7", dir.path())
                .unwrap()
                .key()
        };
        for (from, to) in [
            ("example.org/torch", "example.com/torch"),
            ("sha256 = \"60\"", "sha256 = \"61\""),
            ("subdirectory = \"sub\"", "subdirectory = \"other\""),
        ] {
            assert!(!seen.contains(&other(from, to)), "{from} is not {to}");
        }
        let python = parse(TEXT, "3.12.0", dir.path()).unwrap().key();
        assert!(
            !seen.contains(&python),
            "another Python is another environment"
        );
        std::fs::remove_dir_all(dir.path().join("mine")).unwrap();
        assert!(!lock.holds());
        assert!(parse(TEXT, "3.11.7", dir.path())
            .unwrap_err()
            .to_string()
            .contains("/mine: "));
    }

    #[test]
    fn a_hash_that_is_asked_for_is_enforced() {
        let dir = folder();
        let parsed = |hashes: &[(&str, &str)], all_hashed: bool| {
            let hashes = hashes
                .iter()
                .map(|(n, h)| ((*n).to_owned(), vec![(*h).to_owned()]));
            let asked = Gathered {
                hashes: hashes.collect(),
                all_hashed,
                ..Gathered::default()
            };
            Lock::parse(TEXT, "3.11.7", dir.path(), &asked)
        };
        let said = |hashes: &[(&str, &str)], all| parsed(hashes, all).unwrap_err().to_string();
        assert_eq!(
            parsed(&[("torch", "sha256:60"), ("shim", "sha256:aa")], false)
                .unwrap()
                .key(),
            parse(TEXT, "3.11.7", dir.path()).unwrap().key()
        );
        assert_eq!(
            said(&[("torch", "sha256:61")], false),
            "torch==2.13.0: none of its files has a hash that the requirements ask for (sha256:61): expected sha256:60"
        );
        assert_eq!(
            said(&[("shim", "md5:aa")], false),
            "shim: none of its files has a hash that the requirements ask for (md5:aa): expected sha256:aa"
        );
        assert_eq!(
            said(&[("mine", "sha256:aa")], false),
            "mine: has a hash in the requirements, and is no file that could be compared with it"
        );
        assert_eq!(
            said(&[("torch", "sha256:60")], true),
            "shim: has no hash in the requirements, and they say --require-hashes"
        );
        // Of several files, those with a hash that is asked for are left.
        let two = TEXT.replace("hashes = { sha256 = \"60\" } }]", "hashes = { sha256 = \"60\" } }, { url = \"https://example.org/torch-2.13.0-cp312.whl\", hashes = { sha256 = \"70\" } }]");
        let asked = Gathered {
            hashes: [("torch".to_owned(), vec!["sha256:70".to_owned()])].into(),
            ..Gathered::default()
        };
        let lock = Lock::parse(&two, "3.11.7", dir.path(), &asked).unwrap();
        assert!(lock.text.contains("cp312") && !lock.text.contains("cp311"));
    }

    #[test]
    fn the_index_is_named_where_the_files_tell_it() {
        let dir = folder();
        let index = |host: &str| {
            let asked = Gathered {
                indexes: vec!["--extra-index-url https://me:secret@example.com/whl/cpu".into()],
                ..Gathered::default()
            };
            let text = TEXT.replace(
                "https://example.org/torch",
                &format!("https://{host}/torch"),
            );
            let lock = Lock::parse(&text, "3.11.7", dir.path(), &asked).unwrap();
            let table: toml::Table = toml::from_str(&lock.text).unwrap();
            let named = table["packages"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|p| p.get("index"));
            named
                .map(|i| i.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(index("files.pythonhosted.org"), ["https://pypi.org/simple"]);
        assert_eq!(index("example.com"), ["https://example.com/whl/cpu"]);
        assert_eq!(index("example.net"), [""; 0]);
    }

    #[test]
    fn a_url_of_a_file_is_its_path() {
        assert_eq!(path_of("file:///a%20b/%C3%A4%zz"), Some("/a b/ä%zz".into()));
        assert_eq!(path_of("https://example.org/a"), None);
    }

    #[test]
    fn disk_is_counted_for_what_is_missing() {
        let dir = folder();
        let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
        assert_eq!(lock.disk(Some(&[])), FRAME);
        assert_eq!(lock.disk(Some(&["torch".into()])), FRAME + 1750);
        assert_eq!(
            lock.disk(None),
            FRAME + ((1000 + 3 * UNKNOWN_SIZE) as f64 * UNPACKED) as u64
        );
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        assert!(parse("packages = 3", "3.11", Path::new(".")).is_err());
        let bare = "[[packages]]\nname = \"x\"\n";
        assert_eq!(
            parse(bare, "3.11", Path::new(".")).unwrap_err().to_string(),
            "uv's lock has no version and no place for x"
        );
    }
}
