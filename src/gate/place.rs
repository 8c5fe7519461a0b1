//! Where assets stand, and how they come there whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{GateError, Settings};
use crate::contract::snapshot::Store;
use crate::convert::{Outcome, Step};
use crate::manifest::Model;

/// Renames a whole asset into place, or removes what a failed conversion left.
pub(super) fn place(
    outcome: &Outcome,
    temporary: &Path,
    target: &Path,
) -> Result<Option<PathBuf>, GateError> {
    let failed = |source| GateError::Place {
        path: target.to_owned(),
        source,
    };
    let whole = outcome.saved
        && outcome
            .failure
            .as_ref()
            .is_none_or(|f| f.stage == Step::Describe);
    if !whole {
        if temporary.exists() {
            fs::remove_dir_all(temporary).map_err(failed)?;
        }
        return Ok(None);
    }
    if let Err(error) = replace(temporary, target) {
        // What is in the way stays, and nothing of ours does.
        fs::remove_dir_all(temporary).map_err(failed)?;
        return Err(failed(error));
    }
    Ok(Some(target.to_owned()))
}

/// Puts a folder in the place of another; the old one is gone only when the new one stands.
pub fn replace(temporary: &Path, target: &Path) -> io::Result<()> {
    if !target.exists() {
        return fs::rename(temporary, target);
    }
    if !target.join("main.mlirb").is_file() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} exists and is no asset; move it away", target.display()),
        ));
    }
    let old = target.with_file_name(format!(
        ".{}.old-{}",
        target.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    fs::rename(target, &old)?;
    fs::rename(temporary, target)?;
    fs::remove_dir_all(old)
}

/// The temporary name of an asset: hidden, beside its target, with the suffix the converter insists on.
pub fn temporary_beside(target: &Path) -> PathBuf {
    let stem = target.file_stem().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{stem}.tmp-{}.aimodel", std::process::id()))
}

/// Checks, before anything is converted, that the models can live beside each other.
///
/// # Errors
/// When a name cannot be a file name, or two names would share a file.
pub fn check_names(
    models: &[Model],
    settings: &Settings,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let store = Store::new(&settings.snapshots, settings.ci);
    let mut seen: Vec<(String, &str)> = Vec::new();
    for model in models {
        let path = store.accepted_path(&model.name)?;
        // File systems that ignore case would mix up two that differ in it.
        let key = path.to_string_lossy().to_lowercase();
        if let Some((_, other)) = seen.iter().find(|(k, _)| *k == key) {
            return Err(format!(
                "models {:?} and {other:?} would share the file {}; rename one of them",
                model.name,
                path.display()
            )
            .into());
        }
        seen.push((key, &model.name));
    }
    if settings.snapshots.exists() && !settings.snapshots.is_dir() {
        return Err(format!(
            "{}: expected a folder of snapshots",
            settings.snapshots.display()
        )
        .into());
    }
    Ok(())
}

/// Where a model's asset stands when it is whole.
pub fn asset_path(settings: &Settings, model: &Model) -> PathBuf {
    settings
        .assets
        .join(format!("{}.aimodel", file_stem(&model.name)))
}

/// A model's name as a file name.
fn file_stem(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}
