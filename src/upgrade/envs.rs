//! The folder of environments that were made: each by its lock, whole or not there.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::installed::{damage, difference, last_written};
use super::interrupt::Interrupt;
use super::lock::{Lock, LockError};
use super::probe::{version, ProbeError};
use super::requirements::Gathered;
use super::spec::python_in;
use super::uv::{Uv, UvError};
use crate::convert::bytes;
use crate::files::write_atomically;

/// Written last; an environment without it is none.
const MARKER: &str = "coreai-audit-env.json";
/// What is installed, as uv reads it.
const LOCK: &str = "pylock.toml";
/// Begins the name of an environment that is being made.
const UNFINISHED: &str = ".making-";
/// Digits of the key in a folder's name.
const KEY_DIGITS: usize = 20;

/// Makes environments and finds them again.
#[derive(Debug)]
pub struct Envs {
    root: PathBuf,
    uv: Uv,
    interrupt: Interrupt,
    cache_dir: OnceLock<PathBuf>,
}

/// Why there is no environment; one line each.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    /// uv says no.
    #[error(transparent)]
    Uv(#[from] UvError),
    /// uv's answer cannot be read.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The Python to make it with cannot be used.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// It would not fit.
    #[error("not enough disk in {}: about {} are needed ({}), {} are free; free some, name another place with --env-dir, or `coreai-audit upgrade envs prune`", place.display(), bytes(*needed), what, bytes(*free))]
    Disk {
        /// Where.
        place: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
        /// Of what the need is made.
        what: String,
    },
    /// What was installed is not what was resolved.
    #[error("what uv installed is not what it resolved: {0}")]
    Other(String),
    /// Local files changed while it was made.
    #[error("{} was changed while it was being installed; run again", .0.display())]
    Changed(PathBuf),
    /// A file or folder cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What stands in an environment's marker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Marker {
    /// Version of this file.
    pub schema_version: u32,
    /// The lock's key.
    pub key: String,
    /// What it was made of.
    pub lock: Lock,
    /// When it was whole, in seconds since 1970; its packages' files are older.
    #[serde(default)]
    pub made: Option<u64>,
}

impl Marker {
    /// A moment by which every file was there.
    fn whole_since(&self) -> Option<SystemTime> {
        // Clocks of file systems count more coarsely than those of processes.
        let margin = Duration::from_secs(2);
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(self.made?) + margin)
    }
}

/// An environment on disk.
#[derive(Debug)]
pub struct Made {
    /// Its folder.
    pub folder: PathBuf,
    /// What it was made of.
    pub marker: Marker,
    /// When it was last used.
    pub used: SystemTime,
}

/// Disk promised to environments that are not made yet.
#[derive(Debug, Default)]
pub struct Promised {
    bytes: u64,
    /// Packages that will be in uv's cache by then.
    packages: HashSet<String>,
}

impl Envs {
    /// Environments below `root`, made with `uv`.
    pub fn new(root: PathBuf, uv: Uv, interrupt: Interrupt) -> Envs {
        Envs {
            root,
            uv,
            interrupt,
            cache_dir: OnceLock::new(),
        }
    }

    /// Where a lock's environment stands, made or not.
    pub fn folder(&self, lock: &Lock) -> PathBuf {
        self.root.join(&lock.key()[..KEY_DIGITS])
    }

    /// The interpreter of a whole environment; tells the folder that it was used.
    pub fn find(&self, lock: &Lock) -> Option<PathBuf> {
        let folder = self.folder(lock);
        let marker = read_marker(&folder)?;
        // One in which somebody lost or changed files is made again.
        if marker.key != lock.key() || damage(&folder, marker.whole_since()).is_some() {
            return None;
        }
        if let Ok(file) = fs::File::options().append(true).open(folder.join(MARKER)) {
            // When it was used last only decides what `prune` takes first.
            let _ = file.set_modified(SystemTime::now());
        }
        python_in(&folder)
    }

    /// Resolves requirements for `python`; `gathered` is what they include. `refresh` looks again at what
    /// uv has cached.
    ///
    /// # Errors
    /// When there is no such set of versions, or it cannot be asked for.
    pub(super) fn resolve(
        &self,
        lines: &[String],
        folder: Option<&Path>,
        (python, version): (&Path, &str),
        gathered: &Gathered,
        refresh: bool,
    ) -> Result<Lock, EnvError> {
        let asked = lines.join("\n");
        let text = self.uv.resolve(&asked, folder, python, refresh)?;
        let here = folder.unwrap_or(Path::new("."));
        Ok(Lock::parse(&text, version, here, gathered)?)
    }

    /// The interpreter and the version of a Python to make environments with: a version (`3.12`), a path,
    /// or `default`.
    ///
    /// # Errors
    /// When there is none.
    pub fn python(
        &self,
        wanted: Option<&str>,
        default: &Path,
    ) -> Result<(PathBuf, String), EnvError> {
        let path = match wanted {
            Some(wanted) => self.uv.python(wanted)?,
            None => default.to_owned(),
        };
        Ok(version(&path, &self.interrupt)?)
    }

