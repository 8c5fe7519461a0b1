//! The semantic fingerprint, on real conversions.

use super::archive;
use coreai_audit::asset::{Asset, Fingerprint, ReadOptions};
use std::path::Path;

fn fingerprint(root: &Path, name: &str) -> Fingerprint {
    let asset = Asset::open(&root.join(format!("{name}.aimodel"))).expect("an asset");
    let options = ReadOptions {
        definitions: true,
        locations: false,
        weights: true,
    };
    let program = asset.program(options).expect("a program");
    asset
        .fingerprint(&program.module)
        .expect("readable weights")
}

#[test]
fn it_is_equal_for_one_model_and_different_for_two() {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into("conversions.tar.zst", root.path());
    let of = |name: &str| fingerprint(root.path(), name);
    let bytes = |name: &str| {
        std::fs::read(root.path().join(format!("{name}.aimodel/main.mlirb"))).expect("bytes")
    };
    for model in ["kv", "attn"] {
        let (again, debug) = (format!("{model}_again"), format!("{model}_debug"));
        // Another process gives another file, and debug mode a much larger one.
        assert_ne!(bytes(model), bytes(&again));
        assert_eq!(of(model), of(&again), "{model} converted twice");
        assert_eq!(of(model), of(&debug), "{model} with debug information");
    }
    let all = [
        "kv",
        "kv_swapped_operand",
        "kv_weight",
        "kv_renamed",
        "attn",
    ]
    .map(of);
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            assert_ne!(a, b);
        }
    }
}

#[test]
fn one_changed_byte_of_a_weight_changes_it() {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into("conversions.tar.zst", root.path());
    let before = fingerprint(root.path(), "kv");
    let program = root.path().join("kv.aimodel/main.mlirb");
    let mut bytes = std::fs::read(&program).expect("bytes");
    let module =
        coreai_audit::asset::read_module(&root.path().join("kv.aimodel")).expect("a program");
    let range = module
        .bodies()
        .flat_map(|b| b.walk())
        .find_map(|(_, op)| match op.attrs.get("value") {
            Some(coreai_audit::ir::Attr::Dense(data)) => match &data.payload {
                coreai_audit::ir::Payload::Resource { data, .. } => {
                    data.as_ref().map(|d| d.range())
                }
                _ => None,
            },
            _ => None,
        })
        .expect("a weight in a resource");
    bytes[range.end - 1] ^= 1;
    drop(module);
    std::fs::write(&program, bytes).expect("written");
    assert_ne!(fingerprint(root.path(), "kv"), before);
}

#[test]
fn the_fingerprint_of_an_asset_stays_what_it_is() {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into("conversions.tar.zst", root.path());
    insta::assert_snapshot!(fingerprint(root.path(), "kv"));
}
