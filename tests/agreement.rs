//! Readings of one asset that do not agree: what no real toolchain does today, and the next may.

use coreai_audit::contract::agree::{compare_reading, join, OtherFunction, OtherPort};
use coreai_audit::contract::{self, Contract, FunctionSignature};
use coreai_audit::convert::{explain, Failure, FailureKind, PythonError, Step};
use coreai_audit::report::{render_findings, Finding, Paint};
use serde_json::{json, Value};

fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    render_findings(&mut text, findings, Paint::PLAIN).expect("writing to a string");
    text
}

/// A contract with two states and one input, as it is read off a program: without sources.
fn program() -> Contract {
    let text = r#"{"schema_version": 1, "functions": [{"name": "main",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
        "states": [
            {"name": "key_cache", "dtype": "float32", "shape": [1, 4], "access": "read-write"},
            {"name": "value_cache", "dtype": "float32", "shape": [1, 4], "access": "read-write"}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 4]}]}]}"#;
    contract::parse(text, "program").expect("a contract")
}

fn buffer(node: &str, target: &str) -> Value {
    json!({"node": node, "kind": "buffer", "target": target, "used": true, "dtype": "float32", "shape": [1, 4],
           "constant": null, "sites": [{"op": "add_", "file": "/home/me/model.py", "line": 7,
           "code": format!("self.{target}.add_(x)")}]})
}

fn argument(node: &str, rank: usize) -> Value {
    json!({"node": node, "kind": "user_input", "target": null, "used": true, "dtype": "float32",
           "shape": [1, 4], "constant": null, "path": node, "rank": rank})
}

fn output(kind: &str, node: &str, target: Option<&str>) -> Value {
    json!({"node": node, "kind": kind, "target": target, "dtype": "float32", "shape": [1, 4], "constant": null})
}

fn signature(placeholders: Vec<Value>, outputs: Vec<Value>) -> FunctionSignature {
    serde_json::from_value(json!({
        "name": "main", "strict": false,
        "names": {"inputs": ["x"], "outputs": ["y"], "states": ["key_cache", "value_cache"]},
        "program": {"placeholders": placeholders, "outputs": outputs},
    }))
    .expect("a signature")
}

fn two_caches(first: &str, second: &str) -> FunctionSignature {
    signature(
        vec![
            buffer("b_0", first),
            buffer("b_1", second),
            argument("x", 0),
        ],
        vec![
            output("buffer_mutation", "add", Some(first)),
            output("buffer_mutation", "add_1", Some(second)),
            output("user_output", "mul", None),
        ],
    )
}

#[test]
fn readings_that_agree_give_every_port_its_source() {
    let mut contract = program();
    let findings = join(&mut contract, &[two_caches("key_cache", "value_cache")]);
    assert_eq!(render(&findings), "");
    insta::assert_snapshot!(contract::human(&contract));
}

#[test]
fn a_tracer_that_exchanges_placeholders_is_seen_although_the_asset_is_the_same() {
    let mut contract = program();
    let findings = join(&mut contract, &[two_caches("value_cache", "key_cache")]);
    insta::assert_snapshot!(render(&findings));
}

#[test]
fn a_mutation_without_a_state_shows_both_sides() {
    let mut contract = program();
    contract.functions[0].states.truncate(1);
    let findings = join(&mut contract, &[two_caches("key_cache", "value_cache")]);
    insta::assert_snapshot!(render(&findings));
}

#[test]
fn a_state_of_another_type_shows_both_sides() {
    let mut contract = program();
    contract.functions[0].states[1].dtype = "float16".into();
    contract.functions[0].states[1].shape = vec![Some(1), None];
    let findings = join(&mut contract, &[two_caches("key_cache", "value_cache")]);
    insta::assert_snapshot!(render(&findings));
}

#[test]
fn a_state_that_is_never_written_in_the_program_is_lost() {
    let mut contract = program();
    contract.functions[0].states[0].access = contract::Access::ReadOnly;
    let findings = join(&mut contract, &[two_caches("key_cache", "value_cache")]);
    insta::assert_snapshot!(render(&findings));
}

#[test]
fn an_entry_point_that_is_gone_is_told() {
    let mut signature = two_caches("key_cache", "value_cache");
    signature.name = "decode".into();
    insta::assert_snapshot!(render(&join(&mut program(), &[signature])));
}

#[test]
fn a_descriptor_in_another_order_shows_both_sides() {
    let port = |name: &str| OtherPort {
        name: name.into(),
        dtype: Some("float32".into()),
        shape: Some(vec![Some(1), Some(4)]),
    };
    let other = OtherFunction {
        name: "main".into(),
        inputs: vec![port("x")],
        states: vec![port("value_cache"), port("key_cache")],
        outputs: vec![port("y")],
    };
    let helper = OtherFunction {
        name: "sdpa_06db0819".into(),
        inputs: vec![],
        states: vec![],
        outputs: vec![],
    };
    let findings = compare_reading(&program(), "runtime descriptor", &[helper, other]);
    insta::assert_snapshot!(render(&findings));
    let findings = compare_reading(&program(), "runtime descriptor", &[]);
    insta::assert_snapshot!(render(&findings));
}

#[test]
fn arguments_before_buffers_are_explained_with_what_each_state_is() {
    let signature = signature(
        vec![argument("x", 0), buffer("b_0", "key_cache")],
        vec![
            output("user_input_mutation", "mul", Some("x")),
            output("buffer_mutation", "add", Some("key_cache")),
        ],
    );
    let failure = Failure {
        stage: Step::Convert,
        kind: FailureKind::Python(PythonError {
            kind: "python".into(),
            class: "AssertionError".into(),
            message: "FX placeholder order violates the 'mutable buffers first' invariant.".into(),
            module: None,
            frames: vec![],
        }),
        log: vec![],
    };
    let explanation = explain(&failure, &[signature]);
    assert!(!explanation.found);
    insta::assert_snapshot!(render(&explanation.findings));
}

#[test]
fn a_death_is_told_with_the_last_lines_of_the_log() {
    let failure = Failure {
        stage: Step::Convert,
        kind: FailureKind::Signal(6),
        log: vec!["LLVM ERROR: one".into(), "\u{1b}[31mtwo".into()],
    };
    insta::assert_snapshot!(render(&explain(&failure, &[]).findings));
}
