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

#[test]
fn a_call_of_a_trace_without_an_input_exits_with_2_and_names_it() {
    let folder = case("uint8_counter_saturates");
    // The third call has it under another name of that length.
    let mut bytes = std::fs::read(folder.join("trace.safetensors")).unwrap();
    let key = br#"\"inputs\": {\"x\""#;
    let mut starts = (0..bytes.len()).filter(|i| bytes[*i..].starts_with(key));
    let third = starts.nth(2).unwrap();
    bytes[third + key.len() - 3] = b'z';
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let output = Command::cargo_bin("coreai-audit")
        .unwrap()
        .arg("check")
        .arg(folder.join("model.aimodel"))
        .arg("--reference")
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    let told = "trace.safetensors: runs[0].calls[2].inputs: call 3 has no \"x\", and main takes it in every call as \
                the input x";
    assert!(err.contains(told), "{err}");
    assert_eq!(output.stdout, b"");
}

/// A stand-in for the interpreter.
#[cfg(unix)]
fn stand_in(script: &str) -> (tempfile::TempDir, String) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = path.display().to_string();
    (dir, shown)
}

#[cfg(unix)]
#[test]
fn an_interpreter_that_dies_is_a_finding_and_the_check_goes_on() {
    let script = "echo 'Fatal error: Index 1 is out of bounds' >&2\necho 'ODIE [default]: bye' >&2\nkill -ILL $$";
    let (_dir, python) = stand_in(script);
    let (code, out, err) = run(
        "position_on_the_third_axis_dies",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!((code, err.as_str()), (1, ""));
    let told =
        "error[interpreter-died] main: the vendor's interpreter dies at step 1 with signal 4\n    \
        Fatal error: Index 1 is out of bounds\n    \
        our runtime gives PyTorch's values\n";
    assert!(out.contains(told), "{out}");
    assert!(
        out.contains("registered  main y  return value  float32    3/3"),
        "{out}"
    );
}

#[cfg(unix)]
#[test]
fn an_interpreter_that_refuses_is_quoted() {
    let (_dir, python) = stand_in("echo '{\"error\": \"ValueError: no\"}'; exit 1");
    let (code, out, _) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!(code, 0);
    assert!(out.contains("warning[interpreter-refuses] main: the vendor's interpreter refuses step 1: ValueError: no"), "{out}");
}

#[cfg(unix)]
#[test]
fn an_environment_without_the_interpreter_is_exit_code_2() {
    let (_dir, python) = stand_in("echo '{\"missing\": \"No module named coreai\"}'; exit 1");
    let (code, _, err) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!(code, 2);
    let told = format!(
        "error: {python}: has no coreai-core (No module named coreai), which --oracle runs on; install it there \
         (pip install coreai-core), or give --python an environment with coreai-core\n"
    );
    assert_eq!(err, told);
    let missing = r#"{"missing": "No module named 'numpy'", "package": "numpy"}"#;
    let (_dir, python) = stand_in(&format!(
        "echo \"{}\"; exit 1",
        missing.replace('"', "\\\"")
    ));
    let (code, out, err) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!((code, out.as_str()), (2, ""));
    let told = format!(
        "error: {python}: has no numpy (No module named 'numpy'), which --oracle runs on; install it there \
         (pip install numpy), or give --python an environment with coreai-core\n"
    );
    assert_eq!(err, told);
}

#[cfg(unix)]
#[test]
fn a_python_that_ends_before_the_interpreter_is_there_is_exit_code_2() {
    let script = "echo 'SyntaxError: future feature annotations is not defined' >&2; exit 1";
    let (_dir, python) = stand_in(script);
    let (code, out, err) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!((code, out.as_str()), (2, ""));
    let told = format!(
        "error: {python}: ends with exit code 1 before the first step (SyntaxError: future feature annotations is \
         not defined); give --python a Python with coreai-core (pip install coreai-core)\n"
    );
    assert_eq!(err, told);
    // Another program, which is content.
    let (_dir, python) = stand_in("exit 0");
    let (code, _, err) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    let told = format!(
        "error: {python}: ends with exit code 0 before the first step; give --python a Python with coreai-core (pip \
         install coreai-core)\n"
    );
    assert_eq!((code, err), (2, told));
}

#[cfg(unix)]
#[test]
fn an_interpreter_that_ends_once_it_is_there_is_a_finding() {
    let (_dir, python) = stand_in("echo '{\"ready\": true}'; echo bye >&2; exit 3");
    let (code, out, err) = run(
        "scalar_position_state",
        &["--protocols", "none", "--oracle", "--python", &python],
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let told = "warning[interpreter-refuses] main: the vendor's interpreter ends with exit code 3 at step 1\n    bye\n";
    assert!(out.contains(told), "{out}");
}

#[test]
fn a_trace_that_is_not_there_cannot_be_read() {
    let folder = case("scalar_position_state");
    let output = Command::cargo_bin("coreai-audit")
        .unwrap()
        .arg("check")
        .arg(folder.join("model.aimodel"))
        .args(["--reference", "no/such.trace"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.starts_with("error: no/such.trace: cannot be read"),
        "{err}"
    );
    assert!(!err.contains("written"), "{err}");
}

#[test]
fn numbers_out_of_their_range_are_told_with_the_range() {
    for (option, value, told) in [
        ("--atol", "-1", "expected a number that is not negative"),
        ("--rtol", "-0.5", "expected a number that is not negative"),
        ("--rtol", "-1e-3", "expected a number that is not negative"),
        ("--threads", "257", "257 is not in 1..=256"),
    ] {
        let (code, out, err) = run("scalar_position_state", &[option, value]);
        assert_eq!((code, out.as_str()), (2, ""));
        let shown = format!("error: invalid value '{value}' for '{option} <");
        assert!(err.starts_with(&shown), "{err}");
        assert!(err.contains(told), "{err}");
    }
}

#[test]
fn protocols_for_which_no_time_is_left_are_not_begun() {
    let (code, out, _) = run(
        "scalar_position_state",
        &["--budget", "0", "--protocols", "poison"],
    );
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("not begun: the time for protocols is used up"),
        "{out}"
    );
    assert!(!out.contains("not finished"), "{out}");
}
