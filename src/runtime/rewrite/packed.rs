//! Weights in blocks of small integers, used as they are stored.
//!
//! `x · transpose(blockwise_shift_scale(q, scale, zero, offset))` and `gather_nd` of such a table become
//! one op each that reads the packed integers: nothing is expanded when the model is loaded, and a
//! product moves a quarter of the memory.

use super::{Edit, Editor, Source};
use crate::ir::{Attr, Dense, Element, Op, OpId, Payload, Sign, Type, ValueId};

/// Replaces products with, and gathers from, a block-quantised matrix.
pub(super) fn rule(editor: &Editor<'_>, place: usize) -> Option<Edit> {
    let op = editor.op(place);
    let result = *op.results.first()?;
    let mut edit = Edit::default();
    let (name, given) = match op.name.rsplit('.').next()? {
        "batch_matmul" | "broadcasting_batch_matmul" => {
            let &[x, weights] = op.operands.as_slice() else {
                return None;
            };
            let (id, transpose) = editor.source(weights)?;
            if !transpose.is("coreai.transpose")
                || editor.ints(*transpose.operands.get(1)?)?.as_slice() != [1, 0]
            {
                return None;
            }
            drop_unused(editor, weights, id, &mut edit);
            let table = *transpose.operands.first()?;
            ("coreaix.packed_product", (x, table, editor.uses(weights)))
        }
        "gather_nd" => {
            let &[table, at] = op.operands.as_slice() else {
                return None;
            };
            // One index for each row.
            if editor.body.ty(at).as_tensor()?.dims.last() != Some(&Some(1)) {
                return None;
            }
            ("coreaix.packed_gather", (at, table, 1))
        }
        _ => return None,
    };
    let (first, table, users) = given;
    let (id, scaled) = editor.source(table)?;
    if users == 1 && editor.uses(table) == 1 {
        edit.remove(id);
        // A constant that nobody reads would be unpacked for nobody.
        let data = *scaled.operands.first()?;
        if let (Some((id, op)), 1) = (editor.source(data), editor.uses(data)) {
            if op.results.first().is_some_and(|v| is_four_bits(editor, *v)) {
                edit.remove(id);
            }
        }
    }
    let operands = table_operands(editor, scaled, editor.body.ty(result), &mut edit)?;
    let mut all = vec![Source::Old(first)];
    all.extend(operands);
    edit.op(name, all, editor.body.ty(result).clone());
    Some(edit)
}

/// An op that only this edit's op uses goes away with it.
fn drop_unused(editor: &Editor<'_>, value: ValueId, id: OpId, edit: &mut Edit) {
    if editor.uses(value) == 1 {
        edit.remove(id);
    }
}

/// Packed integers, a scalar that says how they are packed, scales, zero points and offsets.
fn table_operands(
    editor: &Editor<'_>,
    op: &Op,
    result: &Type,
    edit: &mut Edit,
) -> Option<Vec<Source>> {
    let &[data, scale, zero, offset] = op.operands.as_slice() else {
        return None;
    };
    if !op.is("coreai.blockwise_shift_scale") {
        return None;
    }
    let out = editor.body.ty(*op.results.first()?).as_tensor()?;
    if out.element != result.as_tensor()?.element || !matches!(out.element, Element::Float(_)) {
        return None;
    }
    let ty = editor.body.ty(data).as_tensor()?;
    let blocks = editor.body.ty(scale).as_tensor()?;
    let &[Some(rows), Some(columns)] = ty.dims.as_slice() else {
        return None;
    };
    let &[Some(of_rows), Some(of_columns)] = blocks.dims.as_slice() else {
        return None;
    };
    if of_rows != rows || of_columns == 0 || columns % of_columns != 0 || columns % 2 != 0 {
        return None;
    }
    // All of it known when the model is loaded.
    for value in [scale, zero, offset] {
        dense(editor, value)?;
    }
    let stored = dense(editor, data)?;
    let Element::Int { sign, width } = ty.element else {
        return None;
    };
    let signed = match sign {
        Sign::Signed => true,
        Sign::Unsigned => false,
        Sign::Signless => return None,
    };
    let (packed, kind) = match width {
        8 => (Source::Old(data), if signed { 3 } else { 2 }),
        4 => {
            let Payload::Resource {
                data: Some(blob), ..
            } = &stored.payload
            else {
                return None;
            };
            let bytes = rows.checked_mul(columns / 2)?;
            if blob.bytes().len() as u64 != bytes {
                return None;
            }
            let ty = Type::tensor(vec![Some(rows), Some(columns / 2)], Element::ui(8));
            let same_bytes = Dense {
                ty: ty.clone(),
                payload: stored.payload.clone(),
            };
            (edit.constant(same_bytes), i32::from(signed))
        }
        _ => return None,
    };
    let kind = edit.ints(&[], &[kind]);
    Some(vec![
        packed,
        kind,
        Source::Old(scale),
        Source::Old(zero),
        Source::Old(offset),
    ])
}

