//! Programs that make no sense, and calls that do not fit: errors that say where, never a panic.

use coreai_audit::runtime::{DType, Tensor};

use super::programs::{apply, eval, load, t};

#[test]
fn a_loop_without_end_is_stopped() {
    let text = r#"module {
  coreai.graph @main(%a: tensor<i1> {coreai.name = "x"}) -> (tensor<i1> {coreai.name = "r"}) {
    %r = "coreai.while"(%a) ({
    ^bb0(%c: tensor<i1>):
      "coreai.condition"(%c, %c) : (tensor<i1>, tensor<i1>) -> ()
    }, {
    ^bb0(%c: tensor<i1>):
      "coreai.yield"(%c) : (tensor<i1>) -> ()
    }) : (tensor<i1>) -> tensor<i1>
    coreai.output %r : tensor<i1>
  }
}"#;
    let flag = |v| Tensor::from_bytes(DType::Bool, &[], &[v]).unwrap();
    assert_eq!(&*eval(text, &[flag(0)]).unwrap()[0].bytes(), [0]);
    let e = eval(text, &[flag(1)]).unwrap_err().to_string();
    assert_eq!(
        e,
        "graph main: coreai.while (op 0): more than 1048576 turns: it does not end"
    );
}

#[test]
fn a_graph_that_calls_itself_is_stopped() {
    let text = r#"module {
  coreai.graph @main(%a: tensor<2xf32> {coreai.name = "x"}) -> (tensor<2xf32> {coreai.name = "r"}) {
    %r = coreai.invoke @main(%a) : (tensor<2xf32>) -> tensor<2xf32>
    coreai.output %r : tensor<2xf32>
  }
}"#;
    let e = eval(text, &[t(&[2], &[1.0f32, 2.0])])
        .unwrap_err()
        .to_string();
    assert_eq!(
        e,
        "graph main: coreai.invoke (op 0): nested deeper than 24 calls"
    );
}

#[test]
fn requests_beyond_all_memory_are_refused() {
    let big = t(&[2], &[1u32 << 16, 1 << 16]);
    let e = apply(
        &["1x1xf32", "2xui32"],
        "broadcast_to",
        "?x?xf32",
        &[t(&[1, 1], &[1f32]), big],
    );
    assert_eq!(
        e.unwrap_err(),
        "graph main: coreai.broadcast_to (op 0): a value of shape [65536, 65536] is beyond the limit \
         of 2147483647 elements"
    );
    let bounds = [t(&[], &[0i32]), t(&[], &[i32::MAX]), t(&[], &[1i32])];
    assert!(apply(&["si32", "si32", "si32"], "range", "?xsi32", &bounds).is_err());
    let bounds = [t(&[], &[0.0f32]), t(&[], &[1e30f32]), t(&[], &[1e-30f32])];
    assert!(apply(&["f32", "f32", "f32"], "range", "?xf32", &bounds).is_err());
    let e = apply(
        &["1xf32", "2xui32", "f32"],
        "pad <{padding_mode = #coreai.padding_mode<constant>}>",
        "?xf32",
        &[
            t(&[1], &[1f32]),
            t(&[2], &[u32::MAX, u32::MAX]),
            t(&[], &[0f32]),
        ],
    );
    assert!(e.unwrap_err().contains("beyond the limit"));
}

/// Kernels walk the other dimensions of a value without elements, so those have a limit too.
#[test]
fn a_value_without_elements_has_no_endless_extents() {
    let limit = "is beyond the limit of 2147483647 elements";
    let empty = t::<f32>(&[3, 0, 1], &[]);
    let wide = t(&[3], &[1i64, 1, 1 << 40]);
    let e = apply(
        &["3x0x1xf32", "3xsi64"],
        "tile",
        "?x?x?xf32",
        &[empty.clone(), wide],
    );
    let tile = "graph main: coreai.tile (op 0): a value of shape [1, 3, 1, 0, 1099511627776, 1]";
    assert_eq!(e.unwrap_err(), format!("{tile} {limit}"));
    let shape = t(&[2], &[1i64 << 40, 0]);
    let e = apply(
        &["3x0x1xf32", "2xsi64"],
        "reshape",
        "?x?xf32",
        &[empty, shape],
    );
    let reshape =
        "graph main: coreai.reshape (op 0): the result is a value of shape [1099511627776, 0]";
    assert_eq!(e.unwrap_err(), format!("{reshape} {limit}"));
    let input = t::<f32>(&[1 << 40, 0], &[]);
    assert!(apply(&["?x?xf32"], "relu", "?x?xf32", &[input])
        .unwrap_err()
        .ends_with(limit));
}

