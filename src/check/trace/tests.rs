//! Traces, well-formed and hostile.

use super::*;
use crate::check::testing::{call, Traced};
use proptest::prelude::*;
use serde_json::{json, Value as Json};

fn traced() -> Traced {
    let mut traced = Traced::new("main");
    traced.buffer("s", &[2], &[0.0, 0.0]);
    traced.argument("x");
    traced.call(
        call("main")
            .input("x", &[2], &[1.0, 2.0])
            .output("", &[2], &[2.0, 4.0])
            .buffer("s", &[2], &[1.0, 2.0]),
    );
    traced
}

fn error(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let error = Trace::open(&path).unwrap_err();
    let text = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    text.replace(&dir.path().display().to_string(), "DIR")
}

/// The file of a trace whose document is edited.
fn edited(edit: impl Fn(String) -> String) -> Vec<u8> {
    let traced = traced();
    traced.bytes_with(&edit(traced.document()))
}

#[test]
fn what_was_recorded_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let trace = traced().open(dir.path());
    assert_eq!(trace.functions()[0].buffers[0].name, "s");
    let run = &trace.runs()[0];
    assert_eq!((run.kind, run.calls.len()), (Start::Registered, 1));
    let after = run.calls[0].buffer("s").unwrap();
    assert_eq!(
        trace.tensor(after).unwrap().values::<f32>().unwrap(),
        [1.0, 2.0]
    );
    assert!(trace.same(after, &run.calls[0].inputs["x"]));
    assert!(trace.contract().is_none());
}

#[test]
fn a_contract_is_put_in_and_nothing_else_changes() {
    let dir = tempfile::tempdir().unwrap();
    let trace = traced().open(dir.path());
    let before = trace
        .bytes(trace.runs()[0].calls[0].buffer("s").unwrap())
        .to_vec();
    let contract = Contract {
        functions: vec![contract::Function {
            name: "main".into(),
            export: Some(contract::Export { strict: true }),
            inputs: vec![],
            states: vec![],
            outputs: vec![],
        }],
    };
    let trace = trace.with_contract(&contract, &Hints::default()).unwrap();
    assert_eq!(trace.contract(), Some(&contract));
    assert_eq!(
        trace.bytes(trace.runs()[0].calls[0].buffer("s").unwrap()),
        before
    );
}

#[test]
fn what_is_no_trace_is_told_with_file_and_key() {
    assert_eq!(error(b""), "DIR/t.safetensors: is empty; expected a trace");
    assert_eq!(
        error(b"PK\x03\x04 nothing of the kind"),
        "DIR/t.safetensors: is no safetensors file: header too large"
    );
    let truncated = traced().bytes();
    assert!(error(&truncated[..truncated.len() - 4])
        .starts_with("DIR/t.safetensors: is no safetensors file: "));
    assert_eq!(
        error(&edited(
            |d| d.replace("\"schema_version\":1", "\"schema_version\":7")
        )),
        "DIR/t.safetensors: is a trace of version 7; this version reads 1: record it again"
    );
    assert_eq!(
        error(&edited(|d| d.replace("\"calls\":[", "\"calls\":[7,"))),
        "DIR/t.safetensors: document, line 1 column 242, runs[0].calls[0]: invalid type: integer `7`, expected struct Call"
    );
    assert_eq!(
        error(&edited(
            |d| d.replace("\"tensor\":\"1\"", "\"tensor\":\"99\"")
        )),
        "DIR/t.safetensors: runs[0].calls[0].inputs[\"x\"]: there is no tensor \"99\" in the file"
    );
    assert_eq!(
        error(&edited(|d| d.replace("\"registered\"", "\"sideways\""))),
        "DIR/t.safetensors: document, line 1 column 520, runs[0].kind: unknown variant `sideways`, expected `registered` or `zeros`"
    );
}

#[test]
fn a_trace_without_a_call_proves_nothing_and_is_refused() {
    let mut empty = Traced::new("main");
    empty.argument("x");
    assert_eq!(
        error(&empty.bytes()),
        "DIR/t.safetensors: records no call, so there is nothing to compare with; record one with `coreai-audit convert --trace`"
    );
}

