//! The hash of an asset.

use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::{self, Error};

/// Whether the program is what its hash says.
///
/// The loader on Linux does not check it, so a changed asset loads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Integrity {
    /// The stored hash is that of the program.
    Good {
        /// SHA-256 of the program.
        #[serde(serialize_with = "as_hex")]
        sha256: [u8; 32],
    },
    /// The stored hash is another.
    Mismatch {
        /// What `main.hash` says.
        #[serde(serialize_with = "as_hex")]
        stored: [u8; 32],
        /// SHA-256 of the program.
        #[serde(serialize_with = "as_hex")]
        actual: [u8; 32],
    },
    /// There is no `main.hash`.
    Missing {
        /// SHA-256 of the program.
        #[serde(serialize_with = "as_hex")]
        actual: [u8; 32],
    },
    /// `main.hash` does not hold 32 bytes.
    Unreadable {
        /// How many bytes it holds.
        length: u64,
        /// SHA-256 of the program.
        #[serde(serialize_with = "as_hex")]
        actual: [u8; 32],
    },
}

fn as_hex<S: serde::Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&super::Fingerprint(*hash))
}

impl Integrity {
    /// Whether the stored hash is right.
    pub fn is_good(&self) -> bool {
        matches!(self, Integrity::Good { .. })
    }

    /// `ok`, `mismatch`, `missing` or `unreadable`.
    pub fn word(&self) -> &'static str {
        match self {
            Integrity::Good { .. } => "ok",
            Integrity::Mismatch { .. } => "mismatch",
            Integrity::Missing { .. } => "missing",
            Integrity::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = super::Fingerprint;
        match self {
            Integrity::Good { sha256 } => write!(f, "ok, SHA-256 {}", hex(*sha256)),
            Integrity::Mismatch { stored, actual } => write!(
                f,
                "mismatch: main.hash says {}, main.mlirb has {}",
                hex(*stored),
                hex(*actual)
            ),
            Integrity::Missing { actual } => {
                write!(
                    f,
                    "there is no main.hash; main.mlirb has SHA-256 {}",
                    hex(*actual)
                )
            }
            Integrity::Unreadable { length, .. } => {
                write!(
                    f,
                    "main.hash holds {length} bytes instead of the 32 of a hash"
                )
            }
        }
    }
}

/// Hashes the program and compares.
pub(super) fn check(program: &Path, hash: &Path) -> Result<Integrity, Error> {
    let actual = sha256(program)?;
    let mut stored = Vec::new();
    let Some(file) = error::open_file_if_there(hash)? else {
        return Ok(Integrity::Missing { actual });
    };
    let length = file.metadata().map_or(0, |about| about.len());
    file.take(33)
        .read_to_end(&mut stored)
        .map_err(|e| Error::io(hash, "read", e))?;
    Ok(match <[u8; 32]>::try_from(stored.as_slice()) {
        Ok(stored) if stored == actual => Integrity::Good { sha256: actual },
        Ok(stored) => Integrity::Mismatch { stored, actual },
        Err(_) => Integrity::Unreadable {
            length: length.max(stored.len() as u64),
            actual,
        },
    })
}

/// Mapping would count the whole file as the process's memory; it is read in pieces of this size.
const PIECE: usize = 1 << 18;
/// Pieces on their way from the reader to the hash.
const PIECES: usize = 4;

/// SHA-256 of a file. Another thread reads ahead, so that the hash never waits for a copy.
fn sha256(path: &Path) -> Result<[u8; 32], Error> {
    let mut file = error::open_file(path)?;
    let (full, ready) = mpsc::sync_channel::<Vec<u8>>(PIECES);
    let (empty, free) = mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut made = 0;
            loop {
                // A piece that came back, else a new one, up to the number that may exist.
                let mut piece = match free.try_recv() {
                    Ok(piece) => piece,
                    Err(_) if made < PIECES => {
                        made += 1;
                        vec![0; PIECE]
                    }
                    Err(_) => match free.recv() {
                        Ok(piece) => piece,
                        Err(_) => return Ok(()),
                    },
                };
                piece.resize(PIECE, 0);
                let read =
                    read_some(&mut file, &mut piece).map_err(|e| Error::io(path, "read", e))?;
                piece.truncate(read);
                if read == 0 || full.send(piece).is_err() {
                    return Ok(());
                }
            }
        });
        let mut hasher = Sha256::new();
        while let Ok(piece) = ready.recv() {
            hasher.update(&piece);
            // The reader may be done and gone.
            let _ = empty.send(piece);
        }
        reader
            .join()
            .unwrap_or_else(|e| std::panic::resume_unwind(e))?;
        Ok(hasher.finalize().into())
    })
}

/// Reads what there is, at least a byte unless the end is reached.
fn read_some(reader: &mut impl Read, piece: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match reader.read(piece) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// SHA-256 of what a reader gives.
fn hash(path: &Path, reader: &mut impl Read, piece: &mut [u8]) -> Result<[u8; 32], Error> {
    let mut hasher = Sha256::new();
    loop {
        match read_some(reader, piece).map_err(|e| Error::io(path, "read", e))? {
            0 => return Ok(hasher.finalize().into()),
            n => hasher.update(&piece[..n]),
        }
    }
}

/// SHA-256 of parts of a file, several at a time. Parts are read, not mapped, for the same reason.
pub(super) fn hash_ranges(path: &Path, ranges: &[Range<usize>]) -> Result<Vec<[u8; 32]>, Error> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(ranges.len().max(1));
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, [u8; 32])>, Error> {
        let mut file = error::open_file(path)?;
        let mut piece = vec![0; PIECE];
        let mut hashes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = ranges.get(index) else {
                return Ok(hashes);
            };
            let at = SeekFrom::Start(range.start as u64);
            file.seek(at).map_err(|e| Error::io(path, "read", e))?;
            hashes.push((
                index,
                hash(path, &mut (&mut file).take(range.len() as u64), &mut piece)?,
            ));
        }
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect::<Vec<_>>()
    });
    let mut hashes = vec![[0; 32]; ranges.len()];
    for part in parts {
        for (index, hash) in part? {
            hashes[index] = hash;
        }
    }
    Ok(hashes)
}
