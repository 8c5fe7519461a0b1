//! Recorded calls, replayed.

use std::path::Path;

use super::archive;
use super::cases::{self, Tolerance};

/// Tolerances of the real assets, by dtype.
fn of_assets(case: &str, dtype: &str) -> Tolerance {
    match dtype {
        // Activations in eight bits: a code may flip.
        _ if case.ends_with("w8a8") => Tolerance {
            rtol: 0.0,
            atol: 5e-2,
        },
        "float16" => Tolerance {
            rtol: 0.0,
            atol: 1e-2,
        },
        "bfloat16" => Tolerance {
            rtol: 0.0,
            atol: 6e-2,
        },
        _ => Tolerance {
            rtol: 1e-5,
            atol: 2e-6,
        },
    }
}

/// Every case below `root`; says which fail and why.
fn all(root: &Path, tolerance: Option<fn(&str, &str) -> Tolerance>) -> usize {
    let cases = cases::below(root);
    let mut failed = Vec::new();
    for case in &cases {
        let name = case.file_name().unwrap_or_default().to_string_lossy();
        match cases::run(case, tolerance) {
            Ok(worst) => println!("{name}: {worst:?}"),
            Err(e) => failed.push(format!("{name}: {e}")),
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases fail:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
    cases.len()
}

fn unpacked(archives: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    for name in archives {
        archive::unpack_into(name, root.path());
    }
    root
}

#[test]
fn every_case_of_the_corpus_conforms() {
    let root = unpacked(&["corpus.tar.zst", "corpus-calls.tar.zst"]);
    assert_eq!(all(root.path(), None), 150);
}

#[test]
fn compressed_weights_conform() {
    let root = unpacked(&[
        "calls-compressed.tar.zst",
        "calls-mxfp4.tar.zst",
        "calls-w8a8.tar.zst",
    ]);
    assert_eq!(all(root.path(), Some(of_assets)), 20);
}

#[test]
fn decoders_conform() {
    let root = unpacked(&[
        "calls-hybrid.tar.zst",
        "calls-qwen3-bf16.tar.zst",
        "calls-writers.tar.zst",
    ]);
    assert_eq!(all(root.path(), Some(of_assets)), 5);
}

/// Larger collections than the repository holds: directories in the variables, in the same layout.
#[test]
fn cases_given_from_outside_conform() {
    for (variable, tolerance) in [
        ("COREAI_AUDIT_CASES", None),
        (
            "COREAI_AUDIT_ASSETS",
            Some(of_assets as fn(&str, &str) -> Tolerance),
        ),
    ] {
        if let Some(root) = std::env::var_os(variable) {
            assert!(
                all(Path::new(&root), tolerance) > 0,
                "no case below {variable}"
            );
        }
    }
}
