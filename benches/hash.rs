//! Integrity checking against a bare SHA-256 of the same library over the same file.
//!
//! `cargo bench --bench hash -- ASSET…`; the best of five rounds each, in turns. The file should fit the
//! page cache, so that the disk is not what is measured.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coreai_audit::asset::Asset;
use sha2::{Digest, Sha256};

const ROUNDS: usize = 5;

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// The whole file in one buffer, then one call: nothing but the hash is timed.
fn bare(path: &Path) -> std::io::Result<Duration> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.read_to_end(&mut bytes)?;
    let (hash, time) = timed(|| Sha256::digest(&bytes));
    std::hint::black_box(hash);
    Ok(time)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes flags of its own.
    let assets: Vec<PathBuf> = std::env::args_os()
        .skip(1)
        .filter(|a| a != "--bench")
        .map(PathBuf::from)
        .collect();
    if assets.is_empty() {
        println!("name one or more assets: cargo bench --bench hash -- ASSET…");
    }
    for path in assets {
        let asset = Asset::open(&path)?;
        let program = path.join("main.mlirb");
        let (mut best_bare, mut best_ours) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            best_bare = best_bare.min(bare(&program)?);
            let (integrity, time) = timed(|| asset.integrity());
            integrity?;
            best_ours = best_ours.min(time);
        }
        let rate = |time: Duration| asset.program_size() as f64 / time.as_secs_f64() / 1e6;
        println!(
            "{}: bare {:.0} MB/s, integrity check {:.0} MB/s, {:.0}%",
            path.display(),
            rate(best_bare),
            rate(best_ours),
            100.0 * rate(best_ours) / rate(best_bare)
        );
    }
    Ok(())
}
