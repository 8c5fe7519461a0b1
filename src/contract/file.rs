//! Reading the text files that hold contracts.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest contract file that is read, in bytes; real ones have a few hundred lines.
pub const MOST_BYTES: u64 = 16 << 20;

/// Why a file is no text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system says no.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder stands where a file is expected.
    #[error("{}: is a folder; expected a file with a contract", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing in it.
    #[error("{}: is empty; expected a contract", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is too large to be a contract.
    #[error("{}: has more than {MOST_BYTES} bytes, too many for a contract", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{}:{line}: not text: byte {offset} of the file is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Line of the first bad byte, from 1.
        line: usize,
        /// Offset of the first bad byte, from 0.
        offset: usize,
    },
}

/// The text of a file of at most [`MOST_BYTES`].
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::IsADirectory => FileError::Folder {
            path: path.to_owned(),
        },
        _ => FileError::Read {
            path: path.to_owned(),
            source,
        },
    };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells too large from just fitting, whatever the file says its size is.
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.is_empty() {
        return Err(FileError::Empty {
            path: path.to_owned(),
        });
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..offset];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        FileError::NotText {
            path: path.to_owned(),
            line,
            offset,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn error(name: &str, bytes: Option<&[u8]>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).unwrap();
        }
        let shown = read_text(&path).unwrap_err().to_string();
        shown.replace(&dir.path().display().to_string(), "DIR")
    }

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(error("gone", None), "DIR/gone: cannot be read");
        assert_eq!(
            error("empty", Some(b"")),
            "DIR/empty: is empty; expected a contract"
        );
        assert_eq!(
            error("latin", Some(b"{\n\"\xe9\"}")),
            "DIR/latin:2: not text: byte 3 of the file is not UTF-8"
        );
        let large = vec![b'['; MOST_BYTES as usize + 1];
        assert_eq!(
            error("large", Some(&large)),
            "DIR/large: has more than 16777216 bytes, too many for a contract"
        );
    }

    #[test]
    fn a_folder_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            read_text(dir.path()),
            Err(FileError::Folder { .. })
        ));
    }
}