#[test]
fn what_the_document_says_of_a_tensor_must_be_so() {
    let lie = |from: &str, to: &str| error(&edited(|d| d.replacen(from, to, 1)));
    let shape = lie(
        "\"shape\":[2],\"tensor\":\"1\"",
        "\"shape\":[99999999999999],\"tensor\":\"1\"",
    );
    assert_eq!(
        shape,
        "DIR/t.safetensors: runs[0].calls[0].inputs[\"x\"]: says float32 [99999999999999], which is stored as F32 [99999999999999]; tensor \"1\" is F32 [2]"
    );
    let dtype = lie(
        "\"dtype\":\"float32\",\"shape\":[2],\"tensor\":\"1\"",
        "\"dtype\":\"qint8\",\"shape\":[2],\"tensor\":\"1\"",
    );
    assert_eq!(
        dtype,
        "DIR/t.safetensors: runs[0].calls[0].inputs[\"x\"]: \"qint8\" is no dtype of torch's"
    );
    let negative = lie(
        "\"shape\":[2],\"tensor\":\"1\"",
        "\"shape\":[-2],\"tensor\":\"1\"",
    );
    assert!(
        negative.contains("invalid value: integer `-2`, expected usize"),
        "{negative}"
    );
}

/// Every key of a document: the way to it.
fn keys(at: &Json, way: &str, all: &mut Vec<String>) {
    match at {
        Json::Object(map) => {
            for (key, value) in map {
                let way = format!("{way}/{key}");
                all.push(way.clone());
                keys(value, &way, all);
            }
        }
        Json::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                keys(value, &format!("{way}/{i}"), all);
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_that_is_missing_is_named_with_what_to_do() {
    let mut traced = traced();
    traced.call(
        call("main")
            .input("x", &[2], &[1.0, 2.0])
            .output("", &[2], &[4.0, 8.0])
            .buffer("s", &[2], &[2.0, 4.0]),
    );
    let mut document: Json = serde_json::from_str(&traced.document()).unwrap();
    document["hints"] =
        json!({"read": ["main"], "lost": [{"function": "main", "kind": "python", "name": "n"}]});
    document["functions"][0]["constants"] = json!([{"path": "scale", "value": "3"}]);
    let written = document["runs"][0]["calls"][0]["inputs"].clone();
    document["runs"][0]["calls"][0]["arguments"] = written;
    // What the first call says, the second need not.
    document["runs"][0]["calls"][1] = json!({
        "function": "main", "inputs": {}, "outputs": [{"path": "", "constant": "None"}], "buffers": null,
        "arguments": null, "random": false, "error": "RuntimeError: no",
    });
    let mut ways = Vec::new();
    keys(&document, "", &mut ways);
    let mut said = String::new();
    for way in ways {
        let (parent, key) = way.rsplit_once('/').unwrap();
        let mut less = document.clone();
        let parent = less.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.safetensors");
        std::fs::write(&path, traced.bytes_with(&less.to_string())).unwrap();
        let told = match Trace::open(&path) {
            Ok(_) => "may be missing".into(),
            Err(error) => {
                let text = error.to_string();
                let (file, rest) = text.split_once(": ").unwrap();
                assert!(file.ends_with("t.safetensors"), "{text}");
                let (column, rest) = match rest.split_once(" column ") {
                    Some((_, rest)) => rest.split_at(rest.find([',', ':']).unwrap()),
                    None => ("", rest),
                };
                assert!(column.chars().all(|c| c.is_ascii_digit()));
                rest.trim_start_matches([',', ':', ' ']).to_string()
            }
        };
        said.push_str(&format!("{way}: {told}\n"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_buffer_that_a_call_registers_has_no_start() {
    let appears = edited(|d| {
        let mut document: Json = serde_json::from_str(&d).unwrap();
        document["runs"][0]["start"]["main"]["s"] = Json::Null;
        document.to_string()
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    std::fs::write(&path, appears).unwrap();
    assert_eq!(
        Trace::open(&path).unwrap().runs()[0].began("main", "s"),
        None
    );
}

#[test]
fn an_output_is_a_value_or_a_constant_and_not_both() {
    assert_eq!(
        error(&edited(|d| d.replace("\"path\":\"\"", "\"path\":\"\",\"constant\":\"None\""))),
        "DIR/t.safetensors: runs[0].calls[0].outputs[0]: has to have either a \"value\" or a \"constant\"; record it again with `coreai-audit convert --trace`"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// No byte of the file, changed or cut off, makes the reader panic.
    #[test]
    fn damaged_files_are_errors_or_traces(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
        let mut bytes = traced().bytes();
        let n = bytes.len();
        bytes[at % n] = byte;
        bytes.truncate(n - cut % n);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.safetensors");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(trace) = Trace::open(&path) {
            for call in trace.runs().iter().flat_map(|r| &r.calls) {
                for value in call.inputs.values() {
                    prop_assert!(trace.tensor(value).is_ok());
                }
            }
        }
    }
}