#[test]
fn shapes_that_do_not_fit_each_other_are_told() {
    let (a, b) = (t(&[2], &[1f32, 2.0]), t(&[3], &[1f32, 2.0, 3.0]));
    for (op, expected) in [
        ("add", "operands of shapes [2] and [3]"),
        ("broadcasting_mul", "shapes [2] and [3] do not broadcast"),
    ] {
        let e = apply(&["?xf32", "?xf32"], op, "?xf32", &[a.clone(), b.clone()]).unwrap_err();
        assert_eq!(e, format!("graph main: coreai.{op} (op 0): {expected}"));
    }
    let e = apply(
        &["?xf32", "2xsi32"],
        "reshape",
        "?x?xf32",
        &[b.clone(), t(&[2], &[-1i32, 2])],
    );
    assert!(e
        .unwrap_err()
        .contains("3 elements of shape [3] do not make"));
    let e = apply(
        &["?xf32", "1xsi32"],
        "reduce_sum",
        "1xf32",
        &[b, t(&[1], &[1i32])],
    );
    assert!(e
        .unwrap_err()
        .ends_with("axis 1 is outside a tensor of rank 1"));
}

#[test]
fn an_op_of_another_world_is_refused_when_loading() {
    let text = r#"module {
  coreai.graph @main(%a: tensor<2xf32> {coreai.name = "x"}) -> (tensor<2xf32> {coreai.name = "r"}) {
    %q = "coreai.frobnicate"(%a) : (tensor<2xf32>) -> tensor<2xf32>
    %r = "coreai.frobnicate"(%q) : (tensor<2xf32>) -> tensor<2xf32>
    coreai.output %r : tensor<2xf32>
  }
}"#;
    assert_eq!(
        load(text).unwrap_err().to_string(),
        "test.aimodel: this runtime cannot execute coreai.frobnicate (2 in graph main)"
    );
}

const STATEFUL: &str = r#"module {
  coreai.graph @main(%s: !coreai.handle<tensor<2xf32>> {coreai.name = "s"}, %a: tensor<2xf32> {coreai.name = "x"}) -> (!coreai.token {coreai.name = "s"}, tensor<2xf32> {coreai.name = "r"}) {
    %t = "coreai.create_token"() : () -> !coreai.token
    %v, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<2xf32>>, !coreai.token) -> (tensor<2xf32>, !coreai.token)
    %w = "coreai.add"(%v, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t2 = "coreai.write_handle"(%s, %w, %t1) : (!coreai.handle<tensor<2xf32>>, tensor<2xf32>, !coreai.token) -> !coreai.token
    %u, %t3 = "coreai.read_handle"(%s, %t2) : (!coreai.handle<tensor<2xf32>>, !coreai.token) -> (tensor<2xf32>, !coreai.token)
    coreai.output %t3, %u : !coreai.token, tensor<2xf32>
  }
}"#;

#[test]
fn states_are_updated_and_reads_see_earlier_writes() {
    let f = load(STATEFUL).unwrap().function("main").unwrap();
    let x = t(&[2], &[1f32, 2.0]);
    let mut s = t(&[2], &[10f32, 20.0]);
    for step in 1..=2 {
        let out = f.run(&[("x", &x)], &mut [("s", &mut s)], &mut []).unwrap();
        let n = step as f32;
        assert_eq!(out[0].0, "r");
        assert_eq!(
            out[0].1.values::<f32>().unwrap(),
            [10.0 + n, 20.0 + 2.0 * n]
        );
        assert_eq!(s.values::<f32>().unwrap(), [10.0 + n, 20.0 + 2.0 * n]);
    }
    let mut r = Tensor::zeros(DType::F32, &[2]).unwrap();
    let out = f
        .run(&[("x", &x)], &mut [("s", &mut s)], &mut [("r", &mut r)])
        .unwrap();
    assert!(out.is_empty());
    assert_eq!(r.values::<f32>().unwrap(), [13.0, 26.0]);
}

#[test]
fn values_that_do_not_fit_the_function_are_named() {
    let f = load(STATEFUL).unwrap().function("main").unwrap();
    let x = t(&[2], &[1f32, 2.0]);
    let run = |inputs: &[(&str, &Tensor)], states: &mut [(&str, &mut Tensor)]| {
        f.run(inputs, states, &mut []).unwrap_err().to_string()
    };
    let s = &mut x.clone();
    assert_eq!(
        run(&[("x", &x)], &mut []),
        "function main: state s is missing"
    );
    assert_eq!(
        run(&[], &mut [("s", s)]),
        "function main: input x is missing"
    );
    assert_eq!(
        run(&[("x", &x), ("y", &x)], &mut [("s", s)]),
        "function main has no input y; it has x"
    );
    assert_eq!(
        run(&[("x", &x), ("x", &x)], &mut [("s", s)]),
        "function main: input x is given more than once"
    );
    assert_eq!(
        run(&[("x", &t(&[2], &[1i64, 2]))], &mut [("s", s)]),
        "function main: input x is int64, expected float32; values are never converted"
    );
    assert_eq!(
        run(&[("x", &t(&[3], &[1f32; 3]))], &mut [("s", s)]),
        "function main: input x has shape [3], expected [2]"
    );
    assert_eq!(
        run(&[("x", &t(&[1, 2], &[1f32; 2]))], &mut [("s", s)]),
        "function main: input x has 2 dimensions, expected 1 ([2])"
    );
    let mut wrong = t(&[1], &[1f32]);
    assert_eq!(
        run(&[("x", &x)], &mut [("s", &mut wrong)]),
        "function main: state s has shape [1], expected [2]"
    );
    assert_eq!(
        load(STATEFUL)
            .unwrap()
            .function("decode")
            .unwrap_err()
            .to_string(),
        "no function decode in the asset; it has main"
    );
}

