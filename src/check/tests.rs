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
            .given("x", longs(&[1], &[9_205_357_640_488_583_168]))
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
        "input x is 9205357640488583168 at step 1, which its dtype in the asset cannot hold: it becomes 2147483647"
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

/// A trace of the cache's two calls, its document edited.
fn edited(edit: impl Fn(&mut serde_json::Value)) -> Result<Report, String> {
    let module = text::parse(CACHE).unwrap();
    let contract = crate::contract::extract(&module).contract;
    let traced = cache_trace(&[0, 1], &[0, 1]);
    let mut document = serde_json::from_str(&traced.document()).unwrap();
    edit(&mut document);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.safetensors");
    std::fs::write(&path, traced.bytes_with(&document.to_string())).unwrap();
    let trace = Trace::open(&path).unwrap();
    let options = Options::default();
    check_module(
        Path::new("cache"),
        &module,
        &contract,
        &trace,
        &options,
        &mut (),
    )
    .map_err(|e| {
        e.to_string()
            .replace(&dir.path().display().to_string(), "DIR")
    })
}

#[test]
fn a_call_without_a_value_for_an_input_is_refused_before_anything_runs() {
    let without = |call: usize| {
        move |d: &mut serde_json::Value| {
            let inputs = d["runs"][0]["calls"][call]["inputs"].as_object_mut();
            inputs.unwrap().remove("y").unwrap();
        }
    };
    let told = |n: usize| {
        format!(
            "DIR/trace.safetensors: runs[0].calls[{}].inputs: call {n} has no \"y\", and main takes it in every \
             call as the input y; give it there and record it again with `coreai-audit convert --trace`",
            n - 1
        )
    };
    assert_eq!(edited(without(0)).unwrap_err(), told(1));
    assert_eq!(edited(without(1)).unwrap_err(), told(2));
}

#[test]
fn what_an_entry_point_does_not_take_may_be_missing_in_a_call() {
    // An argument that the asset has no input for.
    let more = |d: &mut serde_json::Value| {
        let argument = serde_json::json!({"path": "mask", "dtype": "float32", "written": false});
        d["functions"][0]["arguments"]
            .as_array_mut()
            .unwrap()
            .push(argument);
        let y = d["runs"][0]["calls"][0]["inputs"]["y"].clone();
        d["runs"][0]["calls"][0]["inputs"]["mask"] = y;
    };
    assert!(edited(more).unwrap().parity_holds());
    // A call of an entry point that the asset does not have.
    let other = |d: &mut serde_json::Value| {
        let mut function = d["functions"][0].clone();
        function["name"] = "prefill".into();
        d["functions"].as_array_mut().unwrap().push(function);
        let run = &mut d["runs"][0];
        run["start"]["prefill"] = run["start"]["main"].clone();
        let mut call = run["calls"][1].clone();
        call["function"] = "prefill".into();
        call["inputs"] = serde_json::json!({});
        run["calls"].as_array_mut().unwrap().push(call);
    };
    assert!(edited(other).unwrap().parity_holds());
    // What PyTorch refuses is not run.
    let refuses = |d: &mut serde_json::Value| {
        let call = &mut d["runs"][0]["calls"][1];
        call["inputs"] = serde_json::json!({});
        call["error"] = "TypeError: missing y".into();
    };
    let report = edited(refuses).unwrap();
    assert_eq!(report.findings[0].id, "eager-refuses");
}

#[test]
fn a_contract_of_another_asset_is_refused() {
    let module = text::parse(CACHE).unwrap();
    let mut contract = crate::contract::extract(&module).contract;
    let states = |contract: &mut crate::contract::Contract| {
        contract.functions[0].states[0].name = "keys".into();
    };
    let functions = |contract: &mut crate::contract::Contract| {
        contract.functions[0].name = "decode".into();
    };
    let own = contract.clone();
    functions(&mut contract);
    assert_eq!(
        refused(&module, &contract),
        "the contract given has decode, and the asset has main; is it the contract of this asset?"
    );
    contract = own;
    states(&mut contract);
    assert_eq!(
        refused(&module, &contract),
        "the contract is not of this asset: its main has the states keys, the asset's has cache. \
         Give the contract of this asset, or leave out --contract"
    );
}

/// Why a contract cannot be used for the cache.
fn refused(module: &crate::ir::Module, contract: &crate::contract::Contract) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut traced = Traced::new("main");
    traced.argument("x");
    traced.argument("y");
    traced.call(call("main").given("x", longs(&[1], &[0])));
    let trace = traced.open(dir.path());
    let options = Options::default();
    let error = check_module(
        Path::new("cache"),
        module,
        contract,
        &trace,
        &options,
        &mut (),
    )
    .unwrap_err();
    error.to_string()
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

