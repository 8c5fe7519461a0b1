//! What the reference makes of rare types and values, found by running every op on both (`fuzz/ops.py`).

use coreai_audit::runtime::{DType, Tensor};
use half::{bf16, f16};

use super::programs::{apply, eval, t};

fn bits16(values: &[f32]) -> Vec<u8> {
    let each = values.iter().map(|v| bf16::from_f32(*v).to_bits());
    each.flat_map(u16::to_le_bytes).collect()
}

fn bools(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::from_bytes(DType::Bool, shape, values).expect("booleans")
}

/// `coreai.scan` of `x` along dimension 0.
fn scan(ty: &str, how: &str, backwards: bool, x: Tensor) -> Tensor {
    let text = format!(
        "module {{ coreai.graph @main(%a: tensor<{ty}> {{coreai.name = \"x\"}}) -> (tensor<{ty}> {{coreai.name = \"r\"}}) {{\n\
         %d = coreai.constant dense<0> : tensor<ui32>\n\
         %b = coreai.constant dense<{backwards}> : tensor<i1>\n\
         %r = coreai.scan %a, %d, %b combiner = <{how}> : (tensor<{ty}>, tensor<ui32>, tensor<i1>) -> tensor<{ty}>\n\
         coreai.output %r : tensor<{ty}> }} }}"
    );
    eval(&text, &[x])
        .unwrap_or_else(|e| panic!("{e}"))
        .remove(0)
}

#[test]
fn scans_of_integers_wrap() {
    let run = |how| {
        let x = t(&[4], &[100i8, 27, 1, -2]);
        scan("4xsi8", how, false, x).values::<i8>().unwrap()
    };
    assert_eq!(run("sum"), [100, 127, -128, 126]);
    assert_eq!(run("product"), [100, -116, -116, -24]);
    assert_eq!(run("max"), [100, 100, 100, 100]);
    assert_eq!(run("min"), [100, 27, 1, -2]);
}

#[test]
fn running_extremes_ignore_nan() {
    let x = t(&[3], &[f32::NAN, 2.0, 1.0]);
    let out = scan("3xf32", "max", false, x.clone());
    assert_eq!(out.values::<f32>().unwrap(), [f32::NEG_INFINITY, 2.0, 2.0]);
    let out = scan("3xf32", "min", true, x);
    assert_eq!(out.values::<f32>().unwrap(), [1.0, 1.0, 1.0]);
}

#[test]
fn a_running_product_of_halves_does_not_come_back_from_infinity() {
    let x = t(&[3], &[3e4f32, 3.0, 0.001].map(f16::from_f32));
    let out = scan("3xf16", "product", false, x).values::<f16>().unwrap();
    assert_eq!(out[1..], [f16::INFINITY, f16::INFINITY]);
}

#[test]
fn products_of_integer_matrices_wrap() {
    let (x, y) = (t(&[1, 2], &[100i8, 3]), t(&[2, 2], &[1i8, 2, -7, 9]));
    let types = ["1x2xsi8", "2x2xsi8"];
    let out = apply(&types, "batch_matmul", "1x2xsi8", &[x, y]).unwrap();
    assert_eq!(out.values::<i8>().unwrap(), [79, -29]);
    let (x, y) = (
        t(&[2, 1, 2], &[1i64, 2, 3, 4]),
        t(&[2, 2, 1], &[5i64, 6, 7, 8]),
    );
    let types = ["2x1x2xsi64", "2x2x1xsi64"];
    let out = apply(&types, "batch_matmul", "2x1x1xsi64", &[x, y]).unwrap();
    assert_eq!(out.values::<i64>().unwrap(), [17, 53]);
}

#[test]
fn sums_of_booleans_are_alternatives_and_products_conjunctions() {
    let (x, y) = (bools(&[4], &[0, 0, 1, 1]), bools(&[4], &[0, 1, 0, 1]));
    let run = |op| {
        let out = apply(&["4xi1", "4xi1"], op, "4xi1", &[x.clone(), y.clone()]);
        out.unwrap().bytes().to_vec()
    };
    assert_eq!(run("add"), [0, 1, 1, 1]);
    assert_eq!(run("mul"), [0, 0, 0, 1]);
}

