//! `inspect` and `contract` as a shell sees them.

use super::archive;
use assert_cmd::Command;
use std::path::Path;

/// Exit code, standard output, standard error.
fn run(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("coreai-audit")
        .expect("the binary")
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .args(args)
        .output()
        .expect("a run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code().expect("an exit code"),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The assets of an archive.
fn assets(name: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into(name, root.path());
    root
}

fn good(directory: &Path, args: &[&str]) -> String {
    let (code, out, err) = run(directory, args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    out
}

#[test]
fn a_decoder_inspected() {
    let root = assets("assets.tar.zst");
    insta::assert_snapshot!(good(root.path(), &["inspect", "qwen3_tiny_macos.aimodel"]));
    insta::assert_snapshot!(good(
        root.path(),
        &["inspect", "--tree", "qwen3_tiny_macos.aimodel"]
    ));
    insta::assert_snapshot!(good(root.path(), &["contract", "qwen3_tiny_macos.aimodel"]));
}

#[test]
fn the_guides_example_as_json_and_as_printed_program() {
    let root = assets("assets.tar.zst");
    let json = good(
        root.path(),
        &["inspect", "--format", "json", "doc_kvcache.aimodel"],
    );
    insta::assert_snapshot!(json);
    insta::assert_snapshot!(good(
        root.path(),
        &["inspect", "--ir", "doc_kvcache.aimodel"]
    ));
    insta::assert_snapshot!(good(
        root.path(),
        &["inspect", "--ops", "--quick", "doc_kvcache.aimodel"]
    ));
    let contract = good(
        root.path(),
        &["contract", "--format", "json", "doc_kvcache.aimodel"],
    );
    let parsed = coreai_audit::contract::parse(&contract, "doc_kvcache.json").expect("a contract");
    let read = coreai_audit::asset::read_contract(&root.path().join("doc_kvcache.aimodel"))
        .expect("an asset");
    assert_eq!(parsed, read.contract);
}

#[test]
fn a_debug_asset_tells_of_the_paths_inside() {
    let root = assets("conversions.tar.zst");
    let out = good(root.path(), &["inspect", "--quick", "attn_debug.aimodel"]);
    insta::assert_snapshot!(out);
}

#[test]
fn a_changed_program_is_told_by_its_hash() {
    let root = assets("assets.tar.zst");
    let program = root.path().join("doc_kvcache.aimodel/main.mlirb");
    let mut bytes = std::fs::read(&program).expect("the program");
    let at = bytes
        .windows(8)
        .position(|w| w == b"attn_out")
        .expect("an output's name");
    bytes[at] = b'A';
    std::fs::write(&program, &bytes).expect("written");
    let (code, out, err) = run(
        root.path(),
        &["contract", "--verify-hash", "doc_kvcache.aimodel"],
    );
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.starts_with("note: mismatch: main.hash says "), "{err}");
    let (code, out, _) = run(root.path(), &["inspect", "doc_kvcache.aimodel"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("note: main.hash is not the hash of main.mlirb"),
        "{out}"
    );
    // Without its hash there is nothing to find, but something to tell.
    std::fs::remove_file(root.path().join("doc_kvcache.aimodel/main.hash")).expect("removed");
    let (code, out, _) = run(root.path(), &["inspect", "doc_kvcache.aimodel"]);
    assert_eq!(code, 0);
    assert!(out.contains("there is no main.hash"), "{out}");
}

#[test]
fn malformed_assets_are_told_by_byte_and_section() {
    let root = assets("assets.tar.zst");
    let program = root.path().join("doc_kvcache.aimodel/main.mlirb");
    let bytes = std::fs::read(&program).expect("the program");
    let mut told = Vec::new();
    for (what, changed) in [
        ("empty", vec![]),
        ("cut in half", bytes[..bytes.len() / 2].to_vec()),
        ("version 7", [&bytes[..4], &[0x0f], &bytes[5..]].concat()),
        ("no bytecode", b"hello world".to_vec()),
        ("one byte more", [&bytes[..], &[0]].concat()),
    ] {
        std::fs::write(&program, changed).expect("written");
        let (code, out, err) = run(root.path(), &["contract", "doc_kvcache.aimodel"]);
        assert_eq!((code, out.as_str()), (2, ""), "{what}");
        told.push(format!("{what}: {err}"));
    }
    insta::assert_snapshot!(told.concat());
}

#[test]
fn an_older_asset_without_handles_is_told_for_what_it_is() {
    let root = assets("older.tar.zst");
    for producer in ["0.4.1", "0.4.0"] {
        let asset = format!("plain_{producer}.aimodel");
        let (code, out, err) = run(root.path(), &["contract", &asset]);
        assert_eq!(code, 0, "{err}");
        insta::assert_snapshot!(
            format!("contract_of_{producer}"),
            format!("{out}---\n{err}")
        );
        let (code, out, _) = run(root.path(), &["inspect", "--quick", &asset]);
        assert_eq!(code, 0);
        let remarks: Vec<&str> = out.lines().filter(|l| l.starts_with("note: ")).collect();
        insta::assert_snapshot!(format!("remarks_on_{producer}"), remarks.join("\n"));
    }
}

#[test]
fn a_bundle_is_one_row_an_asset() {
    let root = assets("assets.tar.zst");
    let bundle = root.path().join("my-model");
    std::fs::create_dir(&bundle).expect("a directory");
    for name in ["qwen3_tiny_macos.aimodel", "doc_kvcache.aimodel"] {
        std::fs::rename(root.path().join(name), bundle.join(name)).expect("moved");
    }
    let metadata = r#"{"metadata_version": "0.2", "kind": "llm", "name": "my model",
        "assets": {"main": "qwen3_tiny_macos.aimodel", "vision": "gone.aimodel"}}"#;
    std::fs::write(bundle.join("metadata.json"), metadata).expect("written");
    let (code, out, err) = run(root.path(), &["inspect", "my-model"]);
    assert_eq!((code, err.as_str()), (2, ""));
    insta::assert_snapshot!(out);
    let (code, out, err) = run(root.path(), &["contract", "my-model"]);
    assert_eq!((code, out.as_str()), (2, ""));
    insta::assert_snapshot!(err);
    let (_, out, _) = run(
        root.path(),
        &["inspect", "--format", "json", "--quick", "my-model"],
    );
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["schema_version"], 1);
    assert_eq!(
        document["assets"][0]["inspection"]["functions"][0]["name"],
        "main"
    );
    assert_eq!(document["assets"][1]["role"], "vision");
    // A role must not lead out of the bundle.
    std::fs::write(
        bundle.join("metadata.json"),
        r#"{"assets": {"main": "../x.aimodel"}}"#,
    )
    .expect("written");
    let (code, _, err) = run(root.path(), &["inspect", "my-model"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("key `assets.main`: expected a path inside the bundle"),
        "{err}"
    );
}

#[test]
fn links_extra_files_and_odd_metadata_are_told() {
    let root = assets("assets.tar.zst");
    let asset = root.path().join("doc_kvcache.aimodel");
    std::fs::write(asset.join("notes.txt"), "mine").expect("written");
    #[cfg(unix)]
    {
        std::fs::rename(asset.join("main.mlirb"), root.path().join("elsewhere")).expect("moved");
        std::os::unix::fs::symlink("../elsewhere", asset.join("main.mlirb")).expect("linked");
    }
    std::fs::write(
        asset.join("metadata.json"),
        r#"{"assetVersion": "3.0", "producer": "x\u001b[31m"}"#,
    )
    .expect("written");
    let (code, out, _) = run(root.path(), &["inspect", "--quick", "doc_kvcache.aimodel"]);
    assert_eq!(code, 0);
    assert!(!out.contains('\u{1b}'), "{out}");
    let remarks: Vec<&str> = out.lines().filter(|l| l.starts_with("note: ")).collect();
    insta::assert_snapshot!(remarks.join("\n"));
    std::fs::write(asset.join("metadata.json"), "[]").expect("written");
    let (code, _, err) = run(root.path(), &["inspect", "doc_kvcache.aimodel"]);
    assert_eq!(code, 2);
    assert_eq!(
        err,
        "error: doc_kvcache.aimodel/metadata.json: expected a JSON object, found another value\n"
    );
}

#[test]
fn metadata_is_read_as_loaders_do_and_each_key_once() {
    let root = assets("assets.tar.zst");
    let metadata = root.path().join("doc_kvcache.aimodel/metadata.json");
    let inspect = |text: &[u8]| {
        std::fs::write(&metadata, text).expect("written");
        run(root.path(), &["inspect", "--quick", "doc_kvcache.aimodel"])
    };
    let (code, out, _) =
        inspect(b"\xef\xbb\xbf{\"assetVersion\": \"2.0\", \"producer\": \"behind a mark\"}");
    assert_eq!(code, 0);
    assert!(out.contains("behind a mark"), "{out}");
    for text in [
        r#"{"assetVersion": "1.0", "assetVersion": "2.0"}"#,
        r#"{"assetVersion": "2.0", "creatorDefinedMetadata": {"a": 1, "a": 2}}"#,
    ] {
        let (code, _, err) = inspect(text.as_bytes());
        assert_eq!(code, 2);
        assert!(err.contains("occurs twice"), "{err}");
    }
    let bundle = root.path().join("bundle");
    std::fs::create_dir(&bundle).expect("made");
    std::fs::write(bundle.join("metadata.json"), r#"{"assets": ["main"]}"#).expect("written");
    let (code, _, err) = run(root.path(), &["inspect", "bundle"]);
    assert_eq!(code, 2);
    assert_eq!(
        err,
        "error: bundle/metadata.json: key `assets`: expected an object of paths by role, found another value\n"
    );
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_no_missing_part() {
    let root = assets("assets.tar.zst");
    let asset = root.path().join("doc_kvcache.aimodel");
    for part in ["main.hash", "metadata.json"] {
        let away = root.path().join("away");
        std::fs::rename(asset.join(part), &away).expect("moved");
        std::os::unix::fs::symlink("gone", asset.join(part)).expect("linked");
        let (code, _, err) = run(root.path(), &["inspect", "doc_kvcache.aimodel"]);
        assert_eq!(code, 2);
        assert!(
            err.starts_with(&format!("error: doc_kvcache.aimodel/{part}: cannot open: ")),
            "{err}"
        );
        std::fs::remove_file(asset.join(part)).expect("removed");
        std::fs::rename(&away, asset.join(part)).expect("moved back");
    }
}

#[test]
fn the_length_of_what_is_no_hash_is_its_own() {
    let root = assets("assets.tar.zst");
    std::fs::write(
        root.path().join("doc_kvcache.aimodel/main.hash"),
        "a".repeat(64),
    )
    .expect("written");
    let (code, out, _) = run(root.path(), &["inspect", "doc_kvcache.aimodel"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("main.hash holds 64 bytes instead of the 32 of a hash"),
        "{out}"
    );
}

#[test]
fn assets_contracts_and_snapshots_are_compared_in_any_mix() {
    let root = assets("conversions.tar.zst");
    let same = good(
        root.path(),
        &[
            "diff",
            "--level",
            "strict",
            "kv.aimodel",
            "kv_again.aimodel",
        ],
    );
    assert_eq!(same, "no changes\nthe same program\n");
    // Another weight is no change of the contract, but of the program.
    let (code, out, _) = run(root.path(), &["diff", "kv.aimodel", "kv_weight.aimodel"]);
    assert_eq!(
        (code, out.as_str()),
        (
            0,
            "no changes\nanother program: ops, wiring or weights changed\n"
        )
    );
    let (code, _, _) = run(
        root.path(),
        &[
            "diff",
            "--level",
            "strict",
            "kv.aimodel",
            "kv_weight.aimodel",
        ],
    );
    assert_eq!(code, 1);
    let json = good(root.path(), &["contract", "--format", "json", "kv.aimodel"]);
    std::fs::write(root.path().join("kv.json"), json).expect("written");
    assert_eq!(
        good(root.path(), &["diff", "kv.json", "kv_again.aimodel"]),
        "no changes\n"
    );
    let (code, out, _) = run(
        root.path(),
        &[
            "diff",
            "--format",
            "json",
            "kv.aimodel",
            "kv_renamed.aimodel",
        ],
    );
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (code, document["program"]["same"].as_bool()),
        (1, Some(false))
    );
    assert_eq!(document["changes"][0]["id"], "state-renamed");
}