/// The words of a protocol: verdict, sentence, duty and details.
fn protocol(report: &Report, kind: ProtocolKind) -> (Verdict, &str, &str, Vec<&str>) {
    let one = report.protocols.iter().find(|p| p.name == kind).unwrap();
    let details = one.details.iter().map(String::as_str).collect();
    (
        one.verdict,
        &one.found,
        one.duty.as_deref().unwrap_or(""),
        details,
    )
}

/// The cache of integers; with `all`, every row is summed and not only those up to the newest.
fn of_integers(all: bool) -> String {
    let text = CACHE.replace("f32", "si32");
    match all {
        true => text.replace("%valid = \"coreai.slice\"(%all, %zeros, %end,", "%far = coreai.constant dense<2147483647> : tensor<2xsi32>\n%valid = \"coreai.slice\"(%all, %zeros, %far,"),
        false => text,
    }
}

fn whole_numbers(shape: &[usize], values: &[i32]) -> super::testing::Raw {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    super::testing::Raw(
        "int32",
        safetensors::tensor::Dtype::I32,
        shape.to_vec(),
        bytes,
    )
}

fn trace_of_integers() -> Traced {
    let mut traced = Traced::new("main");
    let mut rows = [[0i32; 2]; 4];
    traced.buffer_of("cache", whole_numbers(&[4, 2], rows.as_flattened()));
    traced.argument("x");
    traced.argument("y");
    for at in 0..3 {
        rows[at] = [at as i32 + 1; 2];
        let mut made = call("main")
            .given("x", longs(&[1], &[at as i64]))
            .given("y", whole_numbers(&[1, 2], &rows[at]))
            .left("cache", whole_numbers(&[4, 2], rows.as_flattened()));
        let sum: i32 = rows.iter().map(|r| r[0]).sum();
        made = made.returned("", whole_numbers(&[1, 2], &[sum; 2]));
        traced.call(made);
    }
    traced
}

#[test]
fn integers_in_unwritten_rows_that_reach_an_output_are_told() {
    let report = checked(
        &of_integers(true),
        &trace_of_integers(),
        &Options::default(),
    );
    assert!(report.parity_holds(), "{:#?}", report.findings);
    let told = report
        .findings
        .iter()
        .find(|f| f.id == "reads-unwritten-rows")
        .unwrap();
    assert_eq!(
        told.message,
        "poisoned unwritten rows of cache reach sum until 4 rows are written"
    );
    let report = checked(
        &of_integers(false),
        &trace_of_integers(),
        &Options::default(),
    );
    assert_eq!(
        protocol(&report, ProtocolKind::Poison),
        (
            Verdict::Good,
            "neither NaN nor garbage in 1 state reaches an output",
            "nothing: states need not be zeroed",
            vec![]
        )
    );
}

/// Counts its calls.
const COUNTER: &str = r#"module {
  coreai.graph @main(%s: !coreai.handle<tensor<1xsi32>> {coreai.name = "n"}, %x: tensor<1xsi32> {coreai.name = "x"}) -> (!coreai.token {coreai.name = "n"}, tensor<1xsi32> {coreai.name = "y"}) {
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %t = "coreai.create_token"() : () -> !coreai.token
    %old, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<1xsi32>>, !coreai.token) -> (tensor<1xsi32>, !coreai.token)
    %new = "coreai.add"(%old, %one) : (tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xsi32>
    %t2 = "coreai.write_handle"(%s, %new, %t1) : (!coreai.handle<tensor<1xsi32>>, tensor<1xsi32>, !coreai.token) -> !coreai.token
    %y = "coreai.add"(%new, %x) : (tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xsi32>
    coreai.output %t2, %y : !coreai.token, tensor<1xsi32>
  }
}"#;

fn count_to(last: i32) -> Traced {
    let mut traced = Traced::new("main");
    traced.buffer_of("n", whole_numbers(&[1], &[0]));
    traced.argument("x");
    for n in 1..=last {
        traced.call(
            call("main")
                .given("x", whole_numbers(&[1], &[10]))
                .returned("", whole_numbers(&[1], &[n + 10]))
                .left("n", whole_numbers(&[1], &[n])),
        );
    }
    traced
}

#[test]
fn a_counter_is_told_as_one_and_is_no_fault() {
    let report = checked(COUNTER, &count_to(3), &Options::default());
    assert_eq!(
        protocol(&report, ProtocolKind::Poison),
        (
            Verdict::Duty,
            "n must start at 0",
            "start n at 0",
            vec!["n: must start at 0: each step goes on from what it holds; another value reaches y at every step"]
        )
    );
    let ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_ref()).collect();
    assert_eq!(ids, ["no-prefix-reuse"]);
}