fn is_four_bits(editor: &Editor<'_>, value: ValueId) -> bool {
    let element = editor.body.ty(value).as_tensor().map(|t| t.element);
    matches!(element, Some(Element::Int { width: 4, .. }))
}

fn dense<'b>(editor: &Editor<'b>, value: ValueId) -> Option<&'b Dense> {
    let (_, op) = editor.source(value)?;
    match op.attrs.get("value") {
        Some(Attr::Dense(d)) if op.is("coreai.constant") => Some(d),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::ir::{self, Attr, Blob, Element, Module, Payload, Type};
    use crate::runtime::{Model, Tensor};

    /// A table of 2 × 4 in blocks of 2: `TYPE` and `DATA` say how it is stored.
    const PRODUCT: &str = r#"module {
  coreai.graph @main(%x: tensor<1x?x4xf32> {coreai.name = "x"}) -> (tensor<1x?x2xf32> {coreai.name = "y"}) {
    %data = coreai.constant dense<DATA> : tensor<2x4xTYPE>
    %scale = coreai.constant dense<[[1.0, 0.5], [2.0, 4.0]]> : tensor<2x2xf32>
    %zero = coreai.constant dense<[[0, 1], [-1, 0]]> : tensor<2x2xTYPE>
    %offset = coreai.constant dense<[[0.0, 0.0], [10.0, 0.0]]> : tensor<2x2xf32>
    %order = coreai.constant dense<[1, 0]> : tensor<2xui32>
    %wide = "coreai.blockwise_shift_scale"(%data, %scale, %zero, %offset) : (tensor<2x4xTYPE>, tensor<2x2xf32>, tensor<2x2xTYPE>, tensor<2x2xf32>) -> tensor<2x4xf32>
    %across = "coreai.transpose"(%wide, %order) : (tensor<2x4xf32>, tensor<2xui32>) -> tensor<4x2xf32>
    %y = "coreai.decomposable.broadcasting_batch_matmul"(%x, %across) : (tensor<1x?x4xf32>, tensor<4x2xf32>) -> tensor<1x?x2xf32>
    coreai.output %y : tensor<1x?x2xf32>
  }
}"#;

    const GATHER: &str = r#"module {
  coreai.graph @main(%x: tensor<?x1xsi32> {coreai.name = "x"}) -> (tensor<?x4xf32> {coreai.name = "y"}) {
    %data = coreai.constant dense<DATA> : tensor<2x4xTYPE>
    %scale = coreai.constant dense<[[1.0, 0.5], [2.0, 4.0]]> : tensor<2x2xf32>
    %zero = coreai.constant dense<[[0, 1], [-1, 0]]> : tensor<2x2xTYPE>
    %offset = coreai.constant dense<[[0.0, 0.0], [10.0, 0.0]]> : tensor<2x2xf32>
    %wide = "coreai.blockwise_shift_scale"(%data, %scale, %zero, %offset) : (tensor<2x4xTYPE>, tensor<2x2xf32>, tensor<2x2xTYPE>, tensor<2x2xf32>) -> tensor<2x4xf32>
    %y = "coreai.gather_nd"(%wide, %x) : (tensor<2x4xf32>, tensor<?x1xsi32>) -> tensor<?x4xf32>
    coreai.output %y : tensor<?x4xf32>
  }
}"#;
    const DATA: &str = "[[1, -2, 3, 7], [-8, 0, 5, -1]]";
    /// Row by row: `(q - zero) * scale + offset`.
    const WIDE: [[f32; 4]; 2] = [[1.0, -2.0, 1.0, 3.0], [-4.0, 12.0, 20.0, -4.0]];

    fn program(text: &str, ty: &str) -> Module {
        let text = text.replace("DATA", DATA).replace("TYPE", ty);
        ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The table as an asset stores it, two integers to a byte.
    fn stored(mut module: Module) -> Module {
        for op in &mut module.graphs[0].body.ops {
            if let Some(Attr::Dense(d)) = op.attrs.get_mut("value") {
                if d.ty == Type::tensor(vec![Some(2), Some(4)], Element::si(4)) {
                    d.payload = Payload::Resource {
                        key: "r".into(),
                        data: Some(Blob::from(vec![0xe1, 0x73, 0x08, 0xf5])),
                    };
                }
            }
        }
        module
    }

    fn run(module: &Module, x: &Tensor) -> Vec<f32> {
        let model = Model::from_module(Path::new("m"), module).unwrap_or_else(|e| panic!("{e}"));
        let out = model
            .function("main")
            .unwrap()
            .run(&[("x", x)], &mut [], &mut []);
        out.unwrap_or_else(|e| panic!("{e}"))[0].1.values().unwrap()
    }

    fn rewritten(module: &Module) -> Vec<String> {
        let (body, _) = super::super::rewrite(&module.graphs[0].body);
        let names = body.block_ops(body.entry().unwrap());
        names.map(|(_, op)| op.name.to_string()).collect()
    }

    #[test]
    fn a_product_with_a_packed_table_is_that_with_the_expanded_one() {
        for module in [program(PRODUCT, "si8"), stored(program(PRODUCT, "si4"))] {
            let names = rewritten(&module);
            assert!(
                names.contains(&"coreaix.packed_product".into()),
                "{names:?}"
            );
            assert!(!names.contains(&"coreai.blockwise_shift_scale".into()));
            let one = Tensor::from_values(&[1, 1, 4], &[1.0f32, 10.0, 100.0, 1000.0]).unwrap();
            let dot = |x: &[f32], w: &[f32]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>();
            let x = [1.0, 10.0, 100.0, 1000.0];
            let expected = WIDE.map(|w| dot(&x, &w));
            assert_eq!(run(&module, &one), expected);
            let two = [x, [1.0, 0.0, 0.0, 0.0]].concat();
            let two = Tensor::from_values(&[1, 2, 4], &two).unwrap();
            assert_eq!(
                run(&module, &two),
                [expected[0], expected[1], WIDE[0][0], WIDE[1][0]]
            );
        }
    }

    #[test]
    fn rows_of_a_packed_table_are_those_of_the_expanded_one() {
        for module in [program(GATHER, "si8"), stored(program(GATHER, "si4"))] {
            assert!(rewritten(&module).contains(&"coreaix.packed_gather".into()));
            let at = Tensor::from_values(&[3, 1], &[1i32, 0, -1]).unwrap();
            assert_eq!(run(&module, &at), [WIDE[1], WIDE[0], WIDE[1]].concat());
        }
    }

    #[test]
    fn a_table_of_equal_integers_is_read_though_it_is_stored_once() {
        let wide = [[3.0, 3.0, 1.0, 1.0], [18.0, 18.0, 12.0, 12.0]];
        let equal = |text: &str| program(&text.replace("DATA", "3"), "si8");
        let module = equal(PRODUCT);
        assert!(rewritten(&module).contains(&"coreaix.packed_product".into()));
        let x = Tensor::from_values(
            &[1, 2, 4],
            &[1.0f32, 10.0, 100.0, 1000.0, 1.0, 0.0, 0.0, 0.0],
        );
        let expected = [1133.0, 13398.0, 3.0, 18.0];
        assert_eq!(run(&module, &x.unwrap()), expected);
        let x = Tensor::from_values(&[1, 1, 4], &[1.0f32, 10.0, 100.0, 1000.0]).unwrap();
        assert_eq!(run(&module, &x), expected[..2]);
        let at = Tensor::from_values(&[2, 1], &[1i32, 0]).unwrap();
        assert_eq!(run(&equal(GATHER), &at), [wide[1], wide[0]].concat());
    }

    #[test]
    fn one_row_of_infinite_and_of_huge_values_is_multiplied_as_one_of_several() {
        for module in [program(PRODUCT, "si8"), stored(program(PRODUCT, "si4"))] {
            for x in [
                [f32::INFINITY, 1.0, 1.0, 1.0],
                [1.0, 3e38, 1.0, 1.0],
                [1.0, 1.0, -3e37, 2e37],
            ] {
                let one = run(&module, &Tensor::from_values(&[1, 1, 4], &x).unwrap());
                let two = Tensor::from_values(&[1, 2, 4], &[x, x].concat()).unwrap();
                assert_eq!(one, run(&module, &two)[..2], "{x:?}");
                assert!(one.iter().all(|v| !v.is_nan()), "{x:?}: {one:?}");
            }
        }
        let x = Tensor::from_values(&[1, 1, 4], &[f32::INFINITY, 1.0, 1.0, 1.0]).unwrap();
        let infinite = [f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(run(&program(PRODUCT, "si8"), &x), infinite);
    }

    #[test]
    fn a_row_outside_is_an_error_that_names_it() {
        let module = program(GATHER, "si8");
        let model = Model::from_module(Path::new("m"), &module).unwrap();
        let at = Tensor::from_values(&[1, 1], &[2i32]).unwrap();
        let error = model
            .function("main")
            .unwrap()
            .run(&[("x", &at)], &mut [], &mut []);
        let said = error.unwrap_err().to_string();
        assert!(
            said.ends_with("index 2 is outside a dimension of 2"),
            "{said}"
        );
    }

    #[test]
    fn a_table_in_elements_of_half_a_byte_that_is_not_stored_so_stays_as_it_is() {
        let module = program(PRODUCT, "si4");
        assert!(!rewritten(&module).contains(&"coreaix.packed_product".into()));
    }
}
