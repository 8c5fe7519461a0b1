//! What is found in each case, and what must be said.

use std::path::Path;
use std::sync::OnceLock;

use coreai_audit::asset;
use coreai_audit::check::{check, CastPair, Hints, Lost, Options, Report, Trace};
use coreai_audit::contract::{self, Contract};
use coreai_audit::report::Severity;

use crate::archive::unpack_into;

/// The folder of a case.
pub fn case(name: &str) -> std::path::PathBuf {
    static ROOT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let root = tempfile::tempdir().expect("a folder");
        unpack_into("check-cases.tar.zst", root.path());
        root
    });
    root.path().join(name)
}

fn contract_of(folder: &Path) -> Contract {
    let text = std::fs::read_to_string(folder.join("contract.json")).expect("a contract");
    contract::parse(&text, "contract.json").unwrap_or_else(|e| panic!("{e}"))
}

fn checked(name: &str, options: &Options) -> Report {
    let folder = case(name);
    let trace =
        Trace::open(&folder.join("trace.safetensors")).unwrap_or_else(|e| panic!("{name}: {e}"));
    let contract = contract_of(&folder);
    check(&folder.join("model.aimodel"), &contract, &trace, options)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The ids found, by severity.
fn ids(report: &Report, severity: Severity) -> Vec<&str> {
    let all = report.findings.iter().filter(|f| f.severity == severity);
    all.map(|f| f.id.as_ref()).collect()
}

/// All that the findings of an id say.
fn said(report: &Report, id: &str) -> String {
    let mut text = String::new();
    for finding in report.findings.iter().filter(|f| f.id == id) {
        text += &finding.message;
        for line in finding.evidence.iter().chain(&finding.fix) {
            text += "\n";
            text += line;
        }
        text += "\n";
    }
    text
}

/// Case, errors, warnings, and what the findings of the first of them say.
type Fault = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    ("attention_dropout_disappears", &["randomness-dropped"], &[], &["has no trace in the asset", "the reference is random", "not a numerical error"]),
    ("attention_row_with_nothing_visible", &["values-differ"], &["reads-unwritten-rows"], &["row 0 of y is 0 in PyTorch", "attends to every cache row as if nothing were masked", "query 1 agrees"]),
    ("backward_overlapping_shift", &["eager-refuses"], &[], &["the reference fails at step 1 with an overlap error; no parity can be stated"]),
    ("class_attribute_poisoned_by_export", &["write-lost"], &[], &["0 states", "the asset returns 2, 2, 2, 2, PyTorch 2, 3, 3.5, 3.75", "in another process"]),
    ("data_attribute_assignment_lost", &["write-lost"], &[], &["0 states", "y is 0 at step 1 where PyTorch gives 2"]),
    ("deque_window_frozen", &["write-lost"], &[], &["0 states", "outputs differ from step 2"]),
    ("empty_state_reads_garbage", &[], &["empty-reduction"], &["state s has shape [1, 0, 4]", "our runtime gives x", "the interpreter's output is undefined"]),
    ("initial_value_is_not_zero", &["initial-value-lost"], &[], &["buffer best starts at -10000, not 0; from zeros step 1 differs from PyTorch", "a consumer must fill"]),
    ("list_of_caches_never_updates", &["write-lost"], &[], &["the asset has 0 states", "outputs differ from step 2"]),
    ("mean_over_rows_not_yet_written", &[], &["reads-unwritten-rows"], &["parity", "poisoned unwritten rows of rows reach y until 8 rows are written"]),
    ("parameter_as_running_sum", &["mutated-parameter"], &[], &["is no state", "2 outputs for 1 return", "differ from step 2"]),
    ("phase_accumulator_loses_its_fraction", &["int64-narrowed"], &[], &["float64 state s is float32", "y 0.3125 against 0.3 at step 1", "at step 4"]),
    ("position_tail_only", &[], &["reads-unwritten-rows", "write-in-unexpected-row"], &[]),
    ("python_position_stays_zero", &["python-state-frozen"], &["reads-unwritten-rows"], &["PyTorch writes rows 0, 1, 2, 3; the asset row 0 each time", "y differs from step 2", "strict"]),
    ("transition_matrix_starts_at_identity", &["initial-value-lost"], &[], &["s starts at the identity", "from zeros every output is 0"]),
    ("truncated_increment_accumulates_fractions", &["float-int-float"], &[], &["2.7 against 2 at step 1", "the state drifts further at each step"]),
    ("uint8_counter_saturates", &["initial-value-lost", "narrow-integer-saturates"], &[], &["starts at 254"]),
    ("two_buffers_first_use_order", &["swapped-binding"], &[], &["key_cache holds what PyTorch has in value_cache"]),
    ("keys_first_names_on_interleaved_buffers", &["swapped-binding"], &[], &["state k1 agrees with layers.0.v of PyTorch"]),
];

