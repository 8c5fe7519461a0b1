//! A matrix by hand: what is told of it, and that parts joined are the whole.

use std::collections::BTreeMap;

use super::document::{document, merge};
use super::*;
use crate::contract::testing::sample;
use crate::contract::Level;
use crate::manifest::Allow;
use crate::report::{Finding, Paint, Severity, Stage};

fn environment(label: &str, torch: &str) -> Environment {
    Environment {
        label: label.into(),
        asked: vec![format!("torch=={torch}")],
        existing: false,
        python: Some("3.11.7".into()),
        packages: [
            ("torch", torch),
            ("coreai-torch", "0.4.3"),
            ("numpy", "2.3"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect(),
        error: None,
    }
}

fn slot(node: &str, name: &str) -> Slot {
    Slot {
        node: Some(node.into()),
        kind: "buffer".into(),
        name: Some(name.into()),
        dtype: Some("float16".into()),
        shape: Some(vec![Some(4)]),
        written: true,
    }
}

fn record() -> Record {
    Record {
        contract: Some(sample()),
        fingerprint: Some("aa".into()),
        signature: vec![Signature {
            function: "main".into(),
            placeholders: vec![slot("b_k", "k"), slot("b_v", "v")],
            outputs: Vec::new(),
            ops: BTreeMap::from([("aten.add.Tensor".to_owned(), 2)]),
        }],
        ..Record::default()
    }
}

fn swapped() -> Record {
    let mut record = record();
    if let Some(contract) = &mut record.contract {
        let states = &mut contract.functions[0].states;
        let first = states[0].source.clone();
        states[0].source = states[1].source.clone();
        states[1].source = first;
    }
    record.signature[0].placeholders.swap(0, 1);
    record.warnings = vec!["coreai-torch has only been validated with torch<=2.13.0".into()];
    record.checked = Some(false);
    record
}

fn failed(stage: &str, outside: bool, keeps_signature: bool) -> Record {
    let mut record = record();
    record.contract = None;
    record.fingerprint = None;
    if !keeps_signature {
        record.signature.clear();
    }
    record.failure = Some(Failed {
        stage: stage.into(),
        message: format!("nothing comes out of {stage}"),
        outside,
    });
    record
}

fn row(name: &str, records: Vec<Option<Record>>) -> Row {
    Row {
        name: name.into(),
        recipe: format!("recipes.py:{name}"),
        level: Level::Binding,
        accepted: Vec::new(),
        records,
    }
}

fn environments() -> Vec<Environment> {
    let mut last = environment("a requirement set with quite a long name", "2.15.0");
    last.python = Some("3.12.1".into());
    vec![
        environment("torch==2.13.0", "2.13.0"),
        environment("torch==2.14.0", "2.14.0"),
        last,
    ]
}

fn rows() -> Vec<Row> {
    let mut other_program = record();
    other_program.fingerprint = Some("bb".into());
    other_program.signature[0].ops = BTreeMap::from([("aten.sub.Tensor".to_owned(), 1)]);
    let mut reordered = failed("convert", false, true);
    reordered.signature[0].placeholders.swap(0, 1);
    vec![
        row(
            "steady",
            vec![Some(record()), Some(record()), Some(record())],
        ),
        row(
            "program",
            vec![
                Some(record()),
                Some(other_program.clone()),
                Some(other_program),
            ],
        ),
        row(
            "swaps",
            vec![Some(record()), Some(record()), Some(swapped())],
        ),
        row(
            "across",
            vec![
                Some(record()),
                Some(failed("export", false, false)),
                Some(swapped()),
            ],
        ),
        row(
            "never",
            vec![
                Some(failed("convert", false, true)),
                Some(reordered.clone()),
                Some(reordered),
            ],
        ),
    ]
}

fn exits(rows: Vec<Row>) -> Vec<i32> {
    // As part of a run: what is left out is somebody else's.
    let matrix = Matrix::new(Some("1/2".into()), environments(), rows);
    matrix.models.iter().map(|m| m.exit).collect()
}

#[test]
fn the_matrix_and_what_moved_read_well() {
    let matrix = Matrix::new(None, environments(), rows());
    insta::assert_snapshot!(format!(
        "{}\n{}",
        table(&matrix, Paint::PLAIN),
        details(&matrix, Paint::PLAIN).unwrap()
    ));
    assert_eq!(exits(rows()), [0, 0, 1, 1, 2]);
    assert_eq!(matrix.exit(), 2);
}

#[test]
fn an_environment_that_is_not_there_is_told_once() {
    let mut environments = environments();
    environments[1].error =
        Some("no such set of versions: there is no version of torch==2.14.0".into());
    environments[1].python = None;
    environments[1].packages.clear();
    let broken = Record::not_begun(environments[1].error.clone().unwrap());
    let rows = vec![row(
        "steady",
        vec![Some(record()), Some(broken), Some(record())],
    )];
    let matrix = Matrix::new(None, environments, rows);
    insta::assert_snapshot!(format!(
        "{}\n{}",
        table(&matrix, Paint::PLAIN),
        details(&matrix, Paint::PLAIN).unwrap()
    ));
    assert_eq!(matrix.exit(), 2);
}

#[test]
fn what_used_to_convert_has_moved_unless_the_machine_is_to_blame() {
    let cells = |second: Record| vec![row("m", vec![Some(record()), Some(second), None])];
    assert_eq!(exits(cells(failed("export", false, false))), [1]);
    assert_eq!(exits(cells(failed("export", true, false))), [2]);
    let never = failed("export", false, false);
    assert_eq!(
        exits(vec![row(
            "m",
            vec![Some(never.clone()), Some(record()), None]
        )]),
        [2]
    );
    assert_eq!(exits(vec![row("m", vec![None, Some(never), None])]), [2]);
    assert_eq!(exits(vec![row("m", vec![None, Some(record()), None])]), [0]);
}

#[test]
fn new_errors_count_and_accepted_ones_do_not() {
    let mut with_error = record();
    with_error.findings = vec![
        Finding::new("token-without-state", Stage::Contract, Severity::Error, "m").about("s"),
        Finding::new("default-names", Stage::Contract, Severity::Warning, "m"),
    ];
    let cells = vec![Some(record()), Some(with_error.clone()), None];
    assert_eq!(exits(vec![row("m", cells.clone())]), [1]);
    let mut accepted = row("m", cells);
    accepted.accepted = vec![Allow {
        id: "token-without-state".into(),
        subject: Some("s".into()),
        reason: "r".into(),
    }];
    assert_eq!(exits(vec![accepted]), [0]);
    // What the reference has too did not come with the upgrade.
    let both = vec![Some(with_error.clone()), Some(with_error.clone()), None];
    assert_eq!(exits(vec![row("m", both)]), [0]);
    // A failed check is a failure wherever it is.
    with_error.findings[0].stage = Stage::Check;
    assert_eq!(
        exits(vec![row("m", vec![Some(with_error), None, None])]),
        [1]
    );
}

#[test]
fn at_level_strict_another_program_counts() {
    let strict = |mut row: Row| {
        row.level = Level::Strict;
        row
    };
    assert_eq!(
        exits(rows().into_iter().take(2).map(strict).collect()),
        [0, 1]
    );
}

/// The part with every cell for which `has` holds, as a file.
fn part(name: &str, has: impl Fn(usize) -> bool) -> (String, String) {
    let mut rows = rows();
    let cells = rows.iter_mut().flat_map(|r| r.records.iter_mut());
    for (_, cell) in cells.enumerate().filter(|(i, _)| !has(*i)) {
        *cell = None;
    }
    let matrix = Matrix::new(Some("1/2".into()), environments(), rows);
    (name.to_owned(), document(&matrix).to_string())
}

#[test]
fn parts_joined_are_the_whole() {
    let parts = [part("a", |i| i % 2 == 0), part("b", |i| i % 2 == 1)];
    let whole = document(&Matrix::new(None, environments(), rows()));
    assert_eq!(document(&merge(&parts).unwrap().matrix), whole);
    // A part may come twice.
    let twice = [parts[0].clone(), parts[1].clone(), parts[0].clone()];
    assert_eq!(document(&merge(&twice).unwrap().matrix), whole);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let said = |parts: &[(String, String)]| merge(parts).unwrap_err().to_string();
    let good = part("a", |_| true);
    assert_eq!(said(&[]), "nothing to merge");
    let text = |text: &str| ("x".to_owned(), text.to_owned());
    assert!(said(&[text("[")]).starts_with("x: expected a JSON document of `coreai-audit upgrade"));
    assert!(said(&[text(r#"{"schema_version":1,"command":"gate"}"#)])
        .ends_with("its command is \"gate\""));
    assert_eq!(
        said(&[text(r#"{"schema_version":9,"command":"upgrade"}"#)]),
        "x: schema_version 9, this version reads 1; use one version for all parts"
    );
    let part = |shard: &str| good.1.replace("\"1/2\"", shard);
    assert_eq!(
        said(&[text(&part("\"7/3\""))]),
        "x: \"7/3\": expected a part of a whole such as 1/4"
    );
    assert_eq!(
        said(&[good.clone(), text(&part("\"2/3\""))]),
        "x: is part 2/3, and a is part 1/2: expected parts of as many"
    );
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let other = good.1.replace(&version, "\"version\":\"9.9.9\"");
    assert_eq!(
        said(&[good.clone(), text(&other)]),
        format!(
            "x: was written by version 9.9.9 of coreai-audit, and a by {}: use one version for all parts",
            env!("CARGO_PKG_VERSION")
        )
    );
    let other = ("b".to_owned(), good.1.replace("2.14.0", "2.14.1"));
    assert_eq!(
        said(&[good.clone(), other]),
        "b: is no part of the same run as a: the environments differ"
    );
    let other = ("b".to_owned(), good.1.replace("recipes.py", "mine.py"));
    assert_eq!(
        said(&[good.clone(), other]),
        "b: is no part of the same run as a: the models differ"
    );
    let other = ("b".to_owned(), good.1.replace("\"bb\"", "\"cc\""));
    assert_eq!(
        said(&[good.clone(), other]),
        "b: program in torch==2.14.0 is told otherwise by another part"
    );
    let short = good.1.replacen(
        "{\"environment\":\"torch==2.13.0\"",
        "{\"environment\":\"torch==2.13.0\",\"record\":7",
        1,
    );
    assert!(said(&[("b".to_owned(), short)]).starts_with("b: expected a JSON document"));
}

#[test]
fn a_part_that_is_missing_is_told_and_fails() {
    let steady = || {
        vec![
            row("m", vec![Some(record()); 3]),
            row("n", vec![Some(record()); 3]),
        ]
    };
    let total = 6;
    let part = |k: usize| {
        let shard: Shard = format!("{k}/3").parse().unwrap();
        let mut rows = steady();
        for cell in (0..total).filter(|c| !shard.has(*c, total)) {
            rows[cell % 2].records[cell / 2] = None;
        }
        let matrix = Matrix::new(Some(shard.to_string()), environments(), rows);
        assert_eq!(matrix.exit(), 0, "a part alone is judged by what it has");
        (format!("{k}.json"), document(&matrix).to_string())
    };
    let merged = |ks: &[usize]| {
        let merged = merge(&ks.iter().map(|k| part(*k)).collect::<Vec<_>>()).unwrap();
        let exits: Vec<i32> = merged.matrix.models.iter().map(|m| m.exit).collect();
        assert_eq!(document(&merged.matrix)["exit"], merged.matrix.exit());
        (exits, merged.missing.unwrap_or_default())
    };
    assert_eq!(merged(&[2, 3, 1]), (vec![0, 0], String::new()));
    assert_eq!(
        merged(&[1, 3]),
        (
            vec![2, 2],
            "part 2/3 is missing: 2 cells of 6 not judged".into()
        )
    );
    // Without the reference there is nothing to compare with.
    assert_eq!(
        merged(&[2, 3]),
        (
            vec![2, 2],
            "part 1/3 is missing: 2 cells of 6 not judged".into()
        )
    );
    assert_eq!(
        merged(&[2]),
        (
            vec![2, 2],
            "part 1/3 and part 3/3 are missing: 4 cells of 6 not judged".into()
        )
    );
    // What was joined before can be joined with the rest.
    let half = merge(&[part(1), part(3)]).unwrap().matrix;
    let half = ("half".to_owned(), document(&half).to_string());
    assert_eq!(merge(&[half.clone(), part(2)]).unwrap().missing, None);
    assert_eq!(
        merge(&[half]).unwrap().missing.as_deref(),
        Some("a part is missing: 2 cells of 6 not judged")
    );
}
