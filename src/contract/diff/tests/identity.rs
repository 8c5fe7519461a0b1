//! Which entry is which: renames, promotions, changed sources, what came and what went.

use super::*;

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
