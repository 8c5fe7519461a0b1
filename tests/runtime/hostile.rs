//! Ops with operands of any type, shape and value: a result or an error, never a panic.

use coreai_audit::runtime::{DType, Tensor};
use proptest::prelude::*;

use super::programs::{load, one};

/// Every op with a kernel, with its attribute where it has one.
const OPS: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "argmax",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "batch_matmul",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "blockwise_shift_scale",
    "broadcast_in_dims",
    "broadcast_shapes",
    "broadcast_to",
    "cast",
    "concat",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cos",
    "cosh",
    "create_complex",
    "decomposable.broadcasting_add",
    "decomposable.broadcasting_batch_matmul",
    "decomposable.broadcasting_divide",
    "decomposable.broadcasting_pow",
    "decomposable.broadcasting_where",
    "divide",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "floor_divide",
    "gather_along_axis",
    "gather_nd",
    "get_shape",
    "greater",
    "imaginary_part",
    "log",
    "lut_to_dense",
    "max_pool_2d",
    "max_pool_3d",
    "maximum",
    "minimum",
    "modulo",
    "mul",
    "non_zero",
    "not",
    "not_equal",
    "pow",
    "range",
    "real_part",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_product",
    "reduce_sum",
    "relu",
    "reshape",
    "reverse",
    "round",
    "rsqrt",
    "shrink_dims",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "slice",
    "slice_update",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sub",
    "sum_pool_2d",
    "sum_pool_3d",
    "tan",
    "tanh",
    "tile",
    "transpose",
    "where",
    "and",
    "or",
    "xor",
    "build_sparse_with_bitmask",
    "sparse_with_bitmask_to_dense",
    "gelu <{approximate = #coreai.approximate<tanh>}>",
    "scan <{scan_op = #coreai.scan_combiner<sum>}>",
    "interpolate <{interpolation_mode = #coreai.interpolation_mode<linear>}>",
    "interpolate_coordinates <{interpolation_mode = #coreai.interpolation_mode<linear>}>",
    "pad <{padding_mode = #coreai.padding_mode<constant>}>",
    "pad <{padding_mode = #coreai.padding_mode<reflect>}>",
    "pad <{padding_mode = #coreai.padding_mode<circular>}>",
    "scatter_along_axis <{scatter_mode = #coreai.scatter_mode<update>}>",
    "scatter_along_axis <{scatter_mode = #coreai.scatter_mode<div>}>",
];

const ELEMENTS: &[(&str, DType)] = &[
    ("i1", DType::Bool),
    ("si8", DType::I8),
    ("si16", DType::I16),
    ("si32", DType::I32),
    ("si32", DType::I32),
    ("si64", DType::I64),
    ("ui4", DType::U4),
    ("ui8", DType::U8),
    ("ui32", DType::U32),
    ("ui64", DType::U64),
    ("f16", DType::F16),
    ("bf16", DType::BF16),
    ("f32", DType::F32),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("f8E4M3FN", DType::F8E4M3),
    ("complex<f32>", DType::C32),
];

/// An operand: element type, shape, and bytes to choose elements by.
fn operand() -> impl Strategy<Value = (usize, Vec<usize>, Vec<u8>)> {
    (
        0..ELEMENTS.len(),
        prop::collection::vec(prop::sample::select(vec![0usize, 1, 1, 2, 2, 3, 4]), 0..5),
        prop::collection::vec(any::<u8>(), 1..9),
    )
}

/// One of the values that break things, or a small number.
fn element(dtype: DType, choice: u8) -> Vec<u8> {
    let size = dtype.size();
    let small = |n: i64| n.to_le_bytes()[..size.min(8)].to_vec();
    let mut bytes = match (dtype, choice) {
        (DType::Bool, c) => vec![c & 1],
        (DType::U4, c) => vec![c & 15],
        (DType::F32, 0..=20) => f32::NAN.to_le_bytes().to_vec(),
        (DType::F32, 21..=40) => f32::INFINITY.to_le_bytes().to_vec(),
        (DType::F32, c) => (f32::from(c) / 16.0 - 8.0).to_le_bytes().to_vec(),
        (DType::F64, c) => (f64::from(c) / 16.0 - 8.0).to_le_bytes().to_vec(),
        (_, 0..=9) => vec![0xff; size],
        (_, 10..=14) => [vec![0; size - 1], vec![0x80]].concat(),
        (_, 15..=19) => [vec![0xff; size - 1], vec![0x7f]].concat(),
        (_, c) => small(i64::from(c % 7) - 2),
    };
    bytes.resize(size, 0);
    bytes
}

