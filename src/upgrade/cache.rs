//! What earlier runs found out: records of cells, and locks of requirements.
//!
//! A record holds for as long as its environment, the tool and every file that the recipe was made
//! from are the same. Which files those are is only known once the recipe has run, so a record carries
//! their hashes, and is looked up by everything else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::job::share;
use super::lock::{hex, Lock};
use super::record::Record;
use crate::files::write_atomically;
use crate::manifest::Model;

/// Versions of one cell that are kept: a recipe may go back and forth.
const MOST_VERSIONS: usize = 8;
/// Files above this are known by size and time instead of content, in bytes.
const HASHED_BELOW: u64 = 16 << 20;
/// A record is read up to this size, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Everything that decides a cell but the content of the recipe's files.
#[derive(Clone, Copy, Debug)]
pub struct CellKey<'a> {
    /// Of the environment.
    pub environment: &'a str,
    /// Of the environment that the reference is recorded in.
    pub reference: &'a str,
    /// Of the tool that runs.
    pub tool: &'a str,
    /// What is asked of the cell, as [`request`] writes it.
    pub request: &'a str,
}

/// Everything of a model's settings that its record depends on, as one text.
pub fn request(model: &Model, debug_info: bool) -> String {
    // Every field is named, so that whoever adds one decides here whether records depend on it.
    let Model {
        // What it is called, and how the record is judged afterwards.
        name: _,
        level: _,
        allow: _,
        // They are in the environment.
        requirements: _,
        file,
        function,
        steps,
        atol,
        rtol,
    } = model;
    let recipe = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    format!("{recipe:?} {function:?} {steps:?} {atol:?} {rtol:?} {debug_info}")
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// The recipe's files, and folders it looked into, with what they held.
    files: Vec<(PathBuf, String)>,
    /// Folders that it imported from, with the names of modules in them: a new one may come first.
    modules: Vec<(PathBuf, String)>,
    /// What the reference held that was recorded with it.
    trace: Option<String>,
    record: Record,
}

impl Cache {
    /// Results below `root`, which need not exist.
    pub fn new(root: PathBuf) -> Cache {
        Cache { root }
    }

    /// The record of a cell, if it still holds, and the reference that was recorded with it.
    pub fn find(&self, key: CellKey<'_>) -> Option<(Record, Option<PathBuf>)> {
        let versions = versions(&self.folder(key));
        versions.into_iter().find_map(|(path, _)| {
            let size = fs::metadata(&path).ok()?.len();
            if size > MOST_BYTES {
                return None;
            }
            let kept: Kept = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let holds = !kept.files.is_empty()
                && kept
                    .files
                    .iter()
                    .all(|(file, held)| content(file).as_ref() == Some(held))
                && kept
                    .modules
                    .iter()
                    .all(|(folder, held)| modules(folder) == *held);
            let trace = trace_beside(&path);
            // Without its reference, or with another one, it is made again.
            if !holds || (kept.trace.is_some() && content(&trace) != kept.trace) {
                return None;
            }
            let mut record = kept.record;
            record.run.cached = true;
            Some((record, kept.trace.map(|_| trace)))
        })
    }

