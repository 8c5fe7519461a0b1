//! Who changed places, and whether what stands behind the names moved too.

use super::*;

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