/// Cases that are right, with the warnings consumers get.
const RIGHT: &[(&str, &[&str])] = &[
    ("branch_selects_then_state_written", &[]),
    ("state_written_inside_vmap", &[]),
    ("truncation_to_eight_bits_is_kept", &[]),
    ("index_put_with_tensor_position", &["reads-unwritten-rows"]),
    ("position_on_the_third_axis_dies", &["reads-unwritten-rows"]),
    ("position_taken_out_of_a_tensor", &["reads-unwritten-rows"]),
    ("scalar_position_state", &["reads-unwritten-rows"]),
    ("two_rows_by_index_live", &["reads-unwritten-rows"]),
    ("recurrent_taken_for_cache", &[]),
    ("beam_reorder_rewrites_the_cache", &[]),
    ("cache_registered_but_unused", &[]),
    ("returned_state_disappears", &[]),
    ("middle_output_is_the_only_one_left", &[]),
    ("state_zeroed_before_use", &[]),
    ("argument_mutated_in_place", &[]),
];

#[test]
fn every_fault_is_found_and_nothing_else_is_called_one() {
    for (name, errors, warnings, says) in FAULTS {
        let report = checked(name, &Options::default());
        assert_eq!(
            ids(&report, Severity::Error),
            *errors,
            "{name}: {:#?}",
            report.findings
        );
        assert_eq!(ids(&report, Severity::Warning), *warnings, "{name}");
        if let Some(first) = errors.first().or(warnings.first()) {
            let text = said(&report, first);
            for words in *says {
                assert!(text.contains(words), "{name}: {words:?} is not in\n{text}");
            }
        }
    }
}

#[test]
fn what_is_right_is_not_accused() {
    for (name, warnings) in RIGHT {
        let report = checked(name, &Options::default());
        assert!(report.parity_holds(), "{name}");
        assert_eq!(
            ids(&report, Severity::Error),
            [""; 0],
            "{name}: {:#?}",
            report.findings
        );
        assert_eq!(ids(&report, Severity::Warning), *warnings, "{name}");
    }
}

#[test]
fn the_place_of_a_write_is_told_with_where_it_comes_from() {
    let told = |name: &str| said(&checked(name, &Options::default()), "runtime-index-write");
    let deadly = told("index_put_with_tensor_position");
    assert!(
        deadly.starts_with("write position comes from input pos"),
        "{deadly}"
    );
    assert!(
        deadly.contains("this runtime gives PyTorch's values"),
        "{deadly}"
    );
    assert!(
        deadly.contains("the vendor's interpreter dies of it with signal 4"),
        "{deadly}"
    );
    let third = told("position_on_the_third_axis_dies");
    assert!(
        third.contains("parity at rows 0, 3, 7 of axis 2"),
        "{third}"
    );
    let live = told("two_rows_by_index_live");
    assert!(live.contains("the interpreter dies only when the static number of rows is 1 and rows have more than one element"), "{live}");
    assert!(!live.contains("with signal 4"), "{live}");
    let slice = told("position_taken_out_of_a_tensor");
    assert!(
        slice.contains("parity at rows 0, 3, 7 of axis 0"),
        "{slice}"
    );
    assert!(
        slice.contains("without the checks sym_storage_offset is unsupported"),
        "{slice}"
    );
    let state = told("scalar_position_state");
    assert!(
        state.starts_with("write position comes from state pos"),
        "{state}"
    );
    assert!(state.contains("shape [1] is refused by name"), "{state}");
}