    /// Promises disk for an environment that is to be made.
    ///
    /// # Errors
    /// When it would not fit beside what was promised before.
    pub fn promise(
        &self,
        lock: &Lock,
        python: &Path,
        credentials: &[String],
        promised: &mut Promised,
    ) -> Result<(), EnvError> {
        self.make_root()?;
        let scratch = tempfile::tempdir().map_err(|e| io_error(&std::env::temp_dir(), e))?;
        let empty = scratch.path().join("empty");
        self.uv.venv(python, &empty)?;
        let text = write_lock(lock, scratch.path())?;
        let missing = self.uv.missing(&text, &empty, credentials)?;
        let missing = missing.map(|names| {
            let new = |name: &String| !promised.packages.contains(name);
            names.into_iter().filter(new).collect::<Vec<_>>()
        });
        let linked = self.shares_disk_with_cache();
        let needed = match linked {
            true => lock.disk(missing.as_deref()),
            false => lock.disk(None),
        };
        let what = match (&missing, linked) {
            (Some(names), true) => format!(
                "{} of {} packages are not in uv's cache",
                names.len(),
                lock.packages.len()
            ),
            _ => crate::text::count(lock.packages.len(), "package"),
        };
        let free = free(&self.root)?;
        let needed_in_all = promised.bytes.saturating_add(needed);
        if needed_in_all > free {
            return Err(EnvError::Disk {
                place: self.root.clone(),
                needed: needed_in_all,
                free,
                what,
            });
        }
        promised.bytes = needed_in_all;
        promised.packages.extend(missing.into_iter().flatten());
        Ok(())
    }

    /// Makes the environment, or finds it made by somebody else meanwhile; returns its interpreter.
    ///
    /// # Errors
    /// When it cannot be made; nothing is left then.
    pub fn make(
        &self,
        lock: &Lock,
        python: &Path,
        credentials: &[String],
    ) -> Result<PathBuf, EnvError> {
        self.make_root()?;
        let target = self.folder(lock);
        let digits = &lock.key()[..KEY_DIGITS];
        let unfinished = self
            .root
            .join(format!("{UNFINISHED}{}-{digits}", std::process::id()));
        self.interrupt.add_folder(&unfinished);
        let result = self.make_in(lock, python, credentials, (&unfinished, &target));
        if unfinished.exists() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        self.interrupt.keep_folder(&unfinished);
        result?;
        self.find(lock).ok_or_else(|| EnvError::Io {
            path: target,
            source: io::Error::other("the environment was deleted while it was being made"),
        })
    }

    fn make_in(
        &self,
        lock: &Lock,
        python: &Path,
        credentials: &[String],
        (unfinished, target): (&Path, &Path),
    ) -> Result<(), EnvError> {
        if unfinished.exists() {
            fs::remove_dir_all(unfinished).map_err(|e| io_error(unfinished, e))?;
        }
        self.uv.venv(python, unfinished)?;
        let text = write_lock(lock, unfinished)?;
        let local: Vec<&str> = lock.local_packages().collect();
        self.uv.sync(&text, unfinished, &local, credentials)?;
        if let Some(path) = lock.changed() {
            return Err(EnvError::Changed(path.to_owned()));
        }
        if let Some(difference) = difference(lock, unfinished) {
            return Err(EnvError::Other(difference));
        }
        // A package may bring a file from the future.
        let whole = last_written(unfinished).max(Some(SystemTime::now()));
        let whole = whole.unwrap_or(SystemTime::UNIX_EPOCH);
        let marker = Marker {
            schema_version: 1,
            key: lock.key(),
            lock: lock.clone(),
            made: whole
                .duration_since(SystemTime::UNIX_EPOCH)
                .ok()
                .map(|d| d.as_secs()),
        };
        let text =
            serde_json::to_vec_pretty(&marker).map_err(|e| io_error(unfinished, e.into()))?;
        let path = unfinished.join(MARKER);
        write_atomically(&path, &text).map_err(|e| io_error(&path, e))?;
        if target.exists() && self.find(lock).is_none() {
            // Half of one, from somebody who was stopped half way of removing it.
            fs::remove_dir_all(target).map_err(|e| io_error(target, e))?;
        }
        match fs::rename(unfinished, target) {
            // Somebody else was faster.
            Err(_) if self.find(lock).is_some() => Ok(()),
            other => other.map_err(|e| io_error(target, e)),
        }
    }

    fn make_root(&self) -> Result<(), EnvError> {
        fs::create_dir_all(&self.root).map_err(|e| io_error(&self.root, e))?;
        sweep(&self.root);
        Ok(())
    }

