//! Edit by edit: what is told, word for word.

use super::*;

fn is_told(old: &str, new: &str, expected: &[&str]) {
    assert_eq!(told(old, new), expected, "{old}  →  {new}");
}

#[test]
fn names_that_move_with_their_buffers_are_a_swap() {
    is_told(
        "|key_cache=k value_cache=v",
        "|value_cache=v key_cache=k",
        &["breaking states-reordered: states 0 and 1 swapped: key_cache ⇄ value_cache; the buffers \
           behind them moved with their names"],
    );
}

#[test]
fn names_that_move_without_their_buffers_are_a_swap_that_says_so() {
    is_told(
        "|key_cache=k value_cache=v",
        "|value_cache=k key_cache=v",
        &["breaking states-reordered: states 0 and 1 swapped: key_cache ⇄ value_cache; the buffers \
           behind them did not move"],
    );
    // What else differs is compared at the position, where the buffer is.
    is_told(
        "|key_cache=k:float16[4] value_cache=v:float32[8]",
        "|value_cache=k:float16[4] key_cache=v:float32[9]",
        &[
            "breaking states-reordered: states 0 and 1 swapped: key_cache ⇄ value_cache; the buffers \
             behind them did not move",
            "breaking extent-changed: state 1 key_cache: dimension 0: 8 → 9",
        ],
    );
}

#[test]
fn the_silent_swap_is_an_exchange_of_sources() {
    is_told(
        "|key_cache=k value_cache=v",
        "|key_cache=v value_cache=k",
        &["breaking source-changed: sources of states 0 and 1 exchanged: key_cache is now buffer v, \
           value_cache is now buffer k"],
    );
    is_told(
        "k=a v=b|",
        "k=b v=a|",
        &["breaking source-changed: sources of inputs 0 and 1 exchanged: k is now argument b, v is now \
           argument a"],
    );
    is_told(
        "|a=A b=B c=C",
        "|a=B b=C c=A",
        &["breaking source-changed: sources of states 0, 1 and 2 exchanged: a is now buffer B, b is now \
           buffer C, c is now buffer A"],
    );
    is_told(
        "|a=A b=B c=C d=D",
        "|a=B b=A c=D d=C",
        &[
            "breaking source-changed: sources of states 0 and 1 exchanged: a is now buffer B, b is now buffer A",
            "breaking source-changed: sources of states 2 and 3 exchanged: c is now buffer D, d is now buffer C",
        ],
    );
    is_told(
        "x=x|s=@s",
        "x=s|s=@x",
        &["breaking source-changed: sources of input 0 and state 0 exchanged: x is now argument s, s is \
           now argument x"],
    );
}

#[test]
fn a_swap_and_an_exchange_in_one_go_are_told_apart() {
    is_told(
        "|a=A b=B c=C d=D",
        "|b=B a=A c=D d=C",
        &[
            "breaking states-reordered: states 0 and 1 swapped: a ⇄ b; the buffers behind them moved with their names",
            "breaking source-changed: sources of states 2 and 3 exchanged: c is now buffer D, d is now buffer C",
        ],
    );
    is_told(
        "|a=A b=B c=C",
        "|b=B a=C c=A",
        &[
            "breaking states-reordered: states 0 and 1 swapped: a ⇄ b; not all buffers moved with them",
            "breaking source-changed: sources of states 1 and 2 exchanged: a is now buffer C, c is now buffer A",
        ],
    );
}

#[test]
fn without_sources_a_swap_says_nothing_of_what_is_behind() {
    is_told(
        "|k v",
        "|v k",
        &["breaking states-reordered: states 0 and 1 swapped: k ⇄ v"],
    );
    is_told(
        "|k=K v=V",
        "|v k",
        &[
            "breaking states-reordered: states 0 and 1 swapped: k ⇄ v",
            "note source-on-one-side: the sources of 2 states are recorded only in the old contract: \
             whether they are still the same buffers and arguments cannot be told",
        ],
    );
    is_told(
        "||y z",
        "||z y",
        &["breaking outputs-reordered: outputs 0 and 1 swapped: y ⇄ z"],
    );
}

#[test]
fn without_sources_dtypes_and_shapes_tell_whether_only_names_moved() {
    is_told(
        "||y z:int32[]",
        "||z y:int32[]",
        &["breaking outputs-reordered: outputs 0 and 1 swapped: y ⇄ z; their dtypes and shapes did not move"],
    );
}

