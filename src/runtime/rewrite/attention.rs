//! Attention as one op.
//!
//! A program has the parts: a product with the keys, a mask that is added, softmax, a product with the values,
//! and between them shapes that change nothing. One op for all of them never has the scores of all rows in
//! memory together. The parts stay with it as its definition, for values the op is not made for.

use super::{Edit, Editor, Source};
use crate::ir::{Op, OpId, ValueId};
use crate::runtime::ops::{Grouped, Layout};

/// Replaces a product whose left side is the softmax of another product.
pub(super) fn rule(editor: &Editor<'_>, place: usize) -> Option<Edit> {
    let op = editor.op(place);
    let (&[result], true) = (op.results.as_slice(), is_product(editor, op, false)) else {
        return None;
    };
    let mut parts = vec![editor.id(place)];
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (left, values) = sides(op)?;
    let softmax = through_shapes(editor, left, &mut after, &mut parts)?;
    let &[input, axis] = softmax.operands.as_slice() else {
        return None;
    };
    let rank = i64::try_from(editor.body.ty(input).as_tensor()?.dims.len()).ok()?;
    if !softmax.is("coreai.softmax")
        || !matches!(editor.ints(axis)?.as_slice(), [a] if *a == rank - 1 || *a == -1)
    {
        return None;
    }
    let masked = through_shapes(editor, input, &mut before, &mut parts)?;
    let (scores, mask) = match masked.name.rsplit('.').next()? {
        "add" | "broadcasting_add" => {
            let &[a, b] = masked.operands.as_slice() else {
                return None;
            };
            // Either operand may be the scores.
            let product = |v| only(editor, v).filter(|(_, op)| is_product(editor, op, true));
            let (id, scores, mask) = match (product(a), product(b)) {
                (Some((id, op)), _) => (id, op, b),
                (None, Some((id, op))) => (id, op, a),
                (None, None) => return None,
            };
            parts.push(id);
            (scores, Some(mask))
        }
        _ if is_product(editor, masked, true) => (masked, None),
        _ => return None,
    };
    let (queries, keys) = sides(scores)?;
    // The last shape was met first.
    before.reverse();
    after.reverse();
    let layout = Layout {
        keys: keys.len(),
        mask: mask.is_some(),
        before: before.len(),
        after: after.len(),
        values: values.len(),
    };
    let mut args = vec![queries];
    args.extend(keys);
    args.extend(mask);
    args.extend(before);
    args.extend(after);
    args.extend(values);
    args.push(axis);
    let definition = editor.outline(&parts, &args, result)?;
    let mut edit = Edit::default();
    let layout = edit.ints(&[5], &layout.codes());
    let operands = std::iter::once(layout).chain(args.iter().map(|v| Source::Old(*v)));
    let ty = editor.body.ty(result).clone();
    edit.op_with_definition("coreaix.attention", operands.collect(), ty, definition);
    parts[1..].iter().for_each(|id| edit.remove(*id));
    Some(edit)
}

/// Whether an op multiplies matrices; with heads of a cache, transposed (keys) or not (values).
fn is_product(editor: &Editor<'_>, op: &Op, keys: bool) -> bool {
    let plain = ["batch_matmul", "broadcasting_batch_matmul"];
    match op.name.rsplit('.').next() {
        Some("grouped_product") => op.operands.first().is_some_and(|how| {
            let how = editor.ints(*how).and_then(|h| Grouped::from_codes(&h));
            how.is_some_and(|h| h.transposed == keys)
        }),
        Some(short) => plain.contains(&short) && op.operands.len() == 2,
        None => false,
    }
}

/// The left side of a product, and the rest of its operands.
fn sides(op: &Op) -> Option<(ValueId, Vec<ValueId>)> {
    let mut operands = op.operands.clone();
    // The first operand of a grouped product says how its right side is made.
    let left = usize::from(op.is("coreaix.grouped_product"));
    (left < operands.len()).then(|| (operands.remove(left), operands))
}

/// The op behind a value that only one op uses.
fn only<'b>(editor: &Editor<'b>, value: ValueId) -> Option<(OpId, &'b Op)> {
    let found = editor.source(value)?;
    (editor.uses(value) == 1).then_some(found)
}