#[test]
fn positions_given_as_the_tail_alone_land_in_row_0() {
    let report = checked("position_tail_only", &Options::default());
    assert_eq!(
        said(&report, "write-in-unexpected-row"),
        "the write offset of rows comes from the length of position_ids: with the newest positions [k] alone every step writes row 0; with the full vector rows advance\n\
         position_ids in full: step 1 row 0; step 2 row 1; step 3 row 2\n\
         the tail of position_ids alone: step 1 row 0; step 2 row 0; step 3 row 0\n\
         a consumer must give position_ids in full in every step; or take the offset from its values, not its length\n"
    );
}

#[test]
fn states_that_cannot_be_rewound_are_named_with_the_reason() {
    let report = checked("recurrent_taken_for_cache", &Options::default());
    let text = said(&report, "no-prefix-reuse");
    assert!(
        text.starts_with("conv_state shifts, scan_state is a running scan: rewind is not lossless"),
        "{text}"
    );
    assert!(
        text.contains("shown by running: back to position 1 and replayed, y differs from step 2"),
        "{text}"
    );
}

#[test]
fn without_sources_names_are_tried_and_running_shows_the_exchange() {
    let folder = case("two_buffers_first_use_order");
    let trace = Trace::open(&folder.join("trace.safetensors")).unwrap();
    let asset = folder.join("model.aimodel");
    let contract = asset::read_contract(&asset).unwrap().contract;
    let report = check(&asset, &contract, &trace, &Options::default()).unwrap();
    let text = said(&report, "swapped-binding");
    assert!(
        text.starts_with("states key_cache and value_cache are exchanged: key_cache holds what PyTorch has in buffer value_cache"),
        "{text}"
    );
    assert_eq!(ids(&report, Severity::Error), ["swapped-binding"]);
}

#[test]
fn what_the_gate_knows_names_the_cause() {
    let with = |name: &str, hints: Hints| {
        let options = Options {
            hints,
            ..Options::default()
        };
        checked(name, &options)
    };
    let lost = |kind: &str, name: &str| Lost {
        function: "main".into(),
        kind: kind.into(),
        name: name.into(),
    };
    let report = with(
        "python_position_stays_zero",
        Hints {
            lost: vec![lost("python", "pos")],
            ..Hints::default()
        },
    );
    let text = said(&report, "python-state-frozen");
    assert!(text.starts_with("pos is a Python attribute changed by forward and frozen at its export-time value: PyTorch writes rows 0, 1, 2, 3; the asset row 0 each time"), "{text}");
    let hints = Hints {
        lost: vec![lost("tensor", "cache[0]"), lost("tensor", "cache[1]")],
        ..Hints::default()
    };
    let text = said(&with("list_of_caches_never_updates", hints), "write-lost");
    assert!(text.starts_with("cache[0] and cache[1] change in PyTorch from call to call and are no states: the asset has 0 states"), "{text}");
    let cast = CastPair {
        function: "main".into(),
        from: "float32".into(),
        via: "int32".into(),
        site: "model.py:11".into(),
    };
    let hints = Hints {
        casts: vec![cast.clone()],
        ..Hints::default()
    };
    let text = said(
        &with("truncated_increment_accumulates_fractions", hints),
        "float-int-float",
    );
    assert!(
        text.contains("float32 to int32 and back at model.py:11"),
        "{text}"
    );
    // What changes and is a state has nothing to do with a difference elsewhere.
    let hints = Hints {
        lost: vec![lost("buffer", "k")],
        ..Hints::default()
    };
    let report = with("attention_row_with_nothing_visible", hints);
    assert_eq!(ids(&report, Severity::Error), ["values-differ"]);
    // A pair that is kept, and a pair without an effect, are no faults.
    let hints = Hints {
        casts: vec![cast],
        ..Hints::default()
    };
    let report = with("truncation_to_eight_bits_is_kept", hints);
    assert_eq!(ids(&report, Severity::Error), [""; 0]);
}

#[test]
fn two_functions_share_one_store_of_states() {
    let report = checked(
        "two_functions_exported_in_different_modes",
        &Options::default(),
    );
    // What the exchange does to values and rows stands under it.
    assert_eq!(ids(&report, Severity::Error), ["functions-disagree"]);
    let text = said(&report, "functions-disagree");
    assert!(
        text.starts_with("main and peek call different buffers by the same name\nmain: k is core.v, v is core.k\npeek: k is core.k, v is core.v\npeek, state k 1.875 against 12.25 at step 5"),
        "{text}"
    );
}
