//! Real assets, cut and with flipped bits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::{archive, memory, use_all};

/// Nothing may take longer; a debug build on a busy machine gets the same.
const LIMIT: Duration = Duration::from_secs(1);

/// A small generator: tests must not depend on luck.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Thirty programs: every family of ops and weights, from 0.8 to 100 kB.
fn programs() -> BTreeMap<String, Vec<u8>> {
    let mut programs = BTreeMap::new();
    for (name, wanted) in [
        ("assets.tar.zst", 10),
        ("assets-compressed.tar.zst", 8),
        ("corpus.tar.zst", 12),
    ] {
        let files = archive::unpack(name).into_iter();
        let mut few: Vec<_> = files
            .filter(|(n, d)| n.ends_with("main.mlirb") && d.len() < 100_000)
            .collect();
        let step = few.len() / wanted;
        let mut place = 0;
        few.retain(|_| {
            place += 1;
            (place - 1) % step == 0
        });
        few.truncate(wanted);
        programs.extend(few);
    }
    programs
}

/// Reads within the limits; the result.
fn within_limits(what: &str, bytes: &[u8]) -> Result<(), String> {
    let start = Instant::now();
    let (result, most) = memory::most_held(|| use_all(bytes).map(|_| ()));
    assert!(
        start.elapsed() < LIMIT,
        "{what}: took {:?}",
        start.elapsed()
    );
    // An op of three bytes becomes a structure of two hundred; text and errors come on top.
    let allowed = 100 * bytes.len() + (1 << 20);
    assert!(
        most <= allowed,
        "{what}: {most} bytes held for a file of {}",
        bytes.len()
    );
    result
}

#[test]
fn every_cut_of_thirty_assets_is_refused() {
    let programs = programs();
    assert_eq!(programs.len(), 30);
    let mut random = Random(1);
    let mut cuts = 0;
    for (name, bytes) in &programs {
        let edge = bytes.len().min(4096);
        let ends = (0..edge).chain(bytes.len() - edge..bytes.len());
        let inner: Vec<usize> = (0..1000).map(|_| random.below(bytes.len())).collect();
        for end in ends.chain(inner) {
            let result = within_limits(&format!("{name} cut at {end}"), &bytes[..end]);
            assert!(result.is_err(), "{name} cut at {end} was read");
            cuts += 1;
        }
    }
    assert!(cuts > 150_000, "{cuts}");
}

/// Flips a random bit, `rounds` times; how many of the files were still read.
fn flip(rounds: usize, seed: u64) -> usize {
    let programs: Vec<(String, Vec<u8>)> = programs().into_iter().collect();
    let hashes: Vec<_> = programs
        .iter()
        .map(|(_, bytes)| Sha256::digest(bytes))
        .collect();
    let mut random = Random(seed);
    let mut read = 0;
    for round in 0..rounds {
        let which = random.below(programs.len());
        let (name, bytes) = &programs[which];
        let mut bytes = bytes.clone();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        let what = format!("round {round} of seed {seed}: {name}, byte {at}");
        read += usize::from(within_limits(&what, &bytes).is_ok());
        // What is not seen by reading is seen by the hash.
        assert_ne!(Sha256::digest(&bytes), hashes[which], "{what}");
    }
    read
}

#[test]
fn flipped_bits_are_refused_or_read_and_never_hurt() {
    // The whole campaign is 100,000 rounds: HOSTILE_ROUNDS=100000 cargo test --release.
    let rounds = std::env::var("HOSTILE_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3000);
    let read = flip(rounds, 7);
    // Flips in weights and in names leave a readable file: about half, in these assets.
    assert!(read > 0 && read < rounds, "{read} of {rounds} were read");
}
