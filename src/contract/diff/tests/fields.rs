//! What changed of one entry or of a function, what counts, and what consumers see.

use super::*;

#[test]
fn dtypes_and_shapes() {
    is_told(
        "||y",
        "||y:float32",
        &["breaking dtype-changed: output 0 y: dtype float16 → float32"],
    );
    is_told(
        "|k=K",
        "|k=K:float32",
        &["breaking dtype-changed: state 0 k: dtype float16 → float32, as in torch"],
    );
    is_told(
        "|k=K[4]",
        "|k=K[4,1]",
        &["breaking rank-changed: state 0 k: rank 1 → 2: [4] → [4, 1]"],
    );
    is_told(
        "|k=K[4,?,5,6]",
        "|k=K[5,8,?,7]",
        &[
            "breaking extent-changed: state 0 k: dimension 0: 4 → 5, dimension 3: 6 → 7",
            "breaking became-static: state 0 k: dimension 1: ? → 8, no longer dynamic",
            "compatible became-dynamic: state 0 k: dimension 2: 5 → ?, now dynamic",
        ],
    );
}

#[test]
fn several_changes_of_one_state_are_told_one_by_one() {
    is_told(
        "|k=K!w v=V",
        "|v=V key=K:float32[?]",
        &[
            "breaking states-reordered: states 0 and 1 swapped: k (now key) ⇄ v; the buffers behind them moved with their names",
            "breaking state-renamed: state 0 renamed: k → key; it is still buffer K",
            "breaking dtype-changed: state 1 key: dtype float16 → float32, as in torch",
            "breaking access-changed: state 1 key: access write-only → read-write: what it holds is now read",
            "compatible became-dynamic: state 1 key: dimension 0: 4 → ?, now dynamic",
        ],
    );
}

