//! Value semantics of ops, where they are not what one would guess.

use coreai_audit::runtime::{DType, Tensor};
use half::f16;

use super::programs::{apply, t};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn f32s(out: Result<Tensor, String>) -> Vec<f32> {
    let out = out.unwrap_or_else(|e| panic!("{e}"));
    out.values().expect("float32")
}

/// NaN as text, so that it equals itself.
fn shown(values: &[f32]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

#[test]
fn casts_saturate() {
    let x = t(&[5], &[300.7f32, -300.0, NAN, INF, -1.9]);
    let out = apply(&["5xf32"], "cast", "5xsi8", &[x]).unwrap();
    assert_eq!(out.values::<i8>().unwrap(), [127, -128, 0, 127, -1]);
    let x = t(&[3], &[300i32, -1, 7]);
    let out = apply(&["3xsi32"], "cast", "3xui8", &[x]).unwrap();
    assert_eq!(out.values::<u8>().unwrap(), [255, 0, 7]);
    let x = t(&[3], &[0.0f32, NAN, 0.1]);
    let out = apply(&["3xf32"], "cast", "3xi1", &[x]).unwrap();
    assert_eq!(&*out.bytes(), [0, 1, 1]);
}

#[test]
fn integers_wrap() {
    let x = t(&[2], &[127i8, -128]);
    let out = apply(&["2xsi8", "2xsi8"], "add", "2xsi8", &[x.clone(), x]).unwrap();
    assert_eq!(out.values::<i8>().unwrap(), [-2, 0]);
    let (x, y) = (t(&[4], &[3i32, 2, -1, 2]), t(&[4], &[40i32, -1, -3, 31]));
    let out = apply(&["4xsi32", "4xsi32"], "pow", "4xsi32", &[x, y]).unwrap();
    let cube = 3i32.wrapping_pow(40);
    assert_eq!(out.values::<i32>().unwrap(), [cube, 0, 0, i32::MIN]);
}

#[test]
fn integer_division_without_a_result_is_an_error() {
    for op in ["divide", "floor_divide", "modulo"] {
        for (x, y) in [(1, 0), (i32::MIN, -1)] {
            let inputs = [t(&[1], &[x]), t(&[1], &[y])];
            let e = apply(&["1xsi32", "1xsi32"], op, "1xsi32", &inputs).unwrap_err();
            assert!(
                e.starts_with(&format!("graph main: coreai.{op} (op 0): division")),
                "{e}"
            );
        }
    }
}

#[test]
fn division_rounds_as_each_op_says() {
    let (x, y) = (t(&[4], &[7i32, -7, 7, -7]), t(&[4], &[2i32, 2, -2, -2]));
    let run = |op| {
        let out = apply(&["4xsi32", "4xsi32"], op, "4xsi32", &[x.clone(), y.clone()]);
        out.unwrap().values::<i32>().unwrap()
    };
    assert_eq!(run("divide"), [3, -3, -3, 3]);
    assert_eq!(run("floor_divide"), [3, -4, -4, 3]);
    assert_eq!(run("modulo"), [1, -1, 1, -1]);
}

#[test]
fn float_floor_division_of_infinity_is_no_number() {
    let (x, y) = (
        t(&[4], &[7.0f32, -7.0, INF, 1.0]),
        t(&[4], &[2.0f32, 2.0, 2.0, 0.0]),
    );
    let out = f32s(apply(&["4xf32", "4xf32"], "floor_divide", "4xf32", &[x, y]));
    assert_eq!(shown(&out), ["3", "-4", "NaN", "inf"]);
}

#[test]
fn extremes_keep_nan_and_orders_put_it_last() {
    let (x, y) = (t(&[3], &[NAN, 1.0f32, 3.0]), t(&[3], &[1.0f32, NAN, 2.0]));
    let out = f32s(apply(
        &["3xf32", "3xf32"],
        "maximum",
        "3xf32",
        &[x.clone(), y],
    ));
    assert_eq!(shown(&out), ["NaN", "NaN", "3"]);
    assert_eq!(
        shown(&f32s(apply(&["3xf32"], "relu", "3xf32", &[x]))),
        ["NaN", "1", "3"]
    );
    for (descending, expected) in [(0u8, ["1", "2", "NaN"]), (1, ["2", "1", "NaN"])] {
        let x = t(&[3], &[NAN, 2.0f32, 1.0]);
        let dim = t(&[], &[0i32]);
        let flag = |v| Tensor::from_bytes(DType::Bool, &[], &[v]).unwrap();
        let inputs = [x, dim, flag(descending), flag(1)];
        let out = f32s(apply(
            &["3xf32", "si32", "i1", "i1"],
            "sort",
            "3xf32",
            &inputs,
        ));
        assert_eq!(shown(&out), expected);
    }
}

#[test]
fn argmax_ignores_nan_and_takes_the_first_of_equals() {
    let x = t(&[2, 4], &[NAN, 2.0f32, 2.0, 1.0, NAN, NAN, NAN, NAN]);
    let out = apply(
        &["2x4xf32", "si32"],
        "argmax",
        "2x1xui32",
        &[x, t(&[], &[-1i32])],
    );
    assert_eq!(out.unwrap().values::<u32>().unwrap(), [1, 0]);
    let of = |rows: usize, to: &str| {
        apply(
            &[&format!("{rows}x0xf32"), "si32"],
            "argmax",
            to,
            &[t(&[rows, 0], &[0f32; 0]), t(&[], &[-1i32])],
        )
    };
    assert!(of(2, "2x1xui32")
        .unwrap_err()
        .contains("the largest of no values"));
    assert!(of(0, "0x1xui32").unwrap().is_empty());
}

#[test]
fn softmax_survives_large_values_and_knows_no_answer_to_none() {
    let x = t(&[2, 2], &[1000.0f32, 1000.0, -INF, -INF]);
    let out = f32s(apply(
        &["2x2xf32", "si32"],
        "softmax",
        "2x2xf32",
        &[x, t(&[], &[1i32])],
    ));
    assert_eq!(shown(&out), ["0.5", "0.5", "NaN", "NaN"]);
}

#[test]
fn halves_are_summed_in_single_precision() {
    let ones = vec![f16::ONE; 4096];
    let out = apply(
        &["1x4096xf16", "4096x1xf16"],
        "batch_matmul",
        "1x1xf16",
        &[t(&[1, 4096], &ones), t(&[4096, 1], &ones)],
    );
    assert_eq!(
        out.unwrap().values::<f16>().unwrap(),
        [f16::from_f32(4096.0)]
    );
    let out = apply(
        &["4096xf16", "1xsi32"],
        "reduce_sum",
        "1xf16",
        &[t(&[4096], &ones), t(&[1], &[0i32])],
    );
    assert_eq!(
        out.unwrap().values::<f16>().unwrap(),
        [f16::from_f32(4096.0)]
    );
}

#[test]
fn indices_wrap_once_and_end_at_the_bounds() {
    let gather = |index: i32| {
        let x = t(&[3], &[10.0f32, 20.0, 30.0]);
        apply(
            &["3xf32", "1x1xsi32"],
            "gather_nd",
            "1xf32",
            &[x, t(&[1, 1], &[index])],
        )
    };
    assert_eq!(f32s(gather(-3)), [10.0]);
    assert_eq!(f32s(gather(2)), [30.0]);
    for outside in [3, -4, i32::MIN, i32::MAX] {
        assert_eq!(
            gather(outside).unwrap_err(),
            format!(
                "graph main: coreai.gather_nd (op 0): index {outside} is outside a dimension of 3"
            )
        );
    }
}

#[test]
fn scattered_duplicates_end_with_the_last_and_wild_indices_are_errors() {
    let scatter = |indices: [i32; 2], mode: &str| {
        let inputs = [
            t(&[3], &[0.0f32; 3]),
            t(&[2], &indices),
            t(&[2], &[1.0f32, 2.0]),
            t(&[], &[0i32]),
        ];
        let op = format!("scatter_along_axis <{{scatter_mode = #coreai.scatter_mode<{mode}>}}>");
        apply(&["3xf32", "2xsi32", "2xf32", "si32"], &op, "3xf32", &inputs)
    };
    assert_eq!(f32s(scatter([1, 1], "update")), [0.0, 2.0, 0.0]);
    assert_eq!(f32s(scatter([1, -2], "add")), [0.0, 3.0, 0.0]);
    assert!(scatter([0, 3], "update")
        .unwrap_err()
        .contains("index 3 is outside a dimension of 3"));
}

/// Elsewhere than along the axis indices may be fewer than the elements they index, as in PyTorch.
#[test]
fn indices_along_an_axis_may_reach_a_part() {
    let x = t(&[3, 4], &std::array::from_fn::<f32, 12, _>(|i| i as f32));
    let index = |values: &[i32; 4]| t(&[2, 2], values);
    let gather = |axis: i32, values: &[i32; 4]| {
        let inputs = [x.clone(), index(values), t(&[], &[axis])];
        let types = ["?x?xf32", "?x?xsi32", "si32"];
        f32s(apply(&types, "gather_along_axis", "?x?xf32", &inputs))
    };
    assert_eq!(gather(1, &[3, 0, 1, 1]), [3.0, 0.0, 5.0, 5.0]);
    assert_eq!(gather(0, &[2, 0, 1, 1]), [8.0, 1.0, 4.0, 5.0]);
    // One list for all, which is picked by whole rows.
    let list = [x.clone(), t(&[1, 2], &[2i32, -4]), t(&[], &[1i32])];
    let types = ["?x?xf32", "?x?xsi32", "si32"];
    assert_eq!(
        f32s(apply(&types, "gather_along_axis", "?x?xf32", &list)),
        [2.0, 0.0]
    );

    let scatter = |mode: &str, axis: i32, values: &[i32; 4], updates: &[f32; 4]| {
        let inputs = [
            x.clone(),
            index(values),
            t(&[2, 2], updates),
            t(&[], &[axis]),
        ];
        let op = format!("scatter_along_axis <{{scatter_mode = #coreai.scatter_mode<{mode}>}}>");
        apply(
            &["?x?xf32", "?x?xsi32", "?x?xf32", "si32"],
            &op,
            "?x?xf32",
            &inputs,
        )
    };
    let (columns, new) = ([3, 0, 1, 2], [10.0, 11.0, 12.0, 13.0]);
    let expected = [
        11.0, 1.0, 2.0, 10.0, 4.0, 12.0, 13.0, 7.0, 8.0, 9.0, 10.0, 11.0,
    ];
    assert_eq!(f32s(scatter("update", 1, &columns, &new)), expected);
    let (rows, more) = ([2, 0, 2, 1], [10.0, 20.0, 30.0, 40.0]);
    let expected = [
        0.0, 21.0, 2.0, 3.0, 4.0, 45.0, 6.0, 7.0, 48.0, 9.0, 10.0, 11.0,
    ];
    assert_eq!(f32s(scatter("add", 0, &rows, &more)), expected);

    let wide = [x.clone(), t(&[4, 1], &[0i32; 4]), t(&[], &[1i32])];
    let e = apply(&types, "gather_along_axis", "?x?xf32", &wide).unwrap_err();
    assert!(
        e.ends_with("indices of shape [4, 1] for shape [3, 4] along dimension 1"),
        "{e}"
    );
}

/// `x[4:-6:-1]` of five elements has all of them; what the program declares of it counts.
#[test]
fn a_slice_back_beyond_the_first_element_is_as_long_as_declared() {
    let slice = |declared: &str| {
        let x = t(&[5], &[0.0f32, 1.0, 2.0, 3.0, 4.0]);
        let inputs = [x, t(&[1], &[4i32]), t(&[1], &[-6i32]), t(&[1], &[-1i32])];
        f32s(apply(
            &["5xf32", "1xsi32", "1xsi32", "1xsi32"],
            "slice",
            declared,
            &inputs,
        ))
    };
    assert_eq!(slice("?xf32"), [4.0, 3.0, 2.0, 1.0, 0.0]);
    assert_eq!(slice("4xf32"), [4.0, 3.0, 2.0, 1.0]);
}

#[test]
fn slices_wrap_once_and_are_clamped() {
    let slice = |start: i32, end: i32, step: i32| {
        let x = t(&[5], &[0.0f32, 1.0, 2.0, 3.0, 4.0]);
        let inputs = [x, t(&[1], &[start]), t(&[1], &[end]), t(&[1], &[step])];
        f32s(apply(
            &["5xf32", "1xsi32", "1xsi32", "1xsi32"],
            "slice",
            "?xf32",
            &inputs,
        ))
    };
    assert_eq!(slice(1, 100, 2), [1.0, 3.0]);
    assert_eq!(slice(-2, 5, 1), [3.0, 4.0]);
    assert_eq!(slice(4, -6, -2), [4.0, 2.0, 0.0]);
    assert_eq!(slice(3, 1, 1), [0f32; 0]);
    assert_eq!(slice(i32::MIN, i32::MAX, i32::MAX), [0.0]);
}

#[test]
fn a_slice_shorter_than_the_program_says_is_an_error() {
    let inputs = [
        t(&[2], &[1.0f32, 2.0]),
        t(&[1], &[0i32]),
        t(&[1], &[4i32]),
        t(&[1], &[1i32]),
    ];
    let out = apply(
        &["?xf32", "1xsi32", "1xsi32", "1xsi32"],
        "slice",
        "4xf32",
        &inputs,
    );
    assert_eq!(
        out.unwrap_err(),
        "graph main: coreai.slice (op 0): the result is float32 [2], the program declares float32 [4]"
    );
}

#[test]
fn what_is_written_behind_the_end_is_dropped() {
    let update = |at: i32, rows: &[f32]| {
        let inputs = [
            t(&[3], &[1.0f32, 2.0, 3.0]),
            t(&[1], &[at]),
            t(&[1], &[at + rows.len() as i32]),
            t(&[1], &[1i32]),
            t(&[rows.len()], rows),
        ];
        let operands = ["3xf32", "1xsi32", "1xsi32", "1xsi32", "?xf32"];
        apply(&operands, "slice_update", "3xf32", &inputs)
    };
    assert_eq!(f32s(update(1, &[9.0])), [1.0, 9.0, 3.0]);
    assert_eq!(f32s(update(3, &[9.0])), [1.0, 2.0, 3.0]);
    assert_eq!(f32s(update(2, &[8.0, 9.0])), [1.0, 2.0, 8.0]);
}

#[test]
fn an_update_smaller_than_its_region_is_an_error() {
    let inputs = [
        t(&[3], &[1.0f32, 2.0, 3.0]),
        t(&[1], &[0i32]),
        t(&[1], &[2i32]),
        t(&[1], &[1i32]),
        t(&[1], &[9.0f32]),
    ];
    let operands = ["3xf32", "1xsi32", "1xsi32", "1xsi32", "?xf32"];
    assert_eq!(
        apply(&operands, "slice_update", "3xf32", &inputs).unwrap_err(),
        "graph main: coreai.slice_update (op 0): an update of shape [1] for a region of shape [2]"
    );
}

#[test]
fn empty_tensors_are_tensors() {
    let x = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
    let out = apply(
        &["?x3xf32", "1xsi32"],
        "reduce_sum",
        "1x3xf32",
        &[x.clone(), t(&[1], &[0i32])],
    );
    assert_eq!(f32s(out), [0.0; 3]);
    let y = t(&[3, 2], &[0.0f32; 6]);
    let out = apply(
        &["?x3xf32", "3x2xf32"],
        "batch_matmul",
        "?x2xf32",
        &[x.clone(), y],
    )
    .unwrap();
    assert_eq!(out.shape(), [0, 2]);
    let out = apply(
        &["?x3xf32", "?x3xf32"],
        "broadcasting_add",
        "?x3xf32",
        &[x.clone(), x],
    )
    .unwrap();
    assert_eq!(out.shape(), [0, 3]);
}

#[test]
fn small_floats_round_to_even_and_overflow_as_their_format_does() {
    let cast = |to: &str, values: &[f32]| {
        let n = values.len();
        let x = t(&[n], values);
        let out = apply(&[&format!("{n}xf32")], "cast", &format!("{n}x{to}"), &[x]);
        out.unwrap().bytes().into_owned()
    };
    assert_eq!(
        cast("f8E4M3FN", &[1.0625, 1.1875, 448.0]),
        [0x38, 0x3a, 0x7e]
    );
    assert_eq!(cast("f8E4M3FN", &[449.0, -1e6, NAN]), [0x7f, 0xff, 0x7f]);
    assert_eq!(
        cast("f8E5M2", &[57_344.0, 61_440.0, -INF]),
        [0x7b, 0x7c, 0xfc]
    );
    assert_eq!(cast("f4E2M1FN", &[5.0, 0.25, 0.75, -100.0]), [6, 0, 2, 15]);
}