    /// Keeps the record of a cell with the reference that was recorded, and forgets the oldest versions
    /// of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, key: CellKey<'_>, record: &Record, trace: Option<&Path>) -> io::Result<()> {
        let files: Option<Vec<(PathBuf, String)>> = record
            .run
            .files
            .iter()
            .map(|file| Some((file.clone(), content(file)?)))
            .collect();
        // A file that is gone again cannot be compared next time.
        let Some(files) = files.filter(|f| !f.is_empty()) else {
            return Ok(());
        };
        let folder = self.folder(key);
        fs::create_dir_all(&folder)?;
        let mut hasher = Sha256::new();
        for (file, held) in &files {
            hasher.update(format!("{}\n{held}\n", file.display()));
        }
        let name = format!("{}.json", &hex(&hasher.finalize())[..20]);
        let path = folder.join(name);
        let beside = trace_beside(&path);
        if let Some(trace) = trace.filter(|t| t.is_file()) {
            share(trace, &beside)?;
        }
        let kept = Kept {
            modules: imported_from(&files),
            files,
            trace: content(&beside),
            record: record.clone(),
        };
        write_atomically(&path, &serde_json::to_vec(&kept)?)?;
        for (old, _) in versions(&folder).into_iter().skip(MOST_VERSIONS) {
            let trace = trace_beside(&old);
            if trace.is_file() {
                fs::remove_file(trace)?;
            }
            fs::remove_file(old)?;
        }
        Ok(())
    }

    /// The lock of an earlier run for the same question; local files may have changed since.
    pub fn find_lock(&self, question: &str) -> Option<Lock> {
        let text = fs::read(self.lock_path(question)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps a lock under its question.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_lock(&self, question: &str, lock: &Lock) -> io::Result<()> {
        let path = self.lock_path(question);
        fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
        write_atomically(&path, &serde_json::to_vec_pretty(lock)?)
    }

    fn lock_path(&self, question: &str) -> PathBuf {
        let digest = hex(&Sha256::digest(question.as_bytes()));
        self.root
            .join("locks")
            .join(format!("{}.json", &digest[..20]))
    }

    fn folder(&self, key: CellKey<'_>) -> PathBuf {
        let mut hasher = Sha256::new();
        let fields = [
            "coreai-audit cell 2",
            key.environment,
            key.reference,
            key.tool,
            key.request,
        ];
        for field in fields {
            hasher.update((field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        self.root.join("cells").join(&hex(&hasher.finalize())[..32])
    }
}

/// Where the reference stands that was recorded with a record.
fn trace_beside(record: &Path) -> PathBuf {
    record.with_extension("trace.safetensors")
}

/// The kept versions of a cell, newest first.
fn versions(folder: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "json"))
        .filter_map(|e| Some((e.path(), e.metadata().ok()?.modified().ok()?)))
        .collect();
    all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    all
}

/// The folders of Python files, each with the modules in it.
fn imported_from(files: &[(PathBuf, String)]) -> Vec<(PathBuf, String)> {
    let is_python = |p: &&Path| p.extension().is_some_and(|e| e == "py");
    let python = files
        .iter()
        .map(|(file, _)| file.as_path())
        .filter(is_python);
    let folders: BTreeSet<&Path> = python.filter_map(Path::parent).collect();
    let held = |folder: &Path| (folder.to_owned(), modules(folder));
    folders.into_iter().map(held).collect()
}

/// A hash of the names in a folder that an import finds.
fn modules(folder: &Path) -> String {
    let is_module = |path: &Path| {
        let extension = path.extension().and_then(|e| e.to_str());
        matches!(extension, Some("py" | "so" | "pyd"))
    };
    names(folder, |path| {
        is_module(path)
            || fs::read_dir(path)
                .is_ok_and(|mut inner| inner.any(|e| e.is_ok_and(|e| is_module(&e.path()))))
    })
}

/// A hash of the names in a folder, of those that count.
fn names(folder: &Path, counts: impl Fn(&Path) -> bool) -> String {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name() != "__pycache__" && counts(&e.path()))
        .map(|e| format!("{:?}\n", e.file_name()))
        .collect();
    names.sort();
    hex(&Sha256::digest(names.concat()))
}

/// What a file holds: a hash, or size and time where it is large; of a folder the names in it; `None` where
/// it cannot be read.
fn content(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    if meta.is_dir() {
        return Some(names(path, |_| true));
    }
    if meta.len() > HASHED_BELOW {
        let time = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        return Some(format!("{} bytes at {}", meta.len(), time.as_nanos()));
    }
    Some(hex(&Sha256::digest(fs::read(path).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(environment: &str) -> CellKey<'_> {
        CellKey {
            environment,
            reference: "r",
            tool: "t",
            request: "q",
        }
    }

    #[test]
    fn every_setting_that_a_record_depends_on_is_asked_for() {
        let model = || Model {
            file: "r.py".into(),
            function: "f".into(),
            ..Model::default()
        };
        let with = |change: &dyn Fn(&mut Model)| {
            let mut model = model();
            change(&mut model);
            request(&model, false)
        };
        let requests = [
            request(&model(), false),
            request(&model(), true),
            with(&|m| m.file = "s.py".into()),
            with(&|m| m.function = "g".into()),
            with(&|m| m.steps = Some(3)),
            with(&|m| m.atol = Some(1e-30)),
            with(&|m| m.rtol = Some(1e-30)),
            with(&|m| m.atol = Some(2e-30)),
        ];
        let distinct: std::collections::HashSet<&String> = requests.iter().collect();
        assert_eq!(distinct.len(), requests.len(), "{requests:?}");
        // How a record is judged is no part of it.
        let same = with(&|m| {
            m.name = "other".into();
            m.level = crate::contract::Level::Strict;
        });
        assert_eq!(same, requests[0]);
    }

    fn record(files: &[&Path], warning: &str) -> Record {
        let mut record = Record {
            warnings: vec![warning.to_owned()],
            ..Record::default()
        };
        record.run.files = files.iter().map(|f| (*f).to_owned()).collect();
        record
    }

    #[test]
    fn a_record_holds_while_its_files_hold() {
        let dir = tempfile::tempdir().unwrap();
        let (recipe, helper) = (dir.path().join("r.py"), dir.path().join("h.py"));
        fs::write(&recipe, "1").unwrap();
        fs::write(&helper, "1").unwrap();
        let cache = Cache::new(dir.path().join("cache"));
        let found = |cache: &Cache| cache.find(key("e")).map(|(r, _)| r.warnings[0].clone());
        assert_eq!(found(&cache), None);
        cache
            .keep(key("e"), &record(&[&recipe, &helper], "one"), None)
            .unwrap();
        assert_eq!(found(&cache).as_deref(), Some("one"));
        assert!(cache.find(key("e")).unwrap().0.run.cached);
        assert!(cache.find(key("other")).is_none());

        fs::write(&helper, "2").unwrap();
        assert_eq!(found(&cache), None);
        cache
            .keep(key("e"), &record(&[&recipe, &helper], "two"), None)
            .unwrap();
        assert_eq!(found(&cache).as_deref(), Some("two"));
        fs::write(&helper, "1").unwrap();
        assert_eq!(
            found(&cache).as_deref(),
            Some("one"),
            "a file that goes back finds its record again"
        );
        fs::remove_file(&helper).unwrap();
        assert_eq!(found(&cache), None);
    }

    #[test]
    fn a_record_ends_where_an_import_or_a_listing_would_find_something_new() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "1").unwrap();
        };
        let (recipe, listed) = (dir.path().join("r.py"), dir.path().join("conf"));
        write("r.py");
        write("conf/a.json");
        let cache = Cache::new(dir.path().join("cache"));
        let keep = || {
            cache
                .keep(key("e"), &record(&[&recipe, &listed], "one"), None)
                .unwrap()
        };
        keep();
        for other in ["notes.txt", "results/1.json", "__pycache__/r.pyc"] {
            write(other);
            assert!(cache.find(key("e")).is_some(), "{other}");
        }
        for new in ["fast.py", "package/__init__.py", "native.so", "conf/b.json"] {
            write(new);
            assert!(cache.find(key("e")).is_none(), "{new}");
            keep();
            assert!(cache.find(key("e")).is_some(), "{new}");
        }
    }

    #[test]
    fn a_record_ends_with_its_reference() {
        let dir = tempfile::tempdir().unwrap();
        let (recipe, trace) = (dir.path().join("r.py"), dir.path().join("t"));
        fs::write(&recipe, "1").unwrap();
        fs::write(&trace, "trace").unwrap();
        let cache = Cache::new(dir.path().join("cache"));
        let keep = || {
            cache
                .keep(key("e"), &record(&[&recipe], "one"), Some(&trace))
                .unwrap()
        };
        keep();
        let kept = cache.find(key("e")).unwrap().1.unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"trace");
        fs::remove_file(&kept).unwrap();
        assert!(
            cache.find(key("e")).is_none(),
            "a check without it would not be one"
        );
        keep();
        fs::remove_file(&kept).unwrap();
        fs::write(&kept, "garbage").unwrap();
        assert!(cache.find(key("e")).is_none());
    }

    #[test]
    fn a_record_without_files_is_not_kept_and_a_spoilt_one_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = dir.path().join("r.py");
        fs::write(&recipe, "1").unwrap();
        let cache = Cache::new(dir.path().join("cache"));
        cache.keep(key("e"), &record(&[], "none"), None).unwrap();
        assert!(cache.find(key("e")).is_none());
        cache
            .keep(key("e"), &record(&[&recipe], "one"), None)
            .unwrap();
        let folder = cache.folder(key("e"));
        let (path, _) = versions(&folder).remove(0);
        fs::write(path, "{").unwrap();
        assert!(cache.find(key("e")).is_none());
    }
}
