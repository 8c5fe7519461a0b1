//! `coreai-audit check` as it is typed.

use assert_cmd::Command;

use crate::cases::case;

fn run(name: &str, more: &[&str]) -> (i32, String, String) {
    let folder = case(name);
    let output = Command::cargo_bin("coreai-audit")
        .unwrap()
        .arg("check")
        .arg(folder.join("model.aimodel"))
        .arg("--reference")
        .arg(folder.join("trace.safetensors"))
        .args(more)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .unwrap()
            .replace(&folder.display().to_string(), "DIR")
    };
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_fault_is_shown_with_parity_protocols_and_its_cause() {
    let (code, out, err) = run("uint8_counter_saturates", &[]);
    assert_eq!((code, err.as_str()), (1, ""));
    insta::assert_snapshot!(out);
}

#[test]
fn what_is_right_exits_with_0() {
    let (code, out, err) = run("scalar_position_state", &["--protocols", "missing,index"]);
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!(out);
}

#[test]
fn json_has_findings_parity_and_protocols() {
    let (code, out, _) = run(
        "mean_over_rows_not_yet_written",
        &["--format", "json", "--protocols", "poison"],
    );
    assert_eq!(code, 0);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["parity_holds"], true);
    assert_eq!(document["findings"][0]["id"], "reads-unwritten-rows");
    assert_eq!(document["protocols"][0]["name"], "poison");
    assert_eq!(document["parity"][0]["steps"][3]["metrics"]["beyond"], 0);
}

#[test]
fn what_is_no_trace_exits_with_2_and_says_so() {
    let folder = case("scalar_position_state");
    let output = Command::cargo_bin("coreai-audit")
        .unwrap()
        .arg("check")
        .arg(folder.join("model.aimodel"))
        .arg("--reference")
        .arg(folder.join("contract.json"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.contains("contract.json: is no safetensors file"),
        "{err}"
    );
}
