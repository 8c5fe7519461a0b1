//! The hash of an asset.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::Error;

/// Whether the program is what its hash says.
///
/// The loader on Linux does not check it, so a changed asset loads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The stored hash is that of the program.
    Good {
        /// SHA-256 of the program.
        sha256: [u8; 32],
    },
    /// The stored hash is another.
    Mismatch {
        /// What `main.hash` says.
        stored: [u8; 32],
        /// SHA-256 of the program.
        actual: [u8; 32],
    },
    /// There is no `main.hash`.
    Missing {
        /// SHA-256 of the program.
        actual: [u8; 32],
    },
    /// `main.hash` does not hold 32 bytes.
    Unreadable {
        /// How many bytes it holds; at most one more than 32 are counted.
        length: usize,
        /// SHA-256 of the program.
        actual: [u8; 32],
    },
}

impl Integrity {
    /// Whether the stored hash is right.
    pub fn is_good(&self) -> bool {
        matches!(self, Integrity::Good { .. })
    }
}

/// Hashes the program and compares.
pub(super) fn check(program: &Path, hash: &Path) -> Result<Integrity, Error> {
    let actual = sha256(program)?;
    let mut stored = Vec::new();
    match std::fs::File::open(hash) {
        Ok(file) => file
            .take(33)
            .read_to_end(&mut stored)
            .map_err(|e| Error::io(hash, "read", e))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Integrity::Missing { actual })
        }
        Err(e) => return Err(Error::io(hash, "open", e)),
    };
    Ok(match <[u8; 32]>::try_from(stored.as_slice()) {
        Ok(stored) if stored == actual => Integrity::Good { sha256: actual },
        Ok(stored) => Integrity::Mismatch { stored, actual },
        Err(_) => Integrity::Unreadable {
            length: stored.len(),
            actual,
        },
    })
}

/// Reads in pieces: mapping would count the whole file as the process's memory.
fn sha256(path: &Path) -> Result<[u8; 32], Error> {
    let mut file = std::fs::File::open(path).map_err(|e| Error::io(path, "open", e))?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(n) => hasher.update(&piece[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(path, "read", e)),
        }
    }
}
