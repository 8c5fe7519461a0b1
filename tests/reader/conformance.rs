//! Every case of the conformance corpus and every real asset reads as the vendor's tools read it:
//! names, order, dtypes, shapes, op counts, and the printed program.
//!
//! The weights of the real assets are zeroed in these copies, so that they pack small; nothing here
//! looks at them.

use super::archive;
use std::collections::BTreeMap;
use std::path::Path;

use coreai_audit::asset::{self, Asset, Integrity, ReadOptions};
use coreai_audit::contract::{self, Contract};
use coreai_audit::ir;
use serde::Deserialize;

/// Name, dtype, shape.
type Port = (String, String, Vec<Option<u64>>);

#[derive(Debug, Deserialize, PartialEq)]
struct Signature {
    inputs: Vec<Port>,
    states: Vec<Port>,
    outputs: Vec<Port>,
}

#[derive(Deserialize)]
struct Expected {
    functions: BTreeMap<String, Signature>,
    ops: BTreeMap<String, usize>,
    /// All functions, where `functions` describes one of them.
    function_names: Option<Vec<String>>,
}

fn signatures(contract: &Contract) -> BTreeMap<String, Signature> {
    let port = |p: &contract::Port| (p.name.clone(), p.dtype.clone(), p.shape.clone());
    let state = |s: &contract::State| (s.name.clone(), s.dtype.clone(), s.shape.clone());
    contract
        .functions
        .iter()
        .map(|f| {
            let signature = Signature {
                inputs: f.inputs.iter().map(port).collect(),
                states: f.states.iter().map(state).collect(),
                outputs: f.outputs.iter().map(port).collect(),
            };
            (f.name.clone(), signature)
        })
        .collect()
}

/// The archive's assets in a directory, with what is expected of each.
fn assets(archive: &str) -> (tempfile::TempDir, BTreeMap<String, Expected>) {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into(archive, root.path());
    let expected = std::fs::read(root.path().join("expected.json")).expect("expectations");
    (
        root,
        serde_json::from_slice(&expected).expect("expectations as packed"),
    )
}

fn conforms(archive: &str, count: usize) {
    let (root, expected) = assets(archive);
    assert_eq!(expected.len(), count, "assets in {archive}");
    for (name, expected) in &expected {
        let path = root.path().join(format!("{name}.aimodel"));
        let asset = Asset::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let program = asset
            .program(ReadOptions {
                definitions: true,
                locations: false,
                weights: true,
            })
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let extracted = contract::extract(&program.module);
        let contract = &extracted.contract;
        let signatures = signatures(contract);
        let all = expected.function_names.clone();
        let all = all.unwrap_or_else(|| expected.functions.keys().cloned().collect());
        assert_eq!(
            signatures.keys().cloned().collect::<Vec<_>>(),
            all,
            "{name}"
        );
        for (function, signature) in &expected.functions {
            assert_eq!(&signatures[function], signature, "{name}, {function}");
        }
        assert_eq!(program.module.op_counts(), expected.ops, "{name}");
        let integrity = asset.integrity().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            matches!(integrity, Integrity::Good { .. }),
            "{name}: {integrity:?}"
        );
        // The quick reading, which passes over most ops, gives the same contract and notes.
        let quick = asset::read_contract(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(quick, extracted, "{name}");
    }
}

#[test]
fn the_corpus_reads_as_its_descriptors_say() {
    conforms("corpus.tar.zst", 150);
}

#[test]
fn the_real_assets_read_as_their_summaries_say() {
    conforms("assets.tar.zst", 30);
    conforms("assets-compressed.tar.zst", 29);
}

#[test]
fn bytecode_and_printed_program_are_one() {
    let printed: BTreeMap<String, String> = archive::unpack("printed-ir.tar.zst")
        .into_iter()
        .map(|(name, text)| (name, String::from_utf8(text).expect("text")))
        .collect();
    let mut compared = 0;
    for archive in [
        "corpus.tar.zst",
        "assets.tar.zst",
        "assets-compressed.tar.zst",
    ] {
        let (root, expected) = assets(archive);
        for name in expected.keys() {
            let Some(text) = printed.get(&format!("{}.mlir", name.replace('/', "__"))) else {
                continue;
            };
            let path = root.path().join(format!("{name}.aimodel"));
            let bytecode = asset::read_module(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            let text_module = ir::text::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(ir::compare(&text_module, &bytecode), None, "{name}");
            let mut ours = String::new();
            let options = ir::PrintOptions {
                elide_above: Some(32),
            };
            bytecode
                .print(&mut ours, options)
                .expect("a string takes all");
            // Resource keys survive zeroed weights; nothing else of the weights is printed.
            for (n, (a, b)) in ours.lines().zip(text.lines()).enumerate() {
                assert_eq!(a, b, "{name}, line {}", n + 1);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 197);
}

#[test]
fn a_path_that_is_no_asset_is_told_for_what_it_is() {
    let root = tempfile::tempdir().expect("a directory");
    let told = |path: &Path| {
        let error = asset::open(path).expect_err("no asset").to_string();
        error.replace(&root.path().display().to_string(), "…")
    };
    let mut all = Vec::new();
    for name in [
        "compiled.aimodelc",
        "packed.aimodelx",
        "core.mlpackage",
        "empty",
        "half.aimodel",
    ] {
        let path = root.path().join(name);
        std::fs::create_dir(&path).expect("a directory");
        all.push(told(&path));
    }
    let file = root.path().join("file.aimodel");
    std::fs::write(&file, "text").expect("a file");
    all.push(told(&file));
    all.push(told(&root.path().join("nothing")));
    let inner = root.path().join("half.aimodel/main.mlirb");
    std::fs::create_dir(&inner).expect("a directory");
    all.push(told(&root.path().join("half.aimodel")));
    insta::assert_snapshot!(all.join("\n"));
}
