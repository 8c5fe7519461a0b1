//! Attention whose query heads share key and value heads, without copies of the cache.
//!
//! Grouped-query attention repeats every key/value head for its query heads (`tile` and `reshape`, or a
//! gather with constant indices) and multiplies with the result: each step copies the valid part of the
//! cache several times. Here the product reads the heads where they lie.

use super::{Edit, Editor, Source};
use crate::ir::{Op, OpId, ValueId};
use crate::runtime::ops::Grouped;

/// Replaces a product whose right side is repeated heads, transposed or not.
pub(super) fn rule(editor: &Editor<'_>, place: usize) -> Option<Edit> {
    let op = editor.op(place);
    let short = op.name.rsplit('.').next()?;
    let (&[left, right], &[result]) = (op.operands.as_slice(), op.results.as_slice()) else {
        return None;
    };
    if !matches!(short, "batch_matmul" | "broadcasting_batch_matmul") {
        return None;
    }
    let mut edit = Edit::default();
    let mut how = Grouped::default();
    // What the definition computes with, in the order that the kernel reads.
    let mut args = Vec::new();
    let (mut value, mut target) = (right, None);
    let mut last = step(editor, value, &mut edit)?;
    if last.1.is("coreai.broadcast_to") {
        target = Some(*last.1.operands.get(1)?);
        value = *last.1.operands.first()?;
        last = step(editor, value, &mut edit)?;
    }
    if last.1.is("coreai.transpose") {
        if editor.ints(*last.1.operands.get(1)?)?.as_slice() != [0, 1, 3, 2] {
            return None;
        }
        how.transposed = true;
        value = *last.1.operands.first()?;
        last = step(editor, value, &mut edit)?;
    }
    let heads = editor.body.ty(value).as_tensor()?.dims.clone();
    if heads.len() != 4 {
        return None;
    }
    let cache = match last.1.name.rsplit('.').next()? {
        "gather_along_axis" => {
            let &[cache, indices, axis] = last.1.operands.as_slice() else {
                return None;
            };
            if editor.ints(axis)?.as_slice() != [1] {
                return None;
            }
            args.extend([cache, indices]);
            cache
        }
        "reshape" => {
            let tiled = *last.1.operands.first()?;
            let tile = step(editor, tiled, &mut edit)?.1;
            let &[wide, times] = tile.operands.as_slice() else {
                return None;
            };
            let expand = step(editor, wide, &mut edit)?.1;
            let &[cache, axes] = expand.operands.as_slice() else {
                return None;
            };
            let &[1, 1, count, 1, 1] = editor.ints(times)?.as_slice() else {
                return None;
            };
            let fits = tile.is("coreai.tile")
                && expand.is("coreai.expand_dims")
                && matches!(editor.ints(axes)?.as_slice(), [2] | [-3]);
            let own = &editor.body.ty(cache).as_tensor()?.dims;
            // Whatever the third extent is, there is only one that makes the number of elements equal.
            let groups = own
                .get(1)
                .copied()
                .flatten()?
                .checked_mul(count.try_into().ok()?)?;
            if !fits
                || own.len() != 4
                || heads[1] != Some(groups)
                || heads[0].is_none()
                || heads[0] != own[0]
                || heads[3].is_none()
                || heads[3] != own[3]
            {
                return None;
            }
            how.times = Some(i32::try_from(count).ok()?.try_into().ok()?);
            args.push(cache);
            cache
        }
        _ => return None,
    };
    if editor.body.ty(cache).as_tensor()?.dims.len() != 4 {
        return None;
    }
    how.broadcast = target.is_some();
    args.insert(0, left);
    args.extend(target);
    let mut parts = edit.dead.clone();
    parts.push(editor.id(place));
    complete(editor, &mut parts, &mut args);
    let definition = editor.outline(&parts, &args, result)?;
    let how = edit.ints(&[3], &how.codes());
    let operands = std::iter::once(how).chain(args.into_iter().map(Source::Old));
    let ty = editor.body.ty(result).clone();
    edit.op_with_definition(
        "coreaix.grouped_product",
        operands.collect(),
        ty,
        definition,
    );
    Some(edit)
}

/// Adds what else the parts use: constants to the parts, other values to the arguments.
fn complete(editor: &Editor<'_>, parts: &mut Vec<OpId>, args: &mut Vec<ValueId>) {
    for id in parts.clone() {
        for value in &editor.body.op(id).operands {
            match editor.source(*value) {
                _ if args.contains(value) => {}
                Some((from, _)) if parts.contains(&from) => {}
                Some((from, op)) if op.is("coreai.constant") => parts.push(from),
                _ => args.push(*value),
            }
        }
    }
}