fn tensor(dtype: DType, shape: &[usize], choices: &[u8]) -> Tensor {
    let n: usize = shape.iter().product();
    let bytes: Vec<u8> = (0..n)
        .flat_map(|i| element(dtype, choices[i % choices.len()].wrapping_add(i as u8 / 3)))
        .collect();
    Tensor::from_bytes(dtype, shape, &bytes).expect("bytes that fit")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_operands_give_a_result_or_an_error(
        op in prop::sample::select(OPS.to_vec()),
        operands in prop::collection::vec(operand(), 1..6),
        result in (0..ELEMENTS.len(), 0usize..5),
    ) {
        let dynamic = |rank: usize, e: usize| "?x".repeat(rank) + ELEMENTS[e].0;
        let types: Vec<String> = operands.iter().map(|(e, d, _)| dynamic(d.len(), *e)).collect();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let text = one(&types, op, &dynamic(result.1, result.0));
        if let Ok(model) = load(&text) {
            let function = model.function("main").expect("main");
            let values: Vec<Tensor> =
                operands.iter().map(|(e, d, c)| tensor(ELEMENTS[*e].1, d, c)).collect();
            let inputs: Vec<(&str, &Tensor)> =
                ["x", "y", "z", "u", "v"].into_iter().zip(&values).collect();
            match function.run(&inputs, &mut [], &mut []) {
                Ok(out) => prop_assert_eq!(out.len(), 1),
                Err(e) => prop_assert!(e.to_string().starts_with("graph main: "), "{}", e),
            }
        }
    }

    /// Operands an op understands, with values and extents that do not fit each other.
    #[test]
    fn plausible_operands_with_wild_values_give_a_result_or_an_error(
        which in 0usize..14,
        rank in 1usize..4,
        dims in prop::collection::vec(prop::sample::select(vec![0usize, 1, 2, 3, 5]), 6),
        choices in prop::collection::vec(any::<u8>(), 12),
        element in 10usize..15,
    ) {
        let (name, dtype) = ELEMENTS[element];
        let shape = &dims[..rank];
        let data = tensor(dtype, shape, &choices);
        let list = |n: usize, skip: usize| tensor(DType::I32, &[n], &choices[skip..]);
        let scalar = |skip: usize| tensor(DType::I32, &[], &choices[skip..]);
        let d = "?x".repeat(rank) + name;
        let (l, s) = ("?xsi32".to_string(), "si32".to_string());
        let indices = tensor(DType::I32, &dims[2..2 + rank], &choices);
        let i = "?x".repeat(rank) + "si32";
        let other = tensor(dtype, &dims[1..1 + rank], &choices);
        let image = tensor(dtype, &[1, dims[0].max(1), dims[1], dims[2]], &choices);
        let weight = tensor(dtype, &[dims[3], dims[0].max(1), dims[4], dims[5]], &choices);
        let four = "?x?x?x?x".to_string() + name;
        let flag = Tensor::from_bytes(DType::Bool, &[], &[choices[0] & 1]).expect("a flag");
        let (op, types, values): (&str, Vec<String>, Vec<Tensor>) = match which {
            0 => ("slice", vec![d.clone(), l.clone(), l.clone(), l], vec![data, list(rank, 0), list(rank, 2), list(rank, 4)]),
            1 => ("slice_update", vec![d.clone(), l.clone(), l.clone(), l, d.clone()], vec![data, list(rank, 0), list(rank, 2), list(rank, 4), other]),
            2 => ("gather_nd", vec![d.clone(), i], vec![data, indices]),
            3 => ("gather_along_axis", vec![d.clone(), i, s], vec![data, indices, scalar(0)]),
            4 => ("scatter_along_axis <{scatter_mode = #coreai.scatter_mode<add>}>", vec![d.clone(), i, d.clone(), s], vec![data, indices, other, scalar(0)]),
            5 => ("reshape", vec![d.clone(), l], vec![data, list(3, 0)]),
            6 => ("pad <{padding_mode = #coreai.padding_mode<symmetric>}>", vec![d.clone(), l, name.into()], vec![data.clone(), list(2 * rank, 0), tensor(dtype, &[], &choices)]),
            7 => ("transpose", vec![d.clone(), l], vec![data, list(rank, 0)]),
            8 => ("tile", vec![d.clone(), l], vec![data, list(rank, 0)]),
            9 => ("reduce_max", vec![d.clone(), l], vec![data, list(choices[1] as usize % 3, 0)]),
            10 => ("conv2d", vec![four.clone(), four.clone(), l.clone(), l, s], vec![image, weight, list(2, 0), list(2, 2), scalar(4)]),
            11 => ("max_pool_2d", vec![four.clone(), l.clone(), l.clone(), l, "i1".into()], vec![image, list(2, 0), list(2, 2), list(2, 4), flag]),
            12 => ("broadcast_in_dims", vec![d.clone(), l.clone(), l], vec![data, list(2, 0), list(2, 2)]),
            _ => ("lut_to_dense", vec!["?x?xui8".into(), "?x?x?x?x".to_string() + name, s], vec![tensor(DType::U8, &dims[..2], &choices), tensor(dtype, &dims[1..5], &choices), scalar(0)]),
        };
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let ranks = [&four, &d];
        for result in ranks {
            let model = load(&one(&types, op, result)).expect("a model");
            let function = model.function("main").expect("main");
            let inputs: Vec<(&str, &Tensor)> =
                ["x", "y", "z", "u", "v"].into_iter().zip(&values).collect();
            if let Err(e) = function.run(&inputs, &mut [], &mut []) {
                prop_assert!(e.to_string().starts_with("graph main: "), "{}", e);
            }
        }
    }
}