#[test]
fn an_output_that_no_step_compares_is_told_and_holds_no_parity() {
    let mut traced = Traced::new("main");
    traced.buffer("cache", &[4, 2], &[0.0; 8]);
    traced.argument("x");
    traced.argument("y");
    let mut rows = [0f32; 8];
    rows[..2].fill(1.0);
    traced.call(
        call("main")
            .given("x", longs(&[1], &[0]))
            .input("y", &[1, 2], &[1.0; 2])
            .buffer("cache", &[4, 2], &rows),
    );
    let report = checked(CACHE, &traced, &Options::default());
    let told: Vec<_> = report.not_compared.iter().map(|n| &n.port).collect();
    assert_eq!(told, ["sum"]);
    let finding = report.findings.iter().find(|f| f.id == "not-compared");
    assert_eq!(
        finding.unwrap().message,
        "output sum is not compared with PyTorch in any step: no value that main returns in PyTorch fits it"
    );
    assert_eq!(finding.unwrap().severity, crate::report::Severity::Warning);
}

#[test]
fn a_trace_that_compares_nothing_proves_nothing() {
    let mut traced = Traced::new("main");
    traced.buffer("cache", &[4, 2], &[0.0; 8]);
    traced.argument("x");
    traced.argument("y");
    let call = call("main").given("x", longs(&[1], &[0]));
    traced.call(call.input("y", &[1, 2], &[1.0; 2]));
    let report = checked(CACHE, &traced, &Options::default());
    let severities: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.id == "not-compared")
        .map(|f| f.severity)
        .collect();
    assert_eq!(severities, [crate::report::Severity::Error; 2]);
}

/// A sum of any extents, all of which the input shares.
const PLANE: &str = r#"module {
  coreai.graph @main(%s: !coreai.handle<tensor<?x?xf32>> {coreai.name = "s"}, %x: tensor<?x?xf32> {coreai.name = "x"}) -> (!coreai.token {coreai.name = "s"}, tensor<?x?xf32> {coreai.name = "y"}) {
    %t = "coreai.create_token"() : () -> !coreai.token
    %old, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<?x?xf32>>, !coreai.token) -> (tensor<?x?xf32>, !coreai.token)
    %new = "coreai.add"(%old, %x) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %t2 = "coreai.write_handle"(%s, %new, %t1) : (!coreai.handle<tensor<?x?xf32>>, tensor<?x?xf32>, !coreai.token) -> !coreai.token
    coreai.output %t2, %new : !coreai.token, tensor<?x?xf32>
  }
}"#;

#[test]
fn every_dynamic_axis_grows_with_the_inputs_that_share_its_extent() {
    for shape in [[2usize, 5], [2, 2]] {
        let n = shape[0] * shape[1];
        let mut traced = Traced::new("main");
        traced.buffer("s", &shape, &vec![0.0; n]);
        traced.argument("x");
        for step in 1..=2 {
            let sum = vec![step as f32; n];
            traced.call(
                call("main")
                    .input("x", &shape, &vec![1.0; n])
                    .output("", &shape, &sum)
                    .buffer("s", &shape, &sum),
            );
        }
        let report = checked(PLANE, &traced, &Options::default());
        let (verdict, _, duty, details) = protocol(&report, ProtocolKind::Growth);
        assert_eq!(
            (verdict, duty),
            (
                Verdict::Good,
                "when a cache grows, copy its old contents into the new one and zero the rest"
            )
        );
        let both: &[&str] = match shape[0] == shape[1] {
            // One extent: they may be one symbol, and can move together.
            true => &[],
            false => &[
                "axis 0 of s and axis 0 of x enlarged by 3 rows after step 1, contents copied: 1 step as before",
                "axis 1 of s and axis 1 of x enlarged by 3 rows after step 1, contents copied: 1 step as before",
            ],
        };
        assert_eq!(details, both);
    }
}

/// `x * 2.5` scaled and moved; the cast in between is gone.
const SCALED: &str = r#"module {
  coreai.graph @main(%x: tensor<1x4xf32> {coreai.name = "x"}) -> (tensor<1x4xf32> {coreai.name = "y"}) {
    %a = coreai.constant dense<2.5> : tensor<1x4xf32>
    %b = coreai.constant dense<0.25> : tensor<1x4xf32>
    %m = "coreai.mul"(%x, %a) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %n = "coreai.mul"(%m, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %y = "coreai.add"(%n, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    coreai.output %y : tensor<1x4xf32>
  }
}"#;

#[test]
fn a_truncation_that_is_scaled_afterwards_is_found_by_trying() {
    let scaled = |cut: bool| {
        let mut traced = Traced::new("main");
        traced.argument("x");
        for step in 1..=2 {
            let x: Vec<f32> = [1.0, -1.5, 0.25, 3.75].map(|v| v * step as f32).into();
            let y = x.iter().map(|v| v * 2.5);
            let y: Vec<f32> = y
                .map(|v| if cut { v.trunc() } else { v + 0.1 } * 0.25 + 0.25)
                .collect();
            let made = call("main").input("x", &[1, 4], &x);
            traced.call(made.output("", &[1, 4], &y));
        }
        checked(SCALED, &traced, &Options::default())
    };
    let report = scaled(true);
    let ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_ref()).collect();
    assert_eq!(ids, ["float-int-float"]);
    assert_eq!(
        report.findings[0].evidence[1],
        "with the fraction of the result of coreai.mul (op 2) cut off, the asset gives PyTorch's values in every step"
    );
    let ids: Vec<_> = scaled(false)
        .findings
        .iter()
        .map(|f| f.id.clone())
        .collect();
    assert_eq!(ids, ["values-differ"]);
}

