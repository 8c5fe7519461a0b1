//! The files of an asset's directory.

use std::path::Path;

use serde::Serialize;

use crate::asset::{metadata, Asset, Error, HASH, PROGRAM};

/// More entries than this are counted, not listed.
const MAX_LISTED: usize = 1000;

/// The files of an asset.
#[derive(Debug, Default, Serialize)]
pub struct Files {
    /// Size of everything in the directory, in bytes. A part that is a symbolic link counts with what it
    /// leads to, other links with themselves.
    pub total_bytes: u64,
    /// Size of the program.
    pub program_bytes: u64,
    /// The entries, by name; at most a thousand.
    pub entries: Vec<FileEntry>,
}

/// One entry of the directory.
#[derive(Debug, Serialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// What it is to an asset.
    pub role: FileRole,
    /// A symbolic link.
    pub symlink: bool,
    /// Size in bytes, of everything inside where it is a directory.
    pub bytes: u64,
}

/// What an entry is to an asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileRole {
    /// A part of every asset.
    Part,
    /// Not a part of an asset; loaders pass over it.
    Extra,
    /// A part that is not there.
    Missing,
}

const PARTS: [&str; 3] = [HASH, PROGRAM, metadata::FILE];

/// Lists the directory, and the parts that are missing.
pub(super) fn list(asset: &Asset) -> Result<Files, Error> {
    let path = asset.path();
    let mut files = Files {
        program_bytes: asset.program_size(),
        ..Files::default()
    };
    for entry in std::fs::read_dir(path).map_err(|e| Error::io(path, "list", e))? {
        let entry = entry.map_err(|e| Error::io(path, "list", e))?;
        let about = entry
            .metadata()
            .map_err(|e| Error::io(&entry.path(), "look at", e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let part = PARTS.contains(&name.as_str());
        let bytes = if about.is_dir() {
            size_of(&entry.path(), 0)?
        } else if about.is_symlink() && part {
            std::fs::metadata(entry.path()).map_or(0, |led_to| led_to.len())
        } else {
            about.len()
        };
        files.total_bytes = files.total_bytes.saturating_add(bytes);
        let role = if part {
            FileRole::Part
        } else {
            FileRole::Extra
        };
        if files.entries.len() < MAX_LISTED || role == FileRole::Part {
            files.entries.push(FileEntry {
                name,
                role,
                symlink: about.is_symlink(),
                bytes,
            });
        }
    }
    for part in PARTS {
        if !files.entries.iter().any(|e| e.name == part) {
            let (name, role) = (part.to_string(), FileRole::Missing);
            files.entries.push(FileEntry {
                name,
                role,
                symlink: false,
                bytes: 0,
            });
        }
    }
    files.entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Size of everything in a directory; links are not followed, so there are no cycles.
fn size_of(directory: &Path, depth: usize) -> Result<u64, Error> {
    let mut total = 0u64;
    if depth > 16 {
        return Ok(total);
    }
    for entry in std::fs::read_dir(directory).map_err(|e| Error::io(directory, "list", e))? {
        let entry = entry.map_err(|e| Error::io(directory, "list", e))?;
        let about = entry
            .metadata()
            .map_err(|e| Error::io(&entry.path(), "look at", e))?;
        let bytes = if about.is_dir() {
            size_of(&entry.path(), depth + 1)?
        } else {
            about.len()
        };
        total = total.saturating_add(bytes);
    }
    Ok(total)
}
