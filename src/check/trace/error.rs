//! What is wrong with a trace, and where.

use std::io;
use std::path::{Path, PathBuf};

use crate::contract::ParseError;

/// Why a file is no trace, or cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system says no.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operating system does not let it be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file as a whole.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The document in its metadata.
    #[error("{}: document, line {line} column {column}{}: {what}", path.display(), at(key))]
    Document {
        /// The file.
        path: PathBuf,
        /// Line of the document, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// Where in the document: `runs[0].calls[1].inputs`.
        key: String,
        /// What was found and expected.
        what: String,
    },
    /// The document and the tensors do not fit.
    #[error("{}: {key}: {what}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        key: String,
        /// What does not fit.
        what: String,
    },
    /// The contract inside.
    #[error("{}: the contract in it cannot be read", path.display())]
    Contract {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<ParseError>,
    },
}

fn at(key: &str) -> String {
    if key.is_empty() || key == "." {
        String::new()
    } else {
        format!(", {}", crate::text::line(key))
    }
}

impl TraceError {
    pub(super) fn file(path: &Path, what: impl Into<String>) -> TraceError {
        TraceError::File {
            path: path.into(),
            what: what.into(),
        }
    }
}