#[test]
fn where_trying_has_too_much_to_try_the_report_says_so() {
    let add = |result: usize, value: &str| {
        format!("    %{result} = \"coreai.add\"({value}, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n")
    };
    let sums: String = (0..=400)
        .map(|i| match i {
            0 => add(0, "%x"),
            _ => add(i, &format!("%{}", i - 1)),
        })
        .collect();
    let program = format!(
        "module {{\n  coreai.graph @main(%x: tensor<4xf32> {{coreai.name = \"x\"}}) -> (tensor<4xf32> {{coreai.name = \"y\"}}) {{\n{sums}    coreai.output %400 : tensor<4xf32>\n  }}\n}}"
    );
    let mut traced = Traced::new("main");
    traced.argument("x");
    let call = call("main").input("x", &[4], &[0.5; 4]);
    traced.call(call.output("", &[4], &[7.0; 4]));
    let report = checked(&program, &traced, &Options::default());
    assert_eq!(
        report.notes,
        ["whether y of main differs by a truncation the converter lost was not tried to the end: \
          the program has 402 values and 402 ops, the limits are 400 and 16384"]
    );
}

/// A function that keeps nothing.
const TWICE: &str = "module {
  coreai.graph @main(%x: tensor<1x2xf32> {coreai.name = \"x\"}) -> (tensor<1x2xf32> {coreai.name = \"y\"}) {
    %y = \"coreai.add\"(%x, %x) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    coreai.output %y : tensor<1x2xf32>
  }
}
";

#[test]
fn a_buffer_that_changes_in_training_alone_is_told_though_the_trace_does_not_show_it() {
    let told = |kind: &str, name: &str, y: f32| {
        let mut traced = Traced::new("main");
        traced.kept_buffer("n.mean", &[1]);
        traced.argument("x");
        let x = call("main").input("x", &[1, 2], &[1.0; 2]);
        traced.call(x.output("", &[1, 2], &[y; 2]));
        let mut options = Options::default();
        options.hints.lost.push(Lost {
            function: "main".into(),
            kind: kind.into(),
            name: name.into(),
        });
        let report = checked(TWICE, &traced, &options);
        let of = |f: &crate::report::Finding| (f.id.to_string(), f.message.clone());
        report.findings.iter().map(of).collect::<Vec<_>>()
    };
    let lost =
        "n.mean changes in PyTorch in the training mode the recipe hands the module over in, and the asset has \
                0 states";
    assert_eq!(
        told("buffer", "n.mean", 2.0),
        [("write-lost".into(), lost.into())]
    );
    // A name that the trace does not have, and what is no buffer, as before.
    assert_eq!(told("buffer", "other", 2.0), []);
    assert_eq!(told("tensor", "n.mean", 2.0), []);
    // It is not why an output differs.
    let both: Vec<String> = told("buffer", "n.mean", 3.0)
        .into_iter()
        .map(|f| f.0)
        .collect();
    assert_eq!(both, ["write-lost", "values-differ"]);
}

#[test]
fn where_no_call_is_compared_no_output_is_said_to_agree() {
    let lost = |width: usize| {
        let mut traced = Traced::new("main");
        traced.buffer("total", &[1], &[0.0]);
        traced.argument("x");
        for step in 1..3 {
            traced.call(
                call("main")
                    .input("x", &[1, width], &vec![1.0; width])
                    .output("", &[1, width], &vec![2.0; width])
                    .buffer("total", &[1], &[step as f32]),
            );
        }
        let report = checked(TWICE, &traced, &Options::default());
        let ids: Vec<String> = report.findings.iter().map(|f| f.id.to_string()).collect();
        let lost = report.findings.into_iter().find(|f| f.id == "write-lost");
        let evidence = lost.unwrap().evidence;
        (ids, report.runs[0].compared, evidence.last().cloned())
    };
    assert_eq!(
        lost(2),
        (
            vec!["write-lost".into()],
            2,
            Some("outputs agree in every step: they cannot show it".into())
        )
    );
    // A trace of another model.
    assert_eq!(
        lost(3),
        (
            vec!["run-failed".into(), "write-lost".into()],
            0,
            Some("no output was compared in this run".into())
        )
    );
}