#[test]
fn longer_moves_are_told_as_what_they_are() {
    is_told(
        "|a=A b=B c=C d=D",
        "|b=B c=C a=A d=D",
        &["breaking states-reordered: state a moved from position 0 to 2, past 2 others; the buffers \
           behind them moved with their names"],
    );
    is_told(
        "|a=A b=B c=C",
        "|c=A a=B b=C",
        &["breaking states-reordered: state c moved from position 2 to 0, past 2 others; the buffers \
           behind them did not move"],
    );
    is_told(
        "|a=A b=B c=C d=D",
        "|c=C a=A d=D b=B",
        &["breaking states-reordered: states reordered: a 0 → 1, b 1 → 3, c 2 → 0, d 3 → 2; the buffers \
           behind them moved with their names"],
    );
    is_told(
        "|a=A b=B c=C d=D",
        "|d=D c=C b=B a=A",
        &[
            "breaking states-reordered: states 0 and 3 swapped: a ⇄ d; the buffers behind them moved with their names",
            "breaking states-reordered: states 1 and 2 swapped: b ⇄ c; the buffers behind them moved with their names",
        ],
    );
}

#[test]
fn many_moves_are_one_change() {
    let names: Vec<String> = (0..12).map(|i| format!("s{i}=b{i}")).collect();
    let reversed: Vec<String> = names.iter().rev().cloned().collect();
    is_told(
        &format!("|{}", names.join(" ")),
        &format!("|{}", reversed.join(" ")),
        &["breaking states-reordered: states reordered: s0 0 → 11, s1 1 → 10, s2 2 → 9, s3 3 → 8, \
           s4 4 → 7, s5 5 → 6, s6 6 → 5, s7 7 → 4 and 4 more; the buffers behind them moved with their names"],
    );
}

#[test]
fn what_is_added_or_removed_in_between_is_no_move() {
    is_told(
        "|k=K v=V",
        "|n=N:int32[] k=K v=V",
        &["breaking state-added: state 0 n added: int32 [] read-write, buffer N"],
    );
    is_told(
        "|n=N k=K v=V",
        "|k=K v=V",
        &["breaking state-removed: state 0 n removed; it was float16 [4] read-write, buffer N"],
    );
    is_told(
        "|k=K v=V",
        "|n=N k=V v=K",
        &[
            "breaking state-added: state 0 n added: float16 [4] read-write, buffer N",
            "breaking source-changed: sources of states 1 and 2 exchanged: k is now buffer V, v is now buffer K",
        ],
    );
    is_told(
        "|k=K v=V",
        "|n=N v=K k=V",
        &[
            "breaking states-reordered: states 0 and 1 swapped: k ⇄ v (now 1 and 2); the buffers behind them did not move",
            "breaking state-added: state 0 n added: float16 [4] read-write, buffer N",
        ],
    );
}

#[test]
fn a_rename_is_told_as_a_rename() {
    is_told(
        "|k=K",
        "|cache=K",
        &["breaking state-renamed: state 0 renamed: k → cache; it is still buffer K"],
    );
    is_told(
        "x=x|",
        "ids=x|",
        &["breaking input-renamed: input 0 renamed: x → ids; it is still argument x"],
    );
    is_told(
        "||y z:int32",
        "||logits z:int32",
        &["breaking output-renamed: output 0 renamed: y → logits; taken for one by dtype, shape and place"],
    );
    is_told(
        "|k v",
        "|key val",
        &[
            "breaking state-renamed: state 0 renamed: k → key; taken for one by dtype, shape and place",
            "breaking state-renamed: state 1 renamed: v → val; taken for one by dtype, shape and place",
        ],
    );
    is_told(
        "||y",
        "||z:float32",
        &[
            "breaking output-renamed: output 0 renamed: y → z; taken for one by dtype, shape and place",
            "breaking dtype-changed: output 0 z: dtype float16 → float32",
        ],
    );
}

#[test]
fn a_rename_in_place_is_told_from_one_with_a_swap_by_dtype() {
    is_told(
        "||y z",
        "||a:float32 b",
        &[
            "breaking output-renamed: output 0 renamed: y → a; taken for one by dtype, shape and place",
            "breaking output-renamed: output 1 renamed: z → b; taken for one by dtype, shape and place",
            "breaking dtype-changed: output 0 a: dtype float16 → float32",
        ],
    );
    is_told(
        "||y z:int32",
        "||b:int32 a",
        &[
            "breaking outputs-reordered: outputs 0 and 1 swapped: y (now a) ⇄ z (now b)",
            "breaking output-renamed: output 0 renamed: y → a; taken for one by dtype, shape and place",
            "breaking output-renamed: output 1 renamed: z → b; taken for one by dtype, shape and place",
        ],
    );
}

#[test]
fn renames_that_hand_a_name_on_are_no_moves() {
    is_told(
        "|a=A b=B",
        "|b=A c=B",
        &[
            "breaking state-renamed: state 0 renamed: a → b; it is still buffer A",
            "breaking state-renamed: state 1 renamed: b → c; it is still buffer B",
        ],
    );
}

#[test]
fn an_exchange_of_sources_is_seen_through_a_rename() {
    is_told(
        "|k=K v=V",
        "|k=V w=K",
        &[
            "breaking state-renamed: state 1 renamed: v → w; taken for one by dtype, shape and place",
            "breaking source-changed: sources of states 0 and 1 exchanged: k is now buffer V, w is now buffer K",
        ],
    );
}

