//! Programs as text against traces made by hand.

use std::path::Path;

use super::testing::{call, longs, Traced};
use super::*;
use crate::ir::text;

/// A cache of any number of rows: a row is written at `x`, the rows up to it are summed.
const CACHE: &str = include_str!("../../tests/check/cache.mlir");

fn checked(program: &str, traced: &Traced, options: &Options) -> Report {
    let module = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let contract = crate::contract::extract(&module).contract;
    let dir = tempfile::tempdir().unwrap();
    let trace = traced.open(dir.path());
    check_module(
        Path::new("cache"),
        &module,
        &contract,
        &trace,
        options,
        &mut (),
    )
    .unwrap_or_else(|e| panic!("{e}"))
}

/// What PyTorch has when a row of `value` is written at each of `places`.
fn cache_trace(places: &[usize], landed: &[usize]) -> Traced {
    let mut traced = Traced::new("main");
    let mut rows = [[0f32; 2]; 4];
    traced.buffer("cache", &[4, 2], rows.as_flattened());
    traced.argument("x");
    traced.argument("y");
    for (i, (place, land)) in places.iter().zip(landed).enumerate() {
        let value = (i + 1) as f32;
        rows[*land] = [value; 2];
        let sum: f32 = rows[..=*place].iter().map(|r| r[0]).sum();
        traced.call(
            call("main")
                .given("x", longs(&[1], &[*place as i64]))
                .input("y", &[1, 2], &[value; 2])
                .output("", &[1, 2], &[sum; 2])
                .buffer("cache", &[4, 2], rows.as_flattened()),
        );
    }
    traced
}

fn verdict(report: &Report, kind: ProtocolKind) -> (Verdict, &str) {
    let one = report.protocols.iter().find(|p| p.name == kind).unwrap();
    (one.verdict, &one.found)
}

#[test]
fn a_good_cache_can_be_left_unzeroed_rewound_and_grown_and_is_not_copied() {
    let report = checked(
        CACHE,
        &cache_trace(&[0, 1, 2], &[0, 1, 2]),
        &Options::default(),
    );
    assert!(report.parity_holds(), "{:#?}", report.findings);
    let ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_ref()).collect();
    assert_eq!(ids, ["runtime-index-write"]);
    assert_eq!(
        verdict(&report, ProtocolKind::Poison),
        (
            Verdict::Good,
            "neither NaN nor garbage in 1 state reaches an output"
        )
    );
    assert_eq!(
        verdict(&report, ProtocolKind::Rewind),
        (
            Verdict::Good,
            "back to position 1 and replayed: 2 steps as before"
        )
    );
    assert_eq!(
        verdict(&report, ProtocolKind::Growth),
        (
            Verdict::Good,
            "axis 0 of cache enlarged by 3 rows after step 1, contents copied: 2 steps as before"
        )
    );
    assert_eq!(
        verdict(&report, ProtocolKind::Copies),
        (Verdict::Good, "1 state written in place")
    );
    let landing = report
        .protocols
        .iter()
        .find(|p| p.name == ProtocolKind::Landing)
        .unwrap();
    assert_eq!(
        landing.details,
        ["cache, axis 0: step 1 row 0; step 2 row 1; step 3 row 2"]
    );
}

#[test]
fn a_row_that_lands_elsewhere_is_named_with_both_timelines() {
    // PyTorch counts its rows from the end.
    let report = checked(
        CACHE,
        &cache_trace(&[0, 1, 2], &[3, 2, 1]),
        &Options::default(),
    );
    let first = &report.findings[0];
    assert_eq!(first.id, "write-in-unexpected-row");
    assert_eq!(
        first.message,
        "cache is written in another row than in PyTorch from step 1 on: PyTorch writes rows 3, 2, 1; the asset rows 0, 1, 2"
    );
}

#[test]
fn an_input_beyond_32_bits_is_told() {
    let mut traced = Traced::new("main");
    traced.buffer("cache", &[4, 2], &[0.0; 8]);
    traced.argument("x");
    traced.argument("y");
    traced.call(
        call("main")
            .given("x", longs(&[1], &[5_000_000_000]))
            .input("y", &[1, 2], &[1.0; 2])
            .output("", &[1, 2], &[0.0; 2])
            .buffer("cache", &[4, 2], &[0.0; 8]),
    );
    let options = Options {
        protocols: vec![],
        ..Options::default()
    };
    let report = checked(CACHE, &traced, &options);
    let told = report
        .findings
        .iter()
        .find(|f| f.id == "int64-narrowed")
        .unwrap();
    assert_eq!(
        told.message,
        "input x is 5000000000 at step 1, which its dtype in the asset cannot hold: it becomes 2147483647"
    );
}

#[test]
fn a_trace_of_another_model_is_refused() {
    let module = text::parse(CACHE).unwrap();
    let contract = crate::contract::extract(&module).contract;
    let dir = tempfile::tempdir().unwrap();
    let mut traced = Traced::new("main");
    traced.argument("tokens");
    traced.call(call("main").given("tokens", longs(&[1], &[0])));
    let trace = traced.open(dir.path());
    let error = check_module(
        Path::new("cache"),
        &module,
        &contract,
        &trace,
        &Options::default(),
        &mut (),
    )
    .unwrap_err();
    let text = error
        .to_string()
        .replace(&dir.path().display().to_string(), "DIR");
    assert_eq!(
        text,
        "DIR/trace.safetensors: no argument in it is the input x of main; it has tokens. Give the contract with the sources: --contract"
    );
}

#[test]
fn a_contract_of_another_asset_is_refused() {
    let module = text::parse(CACHE).unwrap();
    let mut contract = crate::contract::extract(&module).contract;
    contract.functions[0].name = "decode".into();
    let dir = tempfile::tempdir().unwrap();
    let mut traced = Traced::new("main");
    traced.argument("x");
    traced.argument("y");
    traced.call(call("main").given("x", longs(&[1], &[0])));
    let trace = traced.open(dir.path());
    let options = Options::default();
    let error = check_module(
        Path::new("cache"),
        &module,
        &contract,
        &trace,
        &options,
        &mut (),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the contract given has decode, and the asset has main; is it the contract of this asset?"
    );
}

#[test]
fn a_state_whose_recorded_shape_changes_differs_and_nothing_breaks() {
    let mut traced = Traced::new("main");
    traced.buffer("cache", &[4, 2], &[0.0; 8]);
    traced.argument("x");
    traced.argument("y");
    let shapes: [&[usize]; 2] = [&[4, 2], &[8]];
    for (at, shape) in shapes.iter().enumerate() {
        traced.call(
            call("main")
                .given("x", longs(&[1], &[at as i64]))
                .input("y", &[1, 2], &[1.0; 2])
                .output("", &[1, 2], &[at as f32 + 1.0; 2])
                .buffer("cache", shape, &[7.0; 8]),
        );
    }
    let report = checked(CACHE, &traced, &Options::default());
    let state = report.parity.iter().find(|p| p.port == "cache").unwrap();
    assert_eq!(
        state.steps[1].incomparable.as_deref(),
        Some("shape [4, 2] against [8]")
    );
    assert!(!report.parity_holds());
    assert_eq!(report.findings[0].id, "values-differ");
}