#[test]
fn booleans_scattered_onto_booleans_stay_booleans() {
    let run = |mode: &str| {
        let op = format!("scatter_along_axis {{scatter_mode = #coreai.scatter_mode<{mode}>}}");
        let x = bools(&[3], &[1, 1, 0]);
        let (i, u) = (t(&[2], &[0i32, 2]), bools(&[2], &[1, 1]));
        let types = ["3xi1", "2xsi32", "2xi1", "si32"];
        let out = apply(&types, &op, "3xi1", &[x, i, u, t(&[], &[0i32])]);
        out.unwrap().bytes().to_vec()
    };
    assert_eq!(run("add"), [1, 1, 1]);
    assert_eq!(run("sub"), [0, 1, 1]);
    assert_eq!(run("mul"), [1, 1, 0]);
}

#[test]
fn inverse_hyperbolic_functions_of_large_values_do_not_overflow() {
    let run = |op| {
        let x = t(&[1], &[3e38f32]);
        apply(&["1xf32"], op, "1xf32", &[x])
            .unwrap()
            .values::<f32>()
            .unwrap()[0]
    };
    assert_eq!(run("asinh"), 89.289_99);
    assert_eq!(run("acosh"), 89.289_99);
}

#[test]
fn below_one_there_is_no_inverse_hyperbolic_cosine() {
    let x = t(&[6], &[0.5f32, 0.0, -0.5, -1.5, -104.0, -3e38]);
    let y = apply(&["6xf32"], "acosh", "6xf32", &[x]).unwrap();
    assert!(y.values::<f32>().unwrap().iter().all(|v| v.is_nan()));
}

#[test]
fn bfloat16_quotients_are_rounded_before_they_are_floored() {
    // -112.18 and -0.36e-40; float16 floors the quotient itself.
    let x = Tensor::from_bytes(DType::BF16, &[2], &bits16(&[9984.0, 9.2e-41])).unwrap();
    let y = Tensor::from_bytes(DType::BF16, &[2], &bits16(&[-89.0, -2.5])).unwrap();
    let out = apply(&["2xbf16", "2xbf16"], "floor_divide", "2xbf16", &[x, y]).unwrap();
    assert_eq!(&*out.bytes(), bits16(&[-112.0, -0.0]));
    let (x, y) = (
        t(&[1], &[f16::from_f32(9984.0)]),
        t(&[1], &[f16::from_f32(-89.0)]),
    );
    let out = apply(&["1xf16", "1xf16"], "floor_divide", "1xf16", &[x, y]).unwrap();
    assert_eq!(out.values::<f16>().unwrap(), [f16::from_f32(-113.0)]);
}

#[test]
fn complex_numbers_become_real_by_losing_their_imaginary_part() {
    let x = t(&[6], &[1.5f32, 2.0, 0.0, -1.0, -300.0, 0.0]);
    let x = Tensor::from_bytes(DType::C32, &[3], &x.bytes()).unwrap();
    let out = apply(
        &["3xcomplex<f32>"],
        "cast",
        "3xf32",
        std::slice::from_ref(&x),
    )
    .unwrap();
    assert_eq!(out.values::<f32>().unwrap(), [1.5, 0.0, -300.0]);
    let out = apply(
        &["3xcomplex<f32>"],
        "cast",
        "3xsi8",
        std::slice::from_ref(&x),
    )
    .unwrap();
    assert_eq!(out.values::<i8>().unwrap(), [1, 0, -128]);
    let out = apply(&["3xcomplex<f32>"], "cast", "3xi1", &[x]).unwrap();
    assert_eq!(&*out.bytes(), [1, 1, 1]);
}

#[test]
fn casts_to_eight_bit_floats_end_where_the_reference_ends() {
    let codes = |to: &str, x: &[f32]| {
        let from = format!("{}xf32", x.len());
        let result = format!("{}x{to}", x.len());
        let out = apply(&[&from], "cast", &result, &[t(&[x.len()], x)]);
        out.unwrap().bytes().to_vec()
    };
    // 448 is the largest; there is no infinity.
    assert_eq!(
        codes("f8E4M3FN", &[447.0, 448.0, 449.0]),
        [0x7e, 0x7e, 0x7f]
    );
    // 57344 is the largest; then infinity.
    assert_eq!(codes("f8E5M2", &[57_344.0, 57_352.0]), [0x7b, 0x7c]);
    // Powers of two: 1, 2, 4; half way goes up; what is not positive is the smallest, zero is none.
    assert_eq!(
        codes("f8E8M0FNU", &[1.0, 1.5, 3.0, -1.0, 0.0, f32::INFINITY]),
        [127, 128, 129, 0, 255, 255]
    );
}