/// The op behind a value and behind the shapes it is brought to, last first; all of them are parts.
fn through_shapes<'b>(
    editor: &Editor<'b>,
    mut value: ValueId,
    shapes: &mut Vec<ValueId>,
    parts: &mut Vec<OpId>,
) -> Option<&'b Op> {
    loop {
        let (id, op) = only(editor, value)?;
        parts.push(id);
        match op.operands.as_slice() {
            &[from, shape] if op.is("coreai.reshape") || op.is("coreai.broadcast_to") => {
                shapes.push(shape);
                value = from;
            }
            _ => return Some(op),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::ir;
    use crate::runtime::{Model, Tensor};

    /// Four query heads over two heads of a cache, 3 wide; `MASKED` makes `%masked` of `%scores`, `SHARES`
    /// makes `%left` of `%p`, and `TY` is the type of it all.
    const PROGRAM: &str = r#"module {
  coreai.graph @main(%q: tensor<1x4x?x3xTY> {coreai.name = "q"}, %k: tensor<1x2x?x3xTY> {coreai.name = "k"}, %v: tensor<1x2x?x3xTY> {coreai.name = "v"}, %m: tensor<MASKxTY> {coreai.name = "m"}) -> (tensor<1x4x?x3xTY> {coreai.name = "y"}) {
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %two = coreai.constant dense<2> : tensor<1xsi32>
    %zero = coreai.constant dense<0> : tensor<1xsi32>
    %three = coreai.constant dense<3> : tensor<1xsi32>
    %last = coreai.constant dense<AXIS> : tensor<si32>
    %along = coreai.constant dense<0> : tensor<si32>
    %times = coreai.constant dense<[1, 1, 2, 1, 1]> : tensor<5xui32>
    %swap = coreai.constant dense<[0, 1, 3, 2]> : tensor<4xui32>
    %four = coreai.constant dense<4> : tensor<1xui32>
    %d = coreai.constant dense<3> : tensor<1xui32>
    %kshape = "coreai.get_shape"(%k) : (tensor<1x2x?x3xTY>) -> tensor<4xui32>
    %qshape = "coreai.get_shape"(%q) : (tensor<1x4x?x3xTY>) -> tensor<4xui32>
    %b = "coreai.slice"(%kshape, %zero, %one, %one) : (tensor<4xui32>, tensor<1xsi32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xui32>
    %t = "coreai.slice"(%kshape, %two, %three, %one) : (tensor<4xui32>, tensor<1xsi32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xui32>
    %rows = "coreai.slice"(%qshape, %two, %three, %one) : (tensor<4xui32>, tensor<1xsi32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xui32>
    %to = "coreai.concat"(%along, %b, %four, %t, %d) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<4xui32>
    %same = "coreai.concat"(%along, %b, %four, %rows, %t) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<4xui32>
    %k5 = "coreai.expand_dims"(%k, %two) : (tensor<1x2x?x3xTY>, tensor<1xsi32>) -> tensor<1x2x1x?x3xTY>
    %kt = "coreai.tile"(%k5, %times) : (tensor<1x2x1x?x3xTY>, tensor<5xui32>) -> tensor<1x2x2x?x3xTY>
    %kw = "coreai.reshape"(%kt, %to) : (tensor<1x2x2x?x3xTY>, tensor<4xui32>) -> tensor<1x4x?x3xTY>
    %kx = "coreai.transpose"(%kw, %swap) : (tensor<1x4x?x3xTY>, tensor<4xui32>) -> tensor<1x4x3x?xTY>
    %v5 = "coreai.expand_dims"(%v, %two) : (tensor<1x2x?x3xTY>, tensor<1xsi32>) -> tensor<1x2x1x?x3xTY>
    %vt = "coreai.tile"(%v5, %times) : (tensor<1x2x1x?x3xTY>, tensor<5xui32>) -> tensor<1x2x2x?x3xTY>
    %vw = "coreai.reshape"(%vt, %to) : (tensor<1x2x2x?x3xTY>, tensor<4xui32>) -> tensor<1x4x?x3xTY>
    %scores = "coreai.decomposable.broadcasting_batch_matmul"(%q, %kx) : (tensor<1x4x?x3xTY>, tensor<1x4x3x?xTY>) -> tensor<1x4x?x?xTY>
    MASKED
    %p = "coreai.softmax"(%masked, %last) : (tensor<1x4x?x?xTY>, tensor<si32>) -> tensor<1x4x?x?xTY>
    SHARES
    %y = "coreai.decomposable.broadcasting_batch_matmul"(%left, %vw) : (tensor<1x4x?x?xTY>, tensor<1x4x?x3xTY>) -> tensor<1x4x?x3xTY>
    coreai.output %y : tensor<1x4x?x3xTY>
  }
}"#;
    const ADDED: &str = r#"%masked = "coreai.decomposable.broadcasting_add"(%scores, %m) : (tensor<1x4x?x?xTY>, tensor<MASKxTY>) -> tensor<1x4x?x?xTY>"#;
    const ADDED_FIRST: &str = r#"%masked = "coreai.decomposable.broadcasting_add"(%m, %scores) : (tensor<MASKxTY>, tensor<1x4x?x?xTY>) -> tensor<1x4x?x?xTY>"#;
    const SHAPED: &str = r#"%added = "coreai.decomposable.broadcasting_add"(%scores, %m) : (tensor<1x4x?x?xTY>, tensor<MASKxTY>) -> tensor<1x4x?x?xTY>
    %masked = "coreai.reshape"(%added, %same) : (tensor<1x4x?x?xTY>, tensor<4xui32>) -> tensor<1x4x?x?xTY>"#;
    const SAME: &str = r#"%left = "coreai.reshape"(%p, %same) : (tensor<1x4x?x?xTY>, tensor<4xui32>) -> tensor<1x4x?x?xTY>"#;
    const SPREAD: &str = r#"%left = "coreai.broadcast_to"(%p, %same) : (tensor<1x4x?x?xTY>, tensor<4xui32>) -> tensor<1x4x?x?xTY>"#;

    /// A program and the values it is run on.
    struct Case<'a> {
        masked: &'a str,
        shares: &'a str,
        ty: &'a str,
        axis: &'a str,
        /// The mask's type without its element, and its shape.
        mask: (&'a str, &'a [usize]),
        rows: usize,
        t: usize,
    }

    /// What was given and what came out, in double precision, and how many ops became attention.
    struct Ran {
        given: [Vec<f64>; 4],
        y: Vec<f64>,
        fused: usize,
    }

    fn execute(case: &Case<'_>) -> Ran {
        let (given, y, fused) = run(&program(case), case);
        let y = y.unwrap_or_else(|e| panic!("{e}"));
        Ran {
            given: given.each_ref().map(|t| t.reals().unwrap()),
            y: y.reals().unwrap(),
            fused,
        }
    }

    fn program(case: &Case<'_>) -> String {
        let text = PROGRAM
            .replace("MASKED", case.masked)
            .replace("SHARES", case.shares)
            .replace("MASK", case.mask.0)
            .replace("AXIS", case.axis)
            .replace("TY", case.ty);
        match case.shares {
            "" => text.replace("%left", "%p"),
            _ => text,
        }
    }

    /// What was given, what came out, and how many ops became attention.
    fn run(text: &str, case: &Case<'_>) -> ([Tensor; 4], Result<Tensor, String>, usize) {
        let module = ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (body, _) = super::super::rewrite(&module.graphs[0].body);
        let ops = body.block_ops(body.entry().unwrap());
        let fused = ops.filter(|(_, op)| op.is("coreaix.attention")).count();
        let model = Model::from_module(Path::new("m"), &module).unwrap_or_else(|e| panic!("{e}"));
        let model = model.with_threads(2).unwrap();
        let function = model.function("main").unwrap();
        let made = |shape: &[usize], seed: usize| {
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count)
                .map(|i| ((i * 7 + seed * 3) % 13) as f32 / 4.0 - 1.5)
                .collect();
            let tensor = Tensor::from_values(shape, &values).unwrap();
            tensor.cast(function.inputs()[0].dtype).unwrap()
        };
        let cache = [1, 2, case.t, 3];
        let given = [
            made(&[1, 4, case.rows, 3], 0),
            made(&cache, 1),
            made(&cache, 2),
            made(case.mask.1, 5),
        ];
        let names = ["q", "k", "v", "m"];
        let inputs: Vec<_> = names.into_iter().zip(&given).collect();
        let out = function.run(&inputs, &mut [], &mut []);
        let out = out.map(|mut out| out.remove(0).1);
        (given, out.map_err(|e| e.to_string()), fused)
    }

    /// Runs a case and compares with the same in double precision; how many ops became attention.
    fn compared(case: &Case<'_>) -> usize {
        let ran = execute(case);
        let ([q, k, v, m], t) = (&ran.given, case.t);
        assert_eq!(ran.y.len(), 4 * case.rows * 3);
        for (i, found) in ran.y.iter().enumerate() {
            let (h, r, l) = (i / 3 / case.rows, i / 3 % case.rows, i % 3);
            let at = |j: usize| (h / 2 * t + j) * 3;
            let query = |x: usize| q[(h * case.rows + r) * 3 + x];
            let score = |j: usize| {
                let dot: f64 = (0..3).map(|x| query(x) * k[at(j) + x]).sum();
                (dot + m[(r * t + j) % m.len()]).exp()
            };
            let sum: f64 = (0..t).map(score).sum();
            let expected: f64 = (0..t).map(|j| score(j) / sum * v[at(j) + l]).sum();
            let near = if case.ty == "f32" { 1e-5 } else { 2e-2 };
            assert!(
                (found - expected).abs() < near,
                "{found} {expected} {}",
                case.ty
            );
        }
        ran.fused
    }

    const PLAIN: Case<'_> = Case {
        masked: ADDED,
        shares: SAME,
        ty: "f32",
        axis: "3",
        mask: ("?x?", &[2, 3]),
        rows: 2,
        t: 3,
    };

    #[test]
    fn the_parts_become_one_op_with_the_same_values() {
        for ty in ["f32", "f16", "bf16"] {
            for masked in [ADDED, ADDED_FIRST, SHAPED] {
                // One row, several, more than are in memory together, more keys than converted at a time.
                for (rows, t) in [(1, 1), (1, 9), (5, 9), (70, 3), (2, 600), (1, 600)] {
                    let shape = [rows, t];
                    let mask = ("?x?", shape.as_slice());
                    let case = Case {
                        masked,
                        ty,
                        mask,
                        rows,
                        t,
                        ..PLAIN
                    };
                    assert_eq!(compared(&case), 1, "{masked}");
                }
            }
        }
        let spread = ("?", [3].as_slice());
        let shares = SPREAD;
        assert_eq!(
            compared(&Case {
                shares,
                axis: "-1",
                mask: spread,
                ..PLAIN
            }),
            1
        );
    }

    #[test]
    fn over_no_positions_the_sum_is_zero() {
        let mask = ("?x?", [2, 0].as_slice());
        let ran = execute(&Case {
            mask,
            t: 0,
            ..PLAIN
        });
        assert_eq!((ran.fused, ran.y), (1, vec![0.0; 24]));
    }

    #[test]
    fn values_it_is_not_made_for_are_left_to_the_parts() {
        // One score a head, which the mask spreads over three rows, each with the only value.
        let mask = ("?x?", [3, 1].as_slice());
        let one = Case {
            masked: ADDED,
            mask,
            rows: 1,
            t: 1,
            shares: "",
            ..PLAIN
        };
        let ran = execute(&one);
        let value = |i: usize| ran.given[2][i / 3 / 3 / 2 * 3 + i % 3];
        let expected: Vec<f64> = (0..4 * 3 * 3).map(value).collect();
        assert_eq!((ran.fused, ran.y), (1, expected));
    }

    #[test]
    fn an_index_outside_is_told_of_the_op_that_picks() {
        let tiled = r#"%kw = "coreai.reshape"(%kt, %to) : (tensor<1x2x2x?x3xf32>, tensor<4xui32>) -> tensor<1x4x?x3xf32>"#;
        let picked = r#"%heads = coreai.constant dense<[[[[0]], [[0]], [[1]], [[-3]]]]> : tensor<1x4x1x1xsi32>
    %others = coreai.constant dense<[0, 2, 3]> : tensor<3xsi32>
    %axis = coreai.constant dense<1> : tensor<si32>
    %across = "coreai.concat"(%along, %b, %t, %d) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<3xui32>
    %at = "coreai.broadcast_in_dims"(%heads, %across, %others) : (tensor<1x4x1x1xsi32>, tensor<3xui32>, tensor<3xsi32>) -> tensor<1x4x?x3xsi32>
    %kw = "coreai.gather_along_axis"(%k, %at, %axis) : (tensor<1x2x?x3xf32>, tensor<1x4x?x3xsi32>, tensor<si32>) -> tensor<1x4x?x3xf32>"#;
        let text = program(&PLAIN);
        assert!(text.contains(tiled));
        let (_, out, fused) = run(&text.replace(tiled, picked), &PLAIN);
        let told =
            "graph main: coreai.gather_along_axis (op 24): index -3 is outside a dimension of 2";
        assert_eq!((fused, out.unwrap_err().as_str()), (1, told));
    }

    #[test]
    fn scores_that_something_else_reads_stay_what_they_are() {
        let also = format!("{ADDED}\n    %other = \"coreai.exp\"(%scores) : (tensor<1x4x?x?xTY>) -> tensor<1x4x?x?xTY>");
        assert_eq!(
            compared(&Case {
                masked: &also,
                ..PLAIN
            }),
            0
        );
        // Shares along another axis are no attention.
        assert_eq!(execute(&Case { axis: "2", ..PLAIN }).fused, 0);
    }
}
