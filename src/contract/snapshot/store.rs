//! The folder of snapshots.

use super::names::{file_stem, same_file, same_stem};
use super::{Snapshot, SnapshotError};
use crate::contract::{diff, file, Change, Contract};
use crate::files::write_atomically;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder of accepted and pending contracts.
///
/// The folder need not exist until something is written.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    ci: bool,
}

/// A contract against the accepted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing was accepted yet.
    New,
    /// As accepted.
    Same,
    /// Different from what was accepted.
    Changed(Vec<Change>),
}

/// What the folder has of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The model.
    pub model: String,
    /// There is an accepted contract.
    pub accepted: bool,
    /// There is a contract to review.
    pub pending: bool,
    /// No known model has this name, which is not told where the models are not known; or the file's name
    /// is one that no model's snapshot has.
    pub orphaned: bool,
}

/// Which of a model's two files.
#[derive(Clone, Copy)]
enum Kind {
    Accepted,
    Pending,
}

impl Kind {
    fn extension(self) -> &'static str {
        match self {
            Kind::Accepted => ".snap",
            Kind::Pending => ".snap.new",
        }
    }
}

impl Store {
    /// The snapshots in `dir`; with `ci`, nothing is ever written, accepted or removed.
    pub fn new(dir: &Path, ci: bool) -> Self {
        Store {
            dir: dir.to_owned(),
            ci,
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the accepted contract of a model is, or would be.
    pub fn accepted_path(&self, model: &str) -> Result<PathBuf, SnapshotError> {
        self.path(model, Kind::Accepted)
    }

    /// Where the pending contract of a model is, or would be.
    pub fn pending_path(&self, model: &str) -> Result<PathBuf, SnapshotError> {
        self.path(model, Kind::Pending)
    }

    fn path(&self, model: &str, kind: Kind) -> Result<PathBuf, SnapshotError> {
        Ok(self.dir.join(file_stem(model)? + kind.extension()))
    }

    /// The accepted contract of a model, if there is one.
    pub fn load(&self, model: &str) -> Result<Option<Snapshot>, SnapshotError> {
        self.read(model, Kind::Accepted)
    }

    /// The pending contract of a model, if there is one.
    pub fn load_pending(&self, model: &str) -> Result<Option<Snapshot>, SnapshotError> {
        self.read(model, Kind::Pending)
    }

    fn read(&self, model: &str, kind: Kind) -> Result<Option<Snapshot>, SnapshotError> {
        let path = self.path(model, kind)?;
        let text = match regular(&path) {
            Ok(text) => text,
            Err(file::FileError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let snapshot = Snapshot::parse(&text, &path.display().to_string())?;
        match &snapshot.model {
            // A file that was renamed along with its model still carries the old name; that is fine. A
            // name that leads to this very file belongs to another model.
            Some(owner) if owner != model && same_file(owner, model) => {
                Err(SnapshotError::Collision {
                    path,
                    owner: owner.clone(),
                    model: model.to_owned(),
                })
            }
            _ => Ok(Some(snapshot)),
        }
    }

    /// Compares a contract with the accepted one.
    pub fn check(&self, model: &str, contract: &Contract) -> Result<Status, SnapshotError> {
        let Some(accepted) = self.load(model)? else {
            return Ok(Status::New);
        };
        let changes = diff(&accepted.contract, contract);
        Ok(if changes.is_empty() {
            Status::Same
        } else {
            Status::Changed(changes)
        })
    }

    /// Writes a contract as pending. `info` names the versions of what made it.
    pub fn store_pending(
        &self,
        model: &str,
        contract: &Contract,
        info: &[(String, String)],
    ) -> Result<(), SnapshotError> {
        let path = self.pending_path(model)?;
        self.may_write(&path, "written")?;
        // Another model's snapshot must not be replaced by this one's; a broken pending one may.
        self.load(model)?;
        if let Err(collision @ SnapshotError::Collision { .. }) = self.load_pending(model) {
            return Err(collision);
        }
        let snapshot = Snapshot {
            model: Some(model.to_owned()),
            info: info.to_vec(),
            contract: contract.clone(),
        };
        self.write(&path, &snapshot)
    }

    /// Makes the pending contract the accepted one.
    pub fn accept(&self, model: &str) -> Result<(), SnapshotError> {
        let pending = self.pending_path(model)?;
        self.may_write(&pending, "accepted")?;
        let Some(mut snapshot) = self.load_pending(model)? else {
            return Err(SnapshotError::NoPending {
                model: model.to_owned(),
                path: pending,
            });
        };
        snapshot.model.get_or_insert_with(|| model.to_owned());
        self.write(&self.accepted_path(model)?, &snapshot)?;
        remove(&pending)?;
        Ok(())
    }

    /// Throws the pending contract away.
    pub fn reject(&self, model: &str) -> Result<(), SnapshotError> {
        let path = self.pending_path(model)?;
        self.may_write(&path, "rejected")?;
        match remove(&path)? {
            true => Ok(()),
            false => Err(SnapshotError::NoPending {
                model: model.to_owned(),
                path,
            }),
        }
    }

    /// Throws the pending contract away, if there is one: what is converted now is as accepted.
    pub fn discard_pending(&self, model: &str) -> Result<(), SnapshotError> {
        let path = self.pending_path(model)?;
        if path.exists() {
            self.may_write(&path, "removed")?;
            remove(&path)?;
        }
        Ok(())
    }

    /// What the folder has, by name. With the names of all models, tells which files belong to none; two
    /// models that would share a file are an error.
    pub fn list(&self, known: Option<&[&str]>) -> Result<Vec<Entry>, SnapshotError> {
        Ok(self.entries(known)?.into_values().collect())
    }

    /// The entries by file name without extension.
    fn entries(&self, known: Option<&[&str]>) -> Result<BTreeMap<String, Entry>, SnapshotError> {
        // From file name to model; a model may have a name that no file can have.
        let mut models: BTreeMap<String, &str> = BTreeMap::new();
        for model in known.unwrap_or_default() {
            if let Some(owner) = models.insert(file_stem(model)?.to_lowercase(), model) {
                let path = self.accepted_path(model)?;
                return Err(SnapshotError::Collision {
                    path,
                    owner: owner.to_owned(),
                    model: (*model).to_owned(),
                });
            }
        }
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for name in self.file_names()? {
            let (stem, kind) = match (name.strip_suffix(".snap"), name.strip_suffix(".snap.new")) {
                (Some(stem), _) => (stem, Kind::Accepted),
                (_, Some(stem)) => (stem, Kind::Pending),
                _ => continue,
            };
            let model = models.get(&stem.to_lowercase());
            let entry = entries.entry(stem.to_owned()).or_insert_with(|| {
                let model = model.map_or_else(|| self.model_of(stem, &name), |m| (*m).to_owned());
                let unknown = known.is_some() && !models.contains_key(&stem.to_lowercase());
                // Whoever looks for the model's snapshot looks elsewhere.
                let misnamed = !file_stem(&model).is_ok_and(|own| same_stem(&own, stem));
                Entry {
                    orphaned: unknown || misnamed,
                    model,
                    accepted: false,
                    pending: false,
                }
            });
            match kind {
                Kind::Accepted => entry.accepted = true,
                Kind::Pending => entry.pending = true,
            }
        }
        Ok(entries)
    }

    /// The model behind a file that no known model has: the one its header names, if that name leads to
    /// this file (`in/out` to `in_out.snap`), else what the file name says. A file that cannot be read
    /// still has a name.
    fn model_of(&self, stem: &str, file: &str) -> String {
        let text = regular(&self.dir.join(file)).ok();
        let snapshot = text.and_then(|text| Snapshot::parse(&text, file).ok());
        let owner = snapshot.and_then(|snapshot| snapshot.model);
        owner
            .filter(|owner| same_file(owner, stem))
            .unwrap_or_else(|| stem.to_owned())
    }

    /// File names of snapshots that belong to none of the models.
    pub fn orphans(&self, known: &[&str]) -> Result<Vec<String>, SnapshotError> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let orphaned = self
            .entries(Some(known))?
            .into_iter()
            .filter(|(_, entry)| entry.orphaned);
        let file_name = |(stem, entry): (String, Entry)| {
            let kind = if entry.accepted {
                Kind::Accepted
            } else {
                Kind::Pending
            };
            stem + kind.extension()
        };
        Ok(orphaned.map(file_name).collect())
    }

    fn file_names(&self) -> Result<Vec<String>, SnapshotError> {
        let failed = |source| SnapshotError::Folder {
            dir: self.dir.clone(),
            source,
        };
        let mut names = Vec::new();
        for file in fs::read_dir(&self.dir).map_err(failed)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = file.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn may_write(&self, path: &Path, action: &'static str) -> Result<(), SnapshotError> {
        if self.ci {
            return Err(SnapshotError::Ci {
                path: path.to_owned(),
                action,
            });
        }
        Ok(())
    }

    fn write(&self, path: &Path, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let failed = |source| SnapshotError::Write {
            path: path.to_owned(),
            action: "written",
            source,
        };
        fs::create_dir_all(&self.dir).map_err(failed)?;
        write_atomically(path, snapshot.to_text().as_bytes()).map_err(failed)
    }
}

/// The text of a file of the folder. A pipe would wait for its other end, so it is not opened.
fn regular(path: &Path) -> Result<String, file::FileError> {
    match fs::metadata(path) {
        Ok(about) if !about.is_file() && !about.is_dir() => Err(file::FileError::Read {
            path: path.to_owned(),
            source: io::Error::other("it is no regular file"),
        }),
        _ => file::read_text(path),
    }
}

/// Removes a file; `false` if there was none.
fn remove(path: &Path) -> Result<bool, SnapshotError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SnapshotError::Write {
            path: path.to_owned(),
            action: "removed",
            source,
        }),
    }
}