#[test]
fn integers_as_eight_bit_floats() {
    let codes = |to: &str, x: &[i32]| {
        let (from, result) = (format!("{}xsi32", x.len()), format!("{}x{to}", x.len()));
        let out = apply(&[&from], "cast", &result, &[t(&[x.len()], x)]);
        out.unwrap().bytes().to_vec()
    };
    // 240; then nothing until it saturates.
    assert_eq!(
        codes("f8E4M3FN", &[247, 248, 495, 496, -70_000]),
        [0x77, 0x7f, 0x7f, 0x7e, 0xfe]
    );
    assert_eq!(codes("f8E5M2", &[61_439, 61_440]), [0x7b, 0x7c]);
    // Half way goes down, and the sign is lost.
    assert_eq!(
        codes("f8E8M0FNU", &[0, 1, 3, 7, -4]),
        [255, 127, 128, 130, 129]
    );
}

#[test]
fn ranges_add_step_after_step() {
    let half = |v: f32| t(&[], &[f16::from_f32(v)]);
    let out = apply(
        &["f16", "f16", "f16"],
        "range",
        "?xf16",
        &[half(0.0), half(30.0), half(0.1)],
    );
    let out = out.unwrap().values::<f16>().unwrap();
    assert_eq!(out.len(), 301);
    assert_eq!(out[300], f16::from_f32(29.28));
}

#[test]
fn a_range_ends_where_its_declared_extent_does() {
    let x = [t(&[], &[5i32]), t(&[], &[0i32]), t(&[], &[-2i32])];
    let run = |result: &str| {
        let out = apply(&["si32", "si32", "si32"], "range", result, &x);
        out.unwrap().values::<i32>().unwrap()
    };
    assert_eq!(run("?xsi32"), [5, 3, 1]);
    assert_eq!(run("2xsi32"), [5, 3]);
}

#[test]
fn gelu_of_halves_is_composed_of_half_operations() {
    let run = |how: &str| {
        let op = format!("gelu {{approximate = \"{how}\"}}");
        let x = t(&[2], &[f16::from_f32(-3.0), f16::from_f32(2.5)]);
        let out = apply(&["2xf16"], &op, "2xf16", &[x]).unwrap();
        out.values::<f16>()
            .unwrap()
            .iter()
            .map(|v| v.to_f32())
            .collect::<Vec<_>>()
    };
    assert_eq!(run("none"), [-0.004_055_023, 2.484_375]);
    assert_eq!(run("tanh"), [-0.003_662_109_4, 2.484_375]);
    assert_eq!(run("sigmoid"), [-0.018_081_665, 2.462_890_6]);
}