#[test]
fn a_rename_with_a_reorder_is_both() {
    is_told(
        "|a=A b=B",
        "|x=B a=A",
        &[
            "breaking states-reordered: states 0 and 1 swapped: a ⇄ b (now x); the buffers behind them moved with their names",
            "breaking state-renamed: state 1 renamed: b → x; it is still buffer B",
        ],
    );
    is_told(
        "||y z:int32",
        "||z:int32 w",
        &[
            "breaking outputs-reordered: outputs 0 and 1 swapped: y (now w) ⇄ z",
            "breaking output-renamed: output 0 renamed: y → w; taken for one by dtype, shape and place",
        ],
    );
}

#[test]
fn a_buffer_renamed_together_with_its_state_is_a_rename_and_a_changed_source() {
    is_told(
        "|k=k v=v",
        "|n=n:int32[] key=key v=v",
        &[
            "breaking state-renamed: state 0 renamed: k → key; taken for one by dtype, shape and place",
            "breaking state-added: state 0 n added: int32 [] read-write, buffer n",
            "breaking source-changed: source of state 1 key changed: was buffer k, is buffer key; nothing else has the old one",
        ],
    );
}

#[test]
fn what_has_nothing_in_common_is_removed_and_added() {
    is_told(
        "||y",
        "||n:int32[]",
        &[
            "breaking output-removed: output 0 y removed; it was float16 [4]",
            "breaking output-added: output 0 n added: int32 []",
        ],
    );
    is_told(
        "|a=A m=M",
        "|m=M z=Z",
        &[
            "breaking state-removed: state 0 a removed; it was float16 [4] read-write, buffer A",
            "breaking state-added: state 1 z added: float16 [4] read-write, buffer Z",
        ],
    );
}

#[test]
fn a_single_source_that_changed_says_where_the_old_one_went() {
    is_told(
        "|k=K",
        "|k=L",
        &["breaking source-changed: source of state 0 k changed: was buffer K, is buffer L; nothing else has the old one"],
    );
    is_told(
        "|k=K v=V",
        "|k=L v=K",
        &[
            "breaking source-changed: source of state 0 k changed: was buffer K, is buffer L; buffer K is now behind state 1 v",
            "breaking source-changed: source of state 1 v changed: was buffer V, is buffer K; nothing else has the old one",
        ],
    );
    is_told(
        "|k=x",
        "|k=@x",
        &["breaking source-changed: source of state 0 k changed: was buffer x, is argument x; nothing else has the old one"],
    );
}

#[test]
fn a_dropped_buffer_whose_name_was_kept_shows_in_the_source() {
    is_told(
        "|a=A b=B",
        "|a=B",
        &[
            "breaking state-removed: state 1 b removed; it was float16 [4] read-write, buffer B",
            "breaking source-changed: source of state 0 a changed: was buffer A, is buffer B; nothing else has the old one",
        ],
    );
}

#[test]
fn an_input_mutated_in_place_is_promoted_to_a_state() {
    is_told(
        "x=x y=y|k=K",
        "y=y|k=K x=@x",
        &["breaking input-became-state: argument x is now a state (position 1) and no longer an input"],
    );
    is_told(
        "|k=K x=@x",
        "x=x|k=K",
        &["breaking state-became-input: argument x is now an input (position 0) and no longer a state"],
    );
    is_told(
        "x:float32|",
        "|x:float16",
        &[
            "breaking input-became-state: input x is now a state (position 0) and no longer an input",
            "breaking dtype-changed: state 0 x: dtype float32 → float16",
        ],
    );
}

#[test]
fn a_promotion_is_found_by_source_where_names_slipped() {
    is_told(
        "x=x y=y|",
        "x=y|s=@x",
        &[
            "breaking input-became-state: argument x is now a state s (position 0) and no longer an input",
            "breaking input-renamed: input 1 renamed: y → x; it is still argument y",
        ],
    );
}

#[test]
fn an_output_is_compatible_only_behind_all_others() {
    is_told(
        "||y z",
        "||y z w",
        &["compatible output-added: output 2 w added at the end: float16 [4]"],
    );
    is_told(
        "||y",
        "||y w:int32 v:int32",
        &[
            "compatible output-added: output 1 w added at the end: int32 [4]",
            "compatible output-added: output 2 v added at the end: int32 [4]",
        ],
    );
    is_told(
        "||y z",
        "||w y z",
        &["breaking output-added: output 0 w added: float16 [4]"],
    );
    is_told(
        "||y z:int32",
        "||y n:bool[]",
        &[
            "breaking output-removed: output 1 z removed; it was int32 [4]",
            "breaking output-added: output 1 n added: bool []",
        ],
    );
    is_told(
        "x=x|",
        "x=x n=n:int32[]|",
        &["breaking input-added: input 1 n added: int32 [], argument n"],
    );
}

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
