//! `coreai-audit run` as a shell sees it.

use std::path::Path;

use assert_cmd::Command;
use coreai_audit::runtime::{files, DType, Tensor};

use super::archive;

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn run(folder: &Path, args: &[&str]) -> Said {
    let output = Command::cargo_bin("coreai-audit")
        .expect("the program")
        .current_dir(folder)
        .args(["--color", "never", "run"])
        .args(args)
        .output()
        .expect("an answer");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said {
        code: output.status.code().expect("an exit code"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn unpacked(name: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into(name, root.path());
    root
}

const DECODER: &str = "qwen3_tiny_macos_bf16/model.aimodel";

#[test]
fn a_decoder_decodes_with_made_up_tokens() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let args = ["--steps", "4", "--prompt", "3", "--format", "json", DECODER];
    let said = run(root.path(), &args);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(report["schema_version"], 1);
    assert_eq!(report["function"], "main");
    assert_eq!(report["step_ms"].as_array().map(Vec::len), Some(4));
    assert!(report["slope_ms_per_step"].is_number());
    assert_eq!(report["outputs"][0]["name"], "logits");
    assert_eq!(
        report["outputs"][0]["shape"],
        serde_json::json!([1, 1, 256])
    );
    assert_eq!(report["states"][1]["name"], "valueCache");
    assert_eq!(report["states"][1]["dtype"], "bfloat16");
}

#[test]
fn what_was_saved_continues_a_run() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let run = |args: &[&str]| {
        let said = run(root.path(), args);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
    };
    run(&[
        "--steps",
        "1",
        "--prompt",
        "3",
        "--save",
        "first.safetensors",
        DECODER,
    ]);
    let saved =
        files::read(&root.path().join("first.safetensors"), &|_, _, _| Ok(())).expect("tensors");
    let names: Vec<&str> = saved.keys().map(String::as_str).collect();
    assert_eq!(names, ["0/logits", "state/keyCache", "state/valueCache"]);
    assert_eq!(saved["0/logits"].shape(), [1, 3, 256]);
    // The prompt's rows are written, the rest is still zero.
    let cache = saved["state/keyCache"].reals().expect("numbers");
    let written = cache.chunks(16).map(|row| row.iter().any(|v| *v != 0.0));
    assert_eq!(written.filter(|w| *w).count(), 2 * 2 * 3);
    run(&[
        "--states",
        "first.safetensors",
        "--save",
        "second.safetensors",
        DECODER,
    ]);
    let second =
        files::read(&root.path().join("second.safetensors"), &|_, _, _| Ok(())).expect("tensors");
    assert_eq!(second["0/logits"].shape(), [1, 1, 256]);
}

#[test]
fn what_cannot_run_is_told_on_standard_error() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let said = run(root.path(), &["nothing.aimodel"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(
        said.err.starts_with("error: nothing.aimodel/main.mlirb"),
        "{}",
        said.err
    );
    let said = run(root.path(), &["--function", "decode", DECODER]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: no function decode in the asset; it has main\n"
    );
    let said = run(root.path(), &["--save", "own.safetensors", DECODER]);
    assert_eq!(said.code, 0);
    let said = run(root.path(), &["--inputs", "own.safetensors", DECODER]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: own.safetensors: entry 0/logits: main has no input of this name\n"
    );
    // A state under a name that is none would start at zero.
    let cache = Tensor::zeros(DType::BF16, &[2, 1, 2, 128, 16]).expect("zeros");
    let misspelt = root.path().join("states.safetensors");
    files::write(&misspelt, &[("keycache".into(), &cache)]).expect("written");
    let said = run(root.path(), &["--states", "states.safetensors", DECODER]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: states.safetensors: entry keycache: main has no state of this name\n"
    );
    files::write(
        &misspelt,
        &[
            ("keyCache".into(), &cache),
            ("state/keyCache".into(), &cache),
        ],
    )
    .expect("written");
    let said = run(root.path(), &["--states", "states.safetensors", DECODER]);
    assert_eq!(
        said.err,
        "error: two values for the state keyCache: keyCache and state/keyCache\n"
    );
    let wide = Tensor::zeros(DType::F32, &[2, 1, 2, 128, 16]).expect("zeros");
    files::write(&misspelt, &[("keyCache".into(), &wide)]).expect("written");
    let said = run(root.path(), &["--states", "states.safetensors", DECODER]);
    assert_eq!(
        said.err,
        "error: states.safetensors: entry keyCache: is float32 [2, 1, 2, 128, 16], but keyCache is bfloat16 [2, 1, 2, 128, 16]\n"
    );
    // What would be written over, or under a name that says something else.
    for (save, told) in [
        (
            format!("{DECODER}/own.safetensors"),
            format!("error: {DECODER}/own.safetensors: lies inside the asset that is run\n"),
        ),
        (
            format!("{DECODER}/main.mlirb"),
            format!("error: {DECODER}/main.mlirb: safetensors are written here; give it a name that ends in .safetensors\n"),
        ),
        (
            "own.st".into(),
            "error: own.st: safetensors are written here; give it a name that ends in .safetensors\n".into(),
        ),
        (
            "own.npz".into(),
            "error: own.npz: safetensors are written here; give it a name that ends in .safetensors\n".into(),
        ),
        (
            "gone/own.safetensors".into(),
            "error: gone/own.safetensors: No such file or directory (os error 2)\n".into(),
        ),
    ] {
        let said = run(root.path(), &["--save", &save, DECODER]);
        assert_eq!((said.code, said.err), (2, told));
    }
    let said = run(root.path(), &["--seed", "-1", DECODER]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.starts_with(
            "error: invalid value '-1' for '--seed <SEED>': expected a whole number from 0 to 18446744073709551615\n"
        ),
        "{}",
        said.err
    );
    let said = run(root.path(), &["--threads", "257", DECODER]);
    assert!(
        said.err
            .starts_with("error: invalid value '257' for '--threads <N>': 257 is not in 1..=256\n"),
        "{}",
        said.err
    );
}

#[test]
fn an_entry_of_a_step_that_does_not_run_is_refused() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let ids = Tensor::zeros(DType::I32, &[1, 1]).expect("zeros");
    let path = root.path().join("ids.safetensors");
    files::write(&path, &[("7/input_ids".into(), &ids)]).expect("written");
    let args = ["--inputs", "ids.safetensors", DECODER];
    for (steps, told) in [
        ("1", "--steps 1 runs step 0 alone; give --steps 8 or more"),
        ("2", "--steps 2 runs steps 0 to 1; give --steps 8 or more"),
    ] {
        let said = run(root.path(), &[&["--steps", steps], &args[..]].concat());
        let told = format!(
            "error: ids.safetensors: entry 7/input_ids: there is no step 7: {told}, or leave this entry out\n"
        );
        assert_eq!((said.code, said.err), (2, told));
    }
    let said = run(root.path(), &[&["--steps", "8"], &args[..]].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}

#[test]
fn a_file_of_several_steps_says_how_many_run() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let ids = Tensor::zeros(DType::I32, &[1, 1]).expect("zeros");
    let path = root.path().join("ids.safetensors");
    let steps = |entries: &[&str], more: &[&str]| {
        let entries: Vec<_> = entries.iter().map(|n| (n.to_string(), &ids)).collect();
        files::write(&path, &entries).expect("written");
        let args = ["--format", "json", "--inputs", "ids.safetensors", DECODER];
        let said = run(root.path(), &[&args[..], more].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        report["step_ms"].as_array().map(Vec::len)
    };
    assert_eq!(steps(&["0/input_ids", "1/input_ids"], &[]), Some(2));
    // What the file lacks of a step is made up, where the number of steps is said.
    let some = ["input_ids", "2/input_ids"];
    assert_eq!(steps(&some, &["--steps", "3"]), Some(3));
    assert_eq!(steps(&["0/input_ids"], &["--steps", "4"]), Some(4));
    // One value for every step says nothing about their number.
    assert_eq!(steps(&["input_ids"], &[]), Some(1));
    // A number in a file does not make it run as often.
    for last in [2, u32::MAX] {
        files::write(&path, &[(format!("{last}/input_ids"), &ids)]).expect("written");
        let said = run(root.path(), &["--inputs", "ids.safetensors", DECODER]);
        let told = format!(
            "error: ids.safetensors: the inputs are for step {last} (from 0) and 0 before it, not for all: say with \
             --steps how many to run\n"
        );
        assert_eq!((said.code, said.err), (2, told));
    }
}

#[test]
fn positions_that_were_made_up_beyond_the_cache_are_told() {
    let root = unpacked("calls-writers.tar.zst");
    let asset = "indexput_kv/model.aimodel";
    let args = ["--vocabulary", "60", "--steps", "40"];
    let outside = "graph main: coreai.scatter_nd (op 62): index 32 is outside a dimension of 32";
    let said = run(root.path(), &[&args[..], &[asset]].concat());
    let told = format!(
        "error: step 32 (from 0): {outside}; positions are made up by counting and have reached 32, beyond the \
         capacity: give fewer --steps or a shorter --prompt\n"
    );
    assert_eq!((said.code, said.err), (2, told));
    // The same place, given.
    let mut place = Tensor::zeros(DType::I32, &[1]).expect("zeros");
    place
        .bytes_mut()
        .expect("its own")
        .copy_from_slice(&32i32.to_le_bytes());
    let path = root.path().join("place.safetensors");
    files::write(&path, &[("32/cache_position".into(), &place)]).expect("written");
    let given = ["--inputs", "place.safetensors", asset];
    let said = run(root.path(), &[&args[..], &given].concat());
    let told = format!("error: step 32 (from 0): {outside}\n");
    assert_eq!((said.code, said.err), (2, told));
}

#[test]
fn positions_beyond_a_free_extent_are_told_how_to_enlarge_it() {
    // `cache.index_put_((position,), x); return cache.sum(0)`, with any number of rows.
    let root = unpacked("free-cache.tar.zst");
    let run = |rows: &str| {
        let args = ["--steps", "7", "--capacity", rows, "--format", "json"];
        run(root.path(), &[&args[..], &["free.aimodel"]].concat())
    };
    let told = "error: step 5 (from 0): graph main: coreai.scatter_nd (op 7): index 5 is outside a dimension of 5; \
         positions are made up by counting and have reached 5, beyond the capacity: give fewer --steps or a shorter \
         --prompt, or more rows with --capacity\n";
    let said = run("5");
    assert_eq!((said.code, said.err.as_str()), (2, told));
    let said = run("7");
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(report["states"][0]["shape"], serde_json::json!([7, 2]));
}

#[test]
fn an_error_names_its_step_and_hints_at_made_up_values_alone() {
    let root = unpacked("calls-qwen3-bf16.tar.zst");
    let mut ids = Tensor::zeros(DType::I32, &[1, 1]).expect("zeros");
    ids.bytes_mut()
        .expect("its own")
        .copy_from_slice(&300i32.to_le_bytes());
    let path = root.path().join("ids.safetensors");
    files::write(&path, &[("2/input_ids".into(), &ids)]).expect("written");
    let args = ["--steps", "3", "--inputs", "ids.safetensors", DECODER];
    let said = run(root.path(), &args);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: step 2 (from 0): graph main: coreai.gather_nd (op 49): index 300 is outside a dimension of 256\n"
        )
    );
    files::write(&path, &[("input_ids".into(), &ids)]).expect("written");
    let said = run(root.path(), &["--inputs", "ids.safetensors", DECODER]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: graph main: coreai.gather_nd (op 49): index 300 is outside a dimension of 256\n"
        )
    );
    let said = run(
        root.path(),
        &["--vocabulary", "100000", "--prompt", "64", DECODER],
    );
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains(
            "ids are made up below 100000: give the number the model knows with --vocabulary"
        ),
        "{}",
        said.err
    );
}