#[test]
fn every_change_of_access_says_what_the_caller_loses() {
    let accesses = ["k=K", "k=K!w", "k=K!r", "k=K!u"];
    let mut all = Vec::new();
    for old in accesses {
        for new in accesses {
            let changes = diff(&contract(&format!("|{old}")), &contract(&format!("|{new}")));
            assert_eq!(changes.len(), usize::from(old != new));
            all.extend(changes.iter().map(|c| {
                format!(
                    "{}: {}\n    the caller {}",
                    c.severity, c.message, c.by_name
                )
            }));
        }
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn the_same_tensor_under_other_names_is_a_note() {
    is_told(
        "|k=first.k+second.k",
        "|k=second.k+first.k",
        &["note source-alias-changed: state 0 k: the same buffer under other names: first.k, second.k → second.k, first.k"],
    );
    is_told(
        "|k=first.k",
        "|k=first.k+second.k",
        &["note source-alias-changed: state 0 k: the same buffer under other names: first.k → first.k, second.k"],
    );
}

#[test]
fn narrowing_that_starts_or_ends_in_torch_is_a_note() {
    let (old, mut new) = (contract("|n=N:int32"), contract("|n=N:int32"));
    new.functions[0].states[0].source = testing::buffer("N", "int64");
    assert_eq!(
        lines(&diff(&old, &new)),
        ["note source-dtype-changed: state 0 n: buffer N is int64 in torch, it was int32; in the asset it is int32"]
    );
    assert_eq!(
        lines(&diff(&new, &old)),
        ["note source-dtype-changed: state 0 n: buffer N is int32 in torch, it was int64"]
    );
}

#[test]
fn repeated_names_and_sources_keep_their_own_partners() {
    is_told("|k=K k=L", "|k=L k=K", &["breaking states-reordered: states 0 and 1 swapped: k ⇄ k; the buffers behind them moved with their names"]);
    is_told(
        "x=x x=x|",
        "x=x|",
        &["breaking input-removed: input 1 x removed; it was float16 [4], argument x"],
    );
}

#[test]
fn the_export_mode_is_a_finding_of_its_own() {
    let with = |strict| {
        let mut contract = contract("|k=K v=V");
        contract.functions[0].export = Some(Export { strict });
        contract
    };
    assert_eq!(
        lines(&diff(&with(false), &with(true))),
        ["note export-mode-changed: export mode changed: not strict → strict; without strict, buffers become \
          states in the order they are registered, with it in the order they are first used"]
    );
    assert_eq!(
        lines(&diff(&contract("|k=K v=V"), &with(true))),
        ["note export-mode-on-one-side: the export mode is recorded only in the new contract (strict)"]
    );
}

#[test]
fn functions_come_go_move_and_are_renamed() {
    let named = |name: &str, spec: &str| Function {
        name: name.into(),
        ..main(spec)
    };
    let old = testing::contract([
        named("main", "|k=K|y"),
        named("peek", "|k=K|z"),
        named("old", "x||"),
    ]);
    let new = testing::contract([
        named("look", "|k=K|z"),
        named("main", "|k=K|y:float32"),
        named("new", "||w"),
    ]);
    assert_eq!(
        lines(&diff(&old, &new)),
        [
            "breaking function-removed: function old removed",
            "breaking function-renamed: function renamed: peek → look",
            "breaking dtype-changed: output 0 y: dtype float16 → float32",
            "compatible function-added: function new added",
            "note functions-reordered: functions reordered: main, peek → look, main",
        ]
    );
}

#[test]
fn levels_choose_what_counts() {
    let counts = |old: &str, new: &str| {
        let changes = diff(&contract(old), &contract(new));
        assert_eq!(changes.len(), 1, "{changes:?}");
        [Level::Strict, Level::Binding, Level::Runtime].map(|level| changes[0].counts_at(level))
    };
    assert_eq!(counts("|k=K v=V", "|v=V k=K"), [true, true, true]);
    assert_eq!(counts("|k=K v=V", "|k=V v=K"), [true, true, false]);
    assert_eq!(counts("||y", "||y z"), [true, false, false]);
    assert_eq!(counts("|k=K", "|k=K[?]"), [true, false, false]);
    assert_eq!(counts("|k=K[?]", "|k=K"), [true, true, true]);
    assert_eq!(counts("|k=K", "|k"), [true, false, false]);
    assert_eq!(counts("|k=K!w", "|k=K"), [true, true, true]);
    assert_eq!(counts("|k=K!r", "|k=K!u"), [true, false, false]);
}

#[test]
fn what_consumers_see() {
    let cases = [
        ("|k=K v=V", "|v=V k=K"),
        ("|k=K v=V", "|v=K k=V"),
        ("|k=K v=V", "|k=V v=K"),
        ("|k v", "|v k"),
        ("a=a b=b:int32|", "b=b:int32 a=a|"),
        ("||y z", "||z y"),
        ("||y z:int32", "||z:int32 y"),
        ("||y z:int32", "||z y:int32"),
        ("|a=A b=B", "|b=A c=B"),
        ("||y", "||z"),
        ("x=x|", "|x=@x"),
        ("|x=@x", "x=x|"),
        ("x=x|", "x=x n=n|"),
        ("|k=K v=V", "|k=K"),
        ("||y z", "||w:int32 y z"),
        ("||y z", "||z"),
        ("||y", "||y:float32[?]"),
        ("|k=K", "|k=K[?]"),
    ];
    let shown = cases.map(|(old, new)| {
        let seen = diff(&contract(old), &contract(new)).into_iter().map(|c| {
            format!(
                "  {}\n    by position: {}\n    by name: {}",
                c.message, c.by_position, c.by_name
            )
        });
        format!("{old}  →  {new}\n{}", seen.collect::<Vec<_>>().join("\n"))
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn hostile_names_stay_on_their_line() {
    let mut old = contract("|k=K v=V");
    old.functions[0].states[0].name = "a\u{1b}[2J\nb".into();
    let mut new = old.clone();
    new.functions[0].states.swap(0, 1);
    assert_eq!(
        lines(&diff(&old, &new)),
        ["breaking states-reordered: states 0 and 1 swapped: \"a\\u{1b}[2J\\nb\" ⇄ v; the buffers behind \
          them moved with their names"]
    );
}

#[test]
fn huge_contracts_take_linear_time() {
    let many = |entry: &dyn Fn(usize) -> String| {
        let states: Vec<String> = (0..20_000).map(entry).collect();
        contract(&format!("|{}|", states.join(" ")))
    };
    let distinct = many(&|i| format!("s{i}=B{i}"));
    let handed_on = many(&|i| format!("s{}=B{i}", i + 1));
    assert_eq!(diff(&distinct, &handed_on).len(), 20_000);
    let exchanged = many(&|i| format!("s{i}=B{}", (i + 1) % 20_000));
    assert_eq!(diff(&distinct, &exchanged).len(), 1);
    let all_alike = many(&|_| "s=B".to_owned());
    assert_eq!(diff(&all_alike, &all_alike), vec![]);
    let other = many(&|_| "t=C".to_owned());
    assert_eq!(diff(&all_alike, &other).len(), 40_000);
    let mut turned = distinct.clone();
    turned.functions[0].states.reverse();
    assert_eq!(diff(&distinct, &turned).len(), 1);
}