/// Attention of one query over keys and values that a shape spreads to so many heads.
const SPREAD: &str = r#"module {
  coreai.graph @main(%q: tensor<?x?x?x?xf32> {coreai.name = "x"}, %k: tensor<?x?x?x?xf32> {coreai.name = "y"}, %to: tensor<4xsi64> {coreai.name = "z"}) -> (tensor<?x?x?x?xf32> {coreai.name = "r"}) {
    %swap = coreai.constant dense<[0, 1, 3, 2]> : tensor<4xui32>
    %last = coreai.constant dense<-1> : tensor<si32>
    %kb = "coreai.broadcast_to"(%k, %to) : (tensor<?x?x?x?xf32>, tensor<4xsi64>) -> tensor<?x?x?x?xf32>
    %kt = "coreai.transpose"(%kb, %swap) : (tensor<?x?x?x?xf32>, tensor<4xui32>) -> tensor<?x?x?x?xf32>
    %s = "coreai.decomposable.broadcasting_batch_matmul"(%q, %kt) : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %p = "coreai.softmax"(%s, %last) : (tensor<?x?x?x?xf32>, tensor<si32>) -> tensor<?x?x?x?xf32>
    %r = "coreai.decomposable.broadcasting_batch_matmul"(%p, %kb) : (tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    coreai.output %r : tensor<?x?x?x?xf32>
  }
}"#;

#[test]
fn products_of_more_matrices_than_can_be_listed_are_refused() {
    let one = || t(&[1, 1, 1, 1], &[1f32]);
    let run = |to: [i64; 4]| eval(SPREAD, &[one(), one(), t(&[4], &to)]);
    assert_eq!(run([1, 3, 1, 1]).unwrap()[0].reals().unwrap(), [1.0; 3]);
    // The ops are numbered as in the program.
    for to in [[1, 700_000_000, 1, 1], [40_000, 40_000, 1, 1]] {
        assert_eq!(
            run(to).unwrap_err().to_string(),
            format!(
                "graph main: coreai.decomposable.broadcasting_batch_matmul (op 4): products of more than 67108864 \
                 matrices, of shape [{}, {}]",
                to[0], to[1]
            )
        );
    }
}

#[test]
fn heads_repeated_beyond_all_memory_are_refused() {
    let text = r#"module {
  coreai.graph @main(%q: tensor<1x?x?x3xf32> {coreai.name = "x"}, %k: tensor<1x2x?x3xf32> {coreai.name = "y"}) -> (tensor<1x?x?x?xf32> {coreai.name = "r"}) {
    %swap = coreai.constant dense<[0, 1, 3, 2]> : tensor<4xui32>
    %two = coreai.constant dense<2> : tensor<1xsi32>
    %times = coreai.constant dense<[1, 1, 2000000000, 1, 1]> : tensor<5xui32>
    %w = "coreai.expand_dims"(%k, %two) : (tensor<1x2x?x3xf32>, tensor<1xsi32>) -> tensor<1x2x1x?x3xf32>
    %ti = "coreai.tile"(%w, %times) : (tensor<1x2x1x?x3xf32>, tensor<5xui32>) -> tensor<1x2x2000000000x?x3xf32>
    %sh = coreai.constant dense<[1, 4000000000, 5, 3]> : tensor<4xsi64>
    %re = "coreai.reshape"(%ti, %sh) : (tensor<1x2x2000000000x?x3xf32>, tensor<4xsi64>) -> tensor<1x4000000000x?x3xf32>
    %kt = "coreai.transpose"(%re, %swap) : (tensor<1x4000000000x?x3xf32>, tensor<4xui32>) -> tensor<1x4000000000x3x?xf32>
    %r = "coreai.batch_matmul"(%q, %kt) : (tensor<1x?x?x3xf32>, tensor<1x4000000000x3x?xf32>) -> tensor<1x?x?x?xf32>
    coreai.output %r : tensor<1x?x?x?xf32>
  }
}"#;
    let (q, k) = (t(&[1, 4, 1, 3], &[1f32; 12]), t(&[1, 2, 5, 3], &[1f32; 30]));
    assert_eq!(
        eval(text, &[q, k]).unwrap_err().to_string(),
        "graph main: coreai.batch_matmul (op 8): products of more than 67108864 matrices, of shape [2, 2000000000]"
    );
}

#[test]
fn parts_of_an_attention_are_numbered_as_in_the_program() {
    // Keys as wide as no query.
    let (q, k) = (t(&[1, 1, 1, 3], &[1f32; 3]), t(&[1, 1, 2, 2], &[1f32; 4]));
    let e = eval(SPREAD, &[q, k, t(&[4], &[1i64, 1, 2, 2])]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "graph main: coreai.decomposable.broadcasting_batch_matmul (op 4): a product of float32 [1, 1, 1, 3] and \
         float32 [1, 1, 2, 2]"
    );
}