/// The op behind a value, which is removed: only this product may use it.
fn step<'b>(editor: &Editor<'b>, value: ValueId, edit: &mut Edit) -> Option<(OpId, &'b Op)> {
    let (id, op) = editor.source(value)?;
    if editor.uses(value) != 1 {
        return None;
    }
    edit.remove(id);
    Some((id, op))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::ir;
    use crate::runtime::{Model, Tensor};

    /// Four query heads over two key heads; `REPEAT` makes `%wide` of `%k`, `USE` makes `%right` of it.
    const PROGRAM: &str = r#"module {
  coreai.graph @main(%q: tensor<1x4x?xDxf32> {coreai.name = "q"}, %k: tensor<1x2x?x3xf32> {coreai.name = "k"}) -> (tensor<1x4x?xNxf32> {coreai.name = "y"}) {
    %zero = coreai.constant dense<0> : tensor<1xsi32>
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %two = coreai.constant dense<2> : tensor<1xsi32>
    %three = coreai.constant dense<3> : tensor<1xsi32>
    %along = coreai.constant dense<0> : tensor<si32>
    %axis = coreai.constant dense<1> : tensor<si32>
    %times = coreai.constant dense<[1, 1, 2, 1, 1]> : tensor<5xui32>
    %four = coreai.constant dense<4> : tensor<1xui32>
    %heads = coreai.constant dense<[[[[0]], [[0]], [[1]], [[1]]]]> : tensor<1x4x1x1xsi32>
    %others = coreai.constant dense<[0, 2, 3]> : tensor<3xsi32>
    %swap = coreai.constant dense<[0, 1, 3, 2]> : tensor<4xui32>
    %shape = "coreai.get_shape"(%k) : (tensor<1x2x?x3xf32>) -> tensor<4xui32>
    %b = "coreai.slice"(%shape, %zero, %one, %one) : (tensor<4xui32>, tensor<1xsi32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xui32>
    %t = "coreai.slice"(%shape, %two, %three, %one) : (tensor<4xui32>, tensor<1xsi32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xui32>
    %d = coreai.constant dense<3> : tensor<1xui32>
    REPEAT
    USE
    %y = "coreai.decomposable.broadcasting_batch_matmul"(%q, %right) : (tensor<1x4x?xDxf32>, tensor<RIGHTxf32>) -> tensor<1x4x?xNxf32>
    coreai.output %y : tensor<1x4x?xNxf32>
  }
}"#;
    const TILE: &str = r#"%five = "coreai.expand_dims"(%k, %two) : (tensor<1x2x?x3xf32>, tensor<1xsi32>) -> tensor<1x2x1x?x3xf32>
    %tiled = "coreai.tile"(%five, %times) : (tensor<1x2x1x?x3xf32>, tensor<5xui32>) -> tensor<1x2x2x?x3xf32>
    %to = "coreai.concat"(%along, %b, %four, %t, %d) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<4xui32>
    %wide = "coreai.reshape"(%tiled, %to) : (tensor<1x2x2x?x3xf32>, tensor<4xui32>) -> tensor<1x4x?x3xf32>"#;
    const GATHER: &str = r#"%to = "coreai.concat"(%along, %b, %t, %d) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<3xui32>
    %at = "coreai.broadcast_in_dims"(%heads, %to, %others) : (tensor<1x4x1x1xsi32>, tensor<3xui32>, tensor<3xsi32>) -> tensor<1x4x?x3xsi32>
    %wide = "coreai.gather_along_axis"(%k, %at, %axis) : (tensor<1x2x?x3xf32>, tensor<1x4x?x3xsi32>, tensor<si32>) -> tensor<1x4x?x3xf32>"#;
    const SCORES: &str = r#"%right = "coreai.transpose"(%wide, %swap) : (tensor<1x4x?x3xf32>, tensor<4xui32>) -> tensor<1x4x3x?xf32>"#;
    const SCORES_BROADCAST: &str = r#"%across = "coreai.transpose"(%wide, %swap) : (tensor<1x4x?x3xf32>, tensor<4xui32>) -> tensor<1x4x3x?xf32>
    %full = "coreai.concat"(%along, %b, %four, %d, %t) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<4xui32>
    %right = "coreai.broadcast_to"(%across, %full) : (tensor<1x4x3x?xf32>, tensor<4xui32>) -> tensor<1x4x3x?xf32>"#;
    const VALUES_BROADCAST: &str = r#"%full = "coreai.concat"(%along, %b, %four, %t, %d) : (tensor<si32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> tensor<4xui32>
    %right = "coreai.broadcast_to"(%wide, %full) : (tensor<1x4x?x3xf32>, tensor<4xui32>) -> tensor<1x4x?x3xf32>"#;

    /// `rows` queries over `t` keys, and whether the program was rewritten.
    fn run(repeat: &str, use_: &str, scores: bool, rows: usize, t: usize) -> (Vec<f32>, bool) {
        let text = program(repeat, use_, scores);
        let (out, rewritten) = run_program(&text, scores, rows, t);
        (out.unwrap_or_else(|e| panic!("{e}\n{text}")), rewritten)
    }

    fn program(repeat: &str, use_: &str, scores: bool) -> String {
        let (d, n, right) = match scores {
            true => ("3", "?", "1x4x3x?"),
            false => ("?", "3", "1x4x?x3"),
        };
        PROGRAM
            .replace("REPEAT", repeat)
            .replace("USE", use_)
            .replace("xDx", &format!("x{d}x"))
            .replace("xNx", &format!("x{n}x"))
            .replace("RIGHT", right)
    }

    fn run_program(
        text: &str,
        scores: bool,
        rows: usize,
        t: usize,
    ) -> (Result<Vec<f32>, String>, bool) {
        let module = ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (body, _) = super::super::rewrite(&module.graphs[0].body);
        let mut ops = body.block_ops(body.entry().unwrap());
        let rewritten = ops.any(|(_, op)| op.is("coreaix.grouped_product"));
        let model = Model::from_module(Path::new("m"), &module).unwrap_or_else(|e| panic!("{e}"));
        let width = if scores { 3 } else { t };
        let q: Vec<f32> = (0..4 * rows * width)
            .map(|i| (i % 5) as f32 - 2.0)
            .collect();
        let k = keys(t);
        let q = Tensor::from_values(&[1, 4, rows, width], &q).unwrap();
        let k = Tensor::from_values(&[1, 2, t, 3], &k).unwrap();
        let function = model.function("main").unwrap();
        let out = function.run(&[("q", &q), ("k", &k)], &mut [], &mut []);
        let out = out.map(|out| out[0].1.values().unwrap());
        (out.map_err(|e| e.to_string()), rewritten)
    }

    fn keys(t: usize) -> Vec<f32> {
        (0..2 * t * 3).map(|i| (i % 7) as f32 - 3.0).collect()
    }

    fn expected(scores: bool, rows: usize, t: usize) -> Vec<f32> {
        let k = keys(t);
        let (inner, n) = if scores { (3, t) } else { (t, 3) };
        let mut out = Vec::new();
        for h in 0..4 {
            for i in 0..rows {
                for j in 0..n {
                    let q = |l: usize| (((h * rows + i) * inner + l) % 5) as f32 - 2.0;
                    let head = h / 2 * t * 3;
                    let right = |l: usize| match scores {
                        true => k[head + j * 3 + l],
                        false => k[head + l * 3 + j],
                    };
                    out.push((0..inner).map(|l| q(l) * right(l)).sum());
                }
            }
        }
        out
    }

    #[test]
    fn heads_are_read_where_they_lie_by_every_query_head_of_their_group() {
        for repeat in [TILE, GATHER] {
            for use_ in [SCORES, SCORES_BROADCAST] {
                for (rows, t) in [(1, 5), (3, 4), (1, 1), (2, 70)] {
                    let (found, rewritten) = run(repeat, use_, true, rows, t);
                    assert!(rewritten);
                    assert_eq!(found, expected(true, rows, t), "{rows} over {t}");
                }
            }
            for (rows, t) in [(1, 5), (3, 4), (1, 1), (2, 70)] {
                let (found, rewritten) = run(repeat, VALUES_BROADCAST, false, rows, t);
                assert!(rewritten);
                assert_eq!(found, expected(false, rows, t), "{rows} over {t}");
            }
        }
    }

    #[test]
    fn a_broadcast_that_changes_the_shape_is_done_as_the_program_says() {
        // The keys are spread over as many positions as twice their number; there is one.
        let wider = SCORES_BROADCAST.replace("%b, %four, %d, %t)", "%b, %four, %d, %four)");
        let (found, rewritten) = run(TILE, &wider, true, 1, 1);
        assert!(rewritten);
        let one = expected(true, 1, 1);
        let spread: Vec<f32> = one.iter().flat_map(|v| [*v; 4]).collect();
        assert_eq!(found, spread);
    }

    #[test]
    fn an_op_that_became_part_of_a_product_is_named_where_it_fails() {
        let told = |text: String| {
            let (out, rewritten) = run_program(&text, true, 2, 3);
            assert!(rewritten, "{text}");
            out.unwrap_err()
        };
        let outside = program(GATHER, SCORES, true).replace("[[1]], [[1]]", "[[1]], [[2]]");
        assert_eq!(
            told(outside),
            "graph main: coreai.gather_along_axis (op 17): index 2 is outside a dimension of 2"
        );
        // Three keys under a shape of four.
        let narrow = SCORES_BROADCAST.replace("%b, %four, %d, %t)", "%b, %four, %d, %four)");
        assert_eq!(
            told(program(TILE, &narrow, true)),
            "graph main: coreai.broadcast_to (op 21): shape [1, 4, 3, 3] does not broadcast to [1, 4, 3, 4]"
        );
    }

    #[test]
    fn heads_that_something_else_reads_are_repeated_as_before() {
        let also = format!("{SCORES}\n    %other = \"coreai.exp\"(%wide) : (tensor<1x4x?x3xf32>) -> tensor<1x4x?x3xf32>");
        let (found, rewritten) = run(TILE, &also, true, 2, 3);
        assert!(!rewritten);
        assert_eq!(found, expected(true, 2, 3));
    }
}
