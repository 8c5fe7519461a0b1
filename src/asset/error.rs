//! What is wrong with a file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A part of the bytecode file, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// Magic number, version, producer.
    Header,
    /// The list of sections.
    Sections,
    /// Section 0.
    Strings,
    /// Section 1.
    Dialects,
    /// Section 2.
    Attributes,
    /// Section 3.
    AttributeSizes,
    /// Section 4.
    Ir,
    /// Section 5.
    Resources,
    /// Section 6.
    ResourceSizes,
    /// Section 8.
    Properties,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Header => "header",
            Section::Sections => "section list",
            Section::Strings => "string section",
            Section::Dialects => "dialect section",
            Section::Attributes => "attribute and type section",
            Section::AttributeSizes => "attribute and type size section",
            Section::Ir => "IR section",
            Section::Resources => "resource section",
            Section::ResourceSizes => "resource size section",
            Section::Properties => "property section",
        })
    }
}

/// A place in a bytecode file that is not what the format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}, {section}: expected {expected}, found {found}")]
pub struct Malformed {
    /// Byte offset in the file.
    pub offset: u64,
    /// The section that was read.
    pub section: Section,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub found: String,
}

/// Why an asset cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// The path is something else than an asset.
    #[error("{}: {what}", path.display())]
    NotAnAsset {
        /// The path.
        path: PathBuf,
        /// What it is, and what to do.
        what: String,
    },
    /// The bytecode is broken, or uses something this reader does not know where it matters.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// The bytecode file.
        path: PathBuf,
        /// Where and what.
        source: Box<Malformed>,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Error {
        Error::Io {
            path: path.to_path_buf(),
            action,
            source,
        }
    }

    pub(crate) fn not_an_asset(path: &Path, what: impl Into<String>) -> Error {
        Error::NotAnAsset {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }

    pub(crate) fn malformed(path: &Path, source: Box<Malformed>) -> Error {
        Error::Malformed {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// Opens a regular file. Anything else is refused before it is opened, because opening a pipe would wait
/// for its other end.
pub(super) fn open_file(path: &Path) -> Result<std::fs::File, Error> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, "open", e))?;
    if !about.is_file() {
        return Err(Error::not_an_asset(
            path,
            "expected a file, found something else",
        ));
    }
    std::fs::File::open(path).map_err(|e| Error::io(path, "open", e))
}

/// [`open_file`], and `None` where there is nothing at the path.
pub(super) fn open_file_if_there(path: &Path) -> Result<Option<std::fs::File>, Error> {
    match open_file(path) {
        Ok(file) => Ok(Some(file)),
        Err(Error::Io { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound
                && std::fs::symlink_metadata(path).is_err() =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
