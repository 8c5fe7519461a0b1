//! Why a snapshot cannot be read or written.

use crate::contract::file::FileError;
use crate::contract::ParseError;
use std::io;
use std::path::PathBuf;

/// Why a snapshot cannot be read, written, accepted or rejected.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read, or is no text.
    #[error(transparent)]
    File(#[from] FileError),
    /// The header is not what insta or this program writes.
    #[error("{origin}:{line}: {message}")]
    Header {
        /// The file.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// The header is fine, the contract below it is not.
    #[error(transparent)]
    Contract(#[from] ParseError),
    /// The folder cannot be listed.
    #[error("cannot list the snapshots in {}: run `coreai-audit gate` to make some, or name their folder with --dir", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A model's name makes no file name.
    #[error("model {}: {problem}; give the model another name", crate::text::name(.model))]
    Name {
        /// The model.
        model: String,
        /// What is wrong with its name.
        problem: &'static str,
    },
    /// Two models would share a file.
    #[error(
        "{}: the snapshot of model {} and of model {}: their names differ only in what file names do not tell \
         apart; rename one of the models",
        path.display(), crate::text::name(.owner), crate::text::name(.model)
    )]
    Collision {
        /// The file.
        path: PathBuf,
        /// The model it belongs to.
        owner: String,
        /// The model that wants it too.
        model: String,
    },
    /// Nothing waits for this model.
    #[error("model {}: no pending snapshot ({} does not exist); `coreai-audit snapshot list` shows what there is", crate::text::name(.model), path.display())]
    NoPending {
        /// The model.
        model: String,
        /// Where it would be.
        path: PathBuf,
    },
    /// Writing was asked for in an automated build.
    #[error("{}: not {action} in an automated build (CI is set); do it locally and commit the file", path.display())]
    Ci {
        /// The file.
        path: PathBuf,
        /// What was asked for: `written`, `accepted`, `rejected`.
        action: &'static str,
    },
    /// A file cannot be written, renamed or removed.
    #[error("{}: cannot be {action}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was tried: `written`, `removed`.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}