    /// Whether files of uv's cache can be linked instead of copied.
    fn shares_disk_with_cache(&self) -> bool {
        let cache = self
            .cache_dir
            .get_or_init(|| self.uv.cache_dir().unwrap_or_default());
        same_disk(cache, &self.root)
    }
}

/// The environments below `root`, the most recently used first.
///
/// # Errors
/// When the folder cannot be read; one that is not there is empty.
pub fn list(root: &Path) -> Result<Vec<Made>, EnvError> {
    let mut all = Vec::new();
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(all),
        Err(e) => return Err(io_error(root, e)),
    };
    for entry in entries {
        let folder = entry.map_err(|e| io_error(root, e))?.path();
        let Some(marker) = read_marker(&folder) else {
            continue;
        };
        let used = fs::metadata(folder.join(MARKER)).and_then(|m| m.modified());
        all.push(Made {
            folder,
            marker,
            used: used.unwrap_or(SystemTime::UNIX_EPOCH),
        });
    }
    all.sort_by(|a, b| b.used.cmp(&a.used).then(a.folder.cmp(&b.folder)));
    Ok(all)
}

/// Removes what runs that are gone left unfinished; what a live run is making stays.
pub fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(UNFINISHED) else {
            continue;
        };
        let maker = rest.split('-').next().and_then(|p| p.parse().ok());
        if maker.is_none_or(|pid: u32| !is_alive(pid)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Folders of environments that have no readable marker: nobody uses them.
pub fn spoilt(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_key = name.len() == KEY_DIGITS && name.chars().all(|c| c.is_ascii_hexdigit());
        let path = entry.path();
        if is_key && path.is_dir() && read_marker(&path).is_none() {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// Removes a folder that [`spoilt`] has found.
///
/// # Errors
/// When something of it stays.
pub fn remove_spoilt(folder: &Path) -> Result<(), EnvError> {
    fs::remove_dir_all(folder).map_err(|e| io_error(folder, e))
}

impl Made {
    /// Removes it; the marker first, so that nobody takes the rest for an environment.
    ///
    /// # Errors
    /// When something of it stays.
    pub fn remove(&self) -> Result<(), EnvError> {
        let marker = self.folder.join(MARKER);
        fs::remove_file(&marker).map_err(|e| io_error(&marker, e))?;
        fs::remove_dir_all(&self.folder).map_err(|e| io_error(&self.folder, e))
    }

    /// Bytes of its files, and how many of them are shared with uv's cache or other environments.
    pub fn size(&self) -> (u64, u64) {
        let (mut all, mut shared) = (0, 0);
        let mut open = vec![self.folder.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                if meta.is_dir() {
                    open.push(entry.path());
                } else {
                    all += meta.len();
                    shared += if links(&meta) > 1 { meta.len() } else { 0 };
                }
            }
        }
        (all, shared)
    }

    /// How long ago it was used.
    pub fn unused_for(&self) -> Duration {
        SystemTime::now()
            .duration_since(self.used)
            .unwrap_or_default()
    }
}

/// Writes what uv installs from into `folder`.
fn write_lock(lock: &Lock, folder: &Path) -> Result<PathBuf, EnvError> {
    let path = folder.join(LOCK);
    fs::write(&path, &lock.text).map_err(|e| io_error(&path, e))?;
    Ok(path)
}

fn read_marker(folder: &Path) -> Option<Marker> {
    let text = fs::read(folder.join(MARKER)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn io_error(path: &Path, source: io::Error) -> EnvError {
    EnvError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(unix)]
fn free(folder: &Path) -> Result<u64, EnvError> {
    let stat = rustix::fs::statvfs(folder).map_err(|e| io_error(folder, e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
fn free(_folder: &Path) -> Result<u64, EnvError> {
    Ok(u64::MAX)
}

#[cfg(unix)]
fn same_disk(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A cache that is not there yet will stand where its parent does.
    let device = |p: &Path| {
        p.ancestors()
            .find_map(|p| fs::metadata(p).ok())
            .map(|m| m.dev())
    };
    device(a).is_some() && device(a) == device(b)
}

#[cfg(not(unix))]
fn same_disk(_a: &Path, _b: &Path) -> bool {
    false
}

#[cfg(unix)]
fn links(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(meta)
}

#[cfg(not(unix))]
fn links(_meta: &fs::Metadata) -> u64 {
    1
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    use rustix::process::{test_kill_process, Pid};
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_readable_marker_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, marker: Option<&str>| {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            if let Some(marker) = marker {
                fs::write(folder.join(MARKER), marker).unwrap();
            }
        };
        let good = r#"{"schema_version":1,"key":"k","lock":{"python":"3.11","packages":[]}}"#;
        make("0123456789abcdef0123", Some(good));
        make("1123456789abcdef0123", Some("{"));
        make("2123456789abcdef0123", None);
        make("mine", None);
        for folder in spoilt(dir.path()) {
            remove_spoilt(&folder).unwrap();
        }
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["0123456789abcdef0123", "mine"]);
    }
}