#[test]
fn updates_spread_over_the_rows_they_are_written_to() {
    let text = "module { coreai.graph @main(%x: tensor<3x2xf32> {coreai.name = \"x\"}, %u: tensor<2xf32> {coreai.name = \"y\"}, %i: tensor<2x1xsi32> {coreai.name = \"z\"}) -> (tensor<3x2xf32> {coreai.name = \"r\"}) {\n\
         %r = coreai.scatter_nd %x with %u at %i {\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\ncoreai.yield %b : tensor<f32>\n} : (tensor<3x2xf32>, tensor<2xf32>, tensor<2x1xsi32>) to tensor<3x2xf32>\n\
         coreai.output %r : tensor<3x2xf32> } }";
    let inputs = [
        t(&[3, 2], &[0f32; 6]),
        t(&[2], &[1f32, 2.0]),
        t(&[2, 1], &[2i32, 0]),
    ];
    let out = eval(text, &inputs).unwrap().remove(0);
    assert_eq!(out.values::<f32>().unwrap(), [1.0, 2.0, 0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn a_weight_of_zero_keeps_infinity() {
    let op = "interpolate_coordinates {interpolation_mode = #coreai.interpolation_mode<linear>}";
    let (x, p) = (
        t(&[3], &[1f32, f32::INFINITY, 2.0]),
        t(&[2, 1], &[0f32, 2.0]),
    );
    let out = apply(&["3xf32", "2x1xf32"], op, "2xf32", &[x, p]).unwrap();
    let out = out.values::<f32>().unwrap();
    assert!(out[0].is_nan() && out[1] == 2.0, "{out:?}");
}

/// `coreai.interpolate` of `x` to a size, each dimension scaled by what it grows; NaN where the result is.
fn resized(x: &Tensor, mode: &str, sizes: &[i32]) -> Vec<f32> {
    let own: Vec<f32> = x.shape().iter().map(|n| *n as f32).collect();
    let scale: Vec<f32> = sizes.iter().zip(&own).map(|(s, n)| *s as f32 / n).collect();
    let k = own.len();
    let types = |dims: Vec<String>| format!("{}xf32", dims.join("x"));
    let from = types(x.shape().iter().map(ToString::to_string).collect());
    let to = types(sizes.iter().map(ToString::to_string).collect());
    let op = format!("interpolate {{interpolation_mode = #coreai.interpolation_mode<{mode}>}}");
    let inputs = [
        x.clone(),
        t(&[k], sizes),
        t(&[k], &scale),
        t(&[k], &vec![0f32; k]),
    ];
    let (ints, floats) = (format!("{k}xsi32"), format!("{k}xf32"));
    let out = apply(&[&from, &ints, &floats, &floats], &op, &to, &inputs).unwrap();
    out.values::<f32>().unwrap()
}

#[track_caller]
fn same_values(found: &[f32], expected: &[f32]) {
    let equal = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(equal),
        "{found:?}, expected {expected:?}"
    );
}

#[test]
fn integers_are_resized_with_all_their_digits() {
    let resized = |mode: &str, x: Tensor, element: &str| {
        let op = format!("interpolate {{interpolation_mode = #coreai.interpolation_mode<{mode}>}}");
        let [one, zero] = [2f32, 0.0].map(|v| t(&[1], &[v]));
        let from = format!("2x{element}");
        let types = [from.as_str(), "1xsi32", "1xf32", "1xf32"];
        let to = format!("4x{element}");
        apply(&types, &op, &to, &[x, t(&[1], &[4i32]), one, zero]).unwrap()
    };
    let picked = |x: Tensor, element: &str| {
        let far = t(&[2, 1], &[9f32, -9.0]);
        let op = "interpolate_coordinates {interpolation_mode = #coreai.interpolation_mode<nearest_neighbor>}";
        let (from, to) = (format!("2x{element}"), format!("2x{element}"));
        apply(&[&from, "2x1xf32"], op, &to, &[x, far]).unwrap()
    };
    let ends = [i64::MAX - 1, i64::MIN + 1];
    let [a, b] = ends;
    let out = resized("nearest_neighbor", t(&[2], &ends), "si64");
    assert_eq!(out.values::<i64>().unwrap(), [a, a, b, b]);
    let out = picked(t(&[2], &ends), "si64");
    assert_eq!(out.values::<i64>().unwrap(), [b, a]);
    let top = [u64::MAX - 1, 7];
    let out = resized("nearest_neighbor", t(&[2], &top), "ui64");
    assert_eq!(out.values::<u64>().unwrap(), [top[0], top[0], 7, 7]);
    let out = resized("nearest_neighbor", t(&[2], &[16_777_217i32, 7]), "si32");
    assert_eq!(out.values::<i32>().unwrap(), [16_777_217, 16_777_217, 7, 7]);
    // Between grid points 64-bit integers are doubles.
    let out = resized("linear", t(&[2], &[16_777_217i64, 16_777_225]), "si64");
    let between = [16_777_217, 16_777_219, 16_777_223, 16_777_225];
    assert_eq!(out.values::<i64>().unwrap(), between);
}

#[test]
fn a_dimension_that_keeps_its_size_has_corners_of_weight_zero() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let of = |shape: &[usize], values: &[f32]| t(shape, values);
    let linear = |x: &Tensor, sizes: &[i32]| resized(x, "linear", sizes);
    let all = of(&[2, 2], &[-INF; 4]);
    same_values(&linear(&all, &[2, 2]), &[NAN; 4]);
    same_values(&linear(&all, &[2, 4]), &[NAN; 8]);
    same_values(&linear(&all, &[4, 2]), &[NAN; 8]);
    same_values(&linear(&all, &[4, 4]), &[-INF; 16]);
    same_values(&linear(&of(&[3], &[1.0, INF, 2.0]), &[3]), &[NAN, INF, 2.0]);
    // At the lower border the second corner is the next element, at the upper the same one.
    let last = of(&[2, 3], &[4.0, 5.0, 6.0, 7.0, 8.0, INF]);
    let kept = [4.0, NAN, NAN, 7.0, NAN, NAN];
    same_values(&linear(&last, &[2, 3]), &kept);
    let one = of(&[2, 2], &[1.0, -INF, 3.0, 4.0]);
    let wide = [1.0, -INF, -INF, -INF, 3.0, 3.25, 3.75, 4.0];
    same_values(&linear(&one, &[2, 4]), &wide);
    let high = [NAN, NAN, NAN, NAN, NAN, NAN, 3.0, 4.0];
    same_values(&linear(&one, &[4, 2]), &high);
    // A dimension of one element keeps its size, too.
    let x = of(&[1, 1, 4], &[1.0, INF, 2.0, 3.0]);
    let out = [1.0, NAN, NAN, NAN, NAN, 2.25, 2.75, 3.0];
    same_values(&linear(&x, &[1, 1, 8]), &out);
    // NaN reaches the corners before it, in each dimension that stays and both.
    let x = of(&[3, 3], &[1.0, 2.0, 3.0, 4.0, NAN, 5.0, 6.0, 7.0, 8.0]);
    let out = [NAN, NAN, 3.0, NAN, NAN, 5.0, 6.0, 7.0, 8.0];
    same_values(&linear(&x, &[3, 3]), &out);
    let finite = of(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    same_values(&linear(&finite, &[2, 2]), &[1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn the_nearest_neighbor_has_no_weight() {
    const INF: f32 = f32::INFINITY;
    let of = |shape: &[usize], values: &[f32]| t(shape, values);
    let nearest = |x: &Tensor, sizes: &[i32]| resized(x, "nearest_neighbor", sizes);
    let x = of(&[2, 2], &[1.0, -INF, f32::NAN, 4.0]);
    same_values(&nearest(&x, &[2, 2]), &[1.0, -INF, f32::NAN, 4.0]);
    let out = [1.0, 1.0, -INF, -INF, f32::NAN, f32::NAN, 4.0, 4.0];
    same_values(&nearest(&x, &[2, 4]), &out);
}

#[test]
fn integer_powers_with_negative_exponents_are_zero() {
    let (x, y) = (t(&[3], &[2i32, 1, -1]), t(&[3], &[-1i32, -2, -3]));
    let out = apply(&["3xsi32", "3xsi32"], "pow", "3xsi32", &[x, y]).unwrap();
    assert_eq!(out.values::<i32>().unwrap(), [0, 0, 0]);
}

#[test]
fn what_is_just_above_a_tie_rounds_up() {
    // 1 + 2^-8 lies between two bfloat16 numbers; the last bit of a single decides.
    let tie = 1.0 + 2f32.powi(-8);
    let x = t(&[2], &[tie, tie + f32::EPSILON]);
    let out = apply(&["2xf32"], "cast", "2xbf16", &[x]).unwrap();
    assert_eq!(&*out.bytes(), bits16(&[1.0, 1.007_812_5]));
    let tie = 1.0 + 2f64.powi(-11);
    let x = t(&[3], &[tie, tie + f64::EPSILON, 1e300]);
    let out = apply(&["3xf64"], "cast", "3xf16", &[x]).unwrap();
    let up = f16::from_f32(1.0 + 2f32.powi(-10));
    assert_eq!(out.values::<f16>().unwrap(), [f16::ONE, up, f16::INFINITY]);
    let x = t(&[1], &[16_777_217i32 * 3]);
    let out = apply(&["1xsi32"], "cast", "1xbf16", &[x]).unwrap();
    assert_eq!(&*out.bytes(), bits16(&[50_331_651.0]));
}

#[test]
fn behind_the_border_interpolation_still_weighs() {
    // 0.1 * 0.7 + 0.1 * 0.3 in single precision, not 0.1.
    let op = "interpolate_coordinates {interpolation_mode = #coreai.interpolation_mode<linear>}";
    let (x, p) = (t(&[2], &[0.1f32, 5.0]), t(&[3, 1], &[-0.7f32, -7.0, 1.5]));
    let out = apply(&["2xf32", "3x1xf32"], op, "3xf32", &[x, p]).unwrap();
    let weight = -0.7f32 + 1.0;
    let border = 0.1 * (1.0 - weight) + 0.1 * weight;
    assert_eq!(out.values::<f32>().unwrap(), [border, 0.1, 5.0]);
}

#[test]
fn blocks_without_a_dimension_are_one_for_all() {
    let text = r#"module {
  coreai.graph @main(%a: tensor<1x2x2xsi8> {coreai.name = "x"}) -> (tensor<1x2x2xf16> {coreai.name = "r"}) {
    %scale = coreai.constant dense<0.5> : tensor<f16>
    %zero = coreai.constant dense<1> : tensor<si8>
    %offset = coreai.constant dense<3.0> : tensor<f16>
    %r = "coreai.blockwise_shift_scale"(%a, %scale, %zero, %offset) : (tensor<1x2x2xsi8>, tensor<f16>, tensor<si8>, tensor<f16>) -> tensor<1x2x2xf16>
    coreai.output %r : tensor<1x2x2xf16>
  }
}"#;
    let found = eval(text, &[t(&[1, 2, 2], &[1i8, 2, -3, 127])]).unwrap();
    assert_eq!(found[0].reals().unwrap(), [3.0, 3.5, 1.0, 66.0]);
}
