//! Comparison of two readings, and the questions about data flow.

use super::archive;
use coreai_audit::asset;
use coreai_audit::ir::dataflow::{defining_op, handle_uses, uses, HandleUse};
use coreai_audit::ir::text::parse;
use coreai_audit::ir::{compare, positional_axis, How, Module, OpId};

const T: &str = "tensor<2xf32>";

fn module(body: &str) -> Module {
    let text = format!(
        "module {{ coreai.graph @main(%x: {T} {{coreai.name = \"x\"}}, %y: {T}) -> {T} {{\n{body}\n}} }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The first difference between two bodies.
fn difference(left: &str, right: &str) -> Option<String> {
    compare(&module(left), &module(right)).map(|d| d.to_string())
}

#[test]
fn the_first_difference_is_told_with_both_sides() {
    let add = |a: &str, b: &str| {
        format!("%0 = coreai.add %{a}, %{b} : ({T}, {T}) -> {T}\ncoreai.output %0 : {T}")
    };
    assert_eq!(difference(&add("x", "y"), &add("x", "y")), None);
    let constant = |data: &str, ty: &str| {
        format!("%0 = coreai.constant {data} : {ty}\ncoreai.output %x : {T}")
    };
    let cases = [
        (add("x", "y"), add("y", "x")),
        (
            add("x", "y"),
            add("x", "y").replace("coreai.add", "coreai.mul"),
        ),
        (add("x", "y"), format!("coreai.output %x : {T}")),
        (constant("dense<1.0>", T), constant("dense<2.0>", T)),
        (
            constant("dense<1>", "tensor<2xsi32>"),
            constant("dense<1>", "tensor<2xui32>"),
        ),
        (
            constant("dense<1>", "tensor<2xsi32>"),
            constant("dense<1>", "tensor<3xsi32>"),
        ),
    ];
    let told: Vec<_> = cases
        .iter()
        .map(|(a, b)| difference(a, b).expect("a difference"))
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn what_one_side_does_not_have_matches_anything() {
    let constant =
        |data: &str| format!("%0 = coreai.constant {data} : {T}\ncoreai.output %0 : {T}");
    for left in [
        "dense<[1.0, 2.0]>",
        "dense_resource<resource_1>",
        "dense_resource<__elided__>",
    ] {
        for right in ["dense_resource<resource_2>", "dense_resource<__elided__>"] {
            assert_eq!(
                difference(&constant(left), &constant(right)),
                None,
                "{left} {right}"
            );
        }
    }
    // Names of values, locations and the other form of the same data make no difference either.
    let named = "%value = coreai.constant dense<[1.0, 1.0]> : tensor<2xf32> loc(\"a.py\":3:4)\n\
                 coreai.output %value : tensor<2xf32> loc(unknown)";
    assert_eq!(difference(named, &constant("dense<1.0>")), None);
}

#[test]
fn what_saving_changes_is_no_difference() {
    let of = |ty: &str| {
        parse(&format!(
            "module {{ coreai.graph @main(%x: tensor<2x{ty}>) {{ coreai.output }} }}"
        ))
        .expect("a program")
    };
    assert_eq!(compare(&of("i32"), &of("ui32")), None);
    assert!(compare(&of("si32"), &of("ui32")).is_some());
}

#[test]
fn uses_and_definitions() {
    let text = r#"module { coreai.graph @main(%h: !coreai.handle<tensor<2xf32>> {coreai.name = "s"}, %x: tensor<2xf32>) -> !coreai.token {
        %t = coreai.create_token : !coreai.token
        %v, %u = coreai.read_handle %h, %t : (<tensor<2xf32>>, !coreai.token) -> (tensor<2xf32>, !coreai.token)
        %w = coreai.add %v, %v : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %e = coreai.write_handle %h, %w, %u : (<tensor<2xf32>>, tensor<2xf32>, !coreai.token) -> !coreai.token
        coreai.output %e : !coreai.token } }"#;
    let module = parse(text).expect("a program");
    let graph = &module.graphs[0];
    let (handle, body) = (graph.args[0].value, &graph.body);
    let [read, add, write] = [1, 2, 3].map(|n| &body.ops[n]);
    assert_eq!(
        handle_uses(body, handle),
        [
            (
                OpId(1),
                HandleUse::Read {
                    value: read.results[0],
                    token: read.operands[1]
                }
            ),
            (
                OpId(3),
                HandleUse::Write {
                    value: write.operands[1],
                    token: write.operands[2]
                }
            ),
        ]
    );
    assert_eq!(
        uses(body)[read.results[0].0 as usize],
        [(OpId(2), 0), (OpId(2), 1)]
    );
    assert_eq!(
        defining_op(body, add.results[0]).map(|(id, _)| id),
        Some(OpId(2))
    );
    assert_eq!(defining_op(body, handle), None);
}

#[test]
fn positional_axes_of_real_assets() {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into("assets.tar.zst", root.path());
    let found = |name: &str| -> Vec<Option<(usize, How)>> {
        let module =
            asset::read_module(&root.path().join(format!("{name}.aimodel"))).expect("an asset");
        let graph = module
            .graphs
            .iter()
            .find(|g| g.is_function())
            .expect("a function");
        let handles = graph.args.iter().filter(|a| a.ty.is_handle());
        handles
            .map(|a| positional_axis(&graph.body, a.value).map(|p| (p.axis, p.how)))
            .collect()
    };
    let both = |axis, how| vec![Some((axis, how)); 2];
    assert_eq!(found("qwen3_tiny_macos"), both(3, How::Slice));
    assert_eq!(found("instep_slice_update_kv"), both(3, How::Slice));
    assert_eq!(found("indexput_kv"), both(3, How::Scatter));
    assert_eq!(found("maskblend_kv"), both(3, How::Mask));
    assert_eq!(found("snake_transformer"), both(3, How::Mask));
    assert_eq!(found("roll_kv"), both(3, How::Shift));
    // Two caches by mask, a window that shifts, and a running scan, which has no such axis.
    let mask = Some((2, How::Mask));
    assert_eq!(
        found("hybrid_gateddelta_4state"),
        [mask, mask, Some((2, How::Shift)), None]
    );
    assert_eq!(found("doc_kvcache"), [None, None, None]);
}

#[test]
fn long_chains_of_ops_and_calls_need_no_deep_stack() {
    let mut body =
        String::from("%v0 = coreai.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n");
    for i in 1..20_000 {
        body.push_str(&format!(
            "%v{i} = coreai.decomposable.broadcasting_add %v{}, %y : ({T}, {T}) -> {T}\n",
            i - 1
        ));
    }
    let text = format!(
        "module {{ coreai.graph @main(%h: !coreai.handle<{T}> {{coreai.name = \"s\"}}, %x: {T}, %y: {T}) -> !coreai.token {{\n\
         %t = coreai.create_token : !coreai.token\n{body}\
         %e = coreai.write_handle %h, %v19999, %t : (<{T}>, {T}, !coreai.token) -> !coreai.token\n\
         coreai.output %e : !coreai.token }} }}"
    );
    let thread = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            let module = parse(&text).expect("a program");
            assert_eq!(
                positional_axis(&module.graphs[0].body, module.graphs[0].args[0].value),
                None
            );
            assert_eq!(compare(&module, &module), None);
            coreai_audit::contract::extract(&module).contract.functions[0]
                .states
                .len()
        });
    assert_eq!(thread.expect("a thread").join().expect("no overflow"), 1);
}
