//! The contract read off programs: order, types, access, and what is odd.

use super::archive;
use coreai_audit::contract::{self, extract, Access, Note, Role};
use coreai_audit::ir::text::parse;

const T: &str = "tensor<2xf32>";

/// What a graph with one state `s` (`%h`) and an input `%x`, `%c` does with the state. The body must
/// leave its last token in `%end`.
fn access_of(body: &str, helpers: &str) -> Access {
    let text = format!(
        r#"module {{ {helpers}
        coreai.graph @main(%h: !coreai.handle<{T}> {{MutableBuffers.buffer_mutation = "s", coreai.name = "s"}},
            %x: {T} {{coreai.name = "x"}}, %c: tensor<i1> {{coreai.name = "c"}})
            -> (!coreai.token {{coreai.name = "s"}}, {T} {{coreai.name = "y"}}) {{
          %t = coreai.create_token : !coreai.token
          {body}
          coreai.output %end, %x : !coreai.token, {T}
        }} }}"#
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let extracted = extract(&module);
    assert_eq!(extracted.notes, []);
    extracted.contract.functions[0].states[0].access
}

fn read(value: &str, after: &str, before: &str) -> String {
    format!("%{value}, %{after} = coreai.read_handle %h, %{before} : (<{T}>, !coreai.token) -> ({T}, !coreai.token)\n")
}

fn write(value: &str, after: &str, before: &str) -> String {
    format!("%{after} = coreai.write_handle %h, %{value}, %{before} : (<{T}>, {T}, !coreai.token) -> !coreai.token\n")
}

fn exp(value: &str, of: &str) -> String {
    format!("%{value} = coreai.exp %{of} : {T} -> {T}\n")
}

#[test]
fn a_state_that_is_read_and_written_is_read_write() {
    let body = read("v", "t1", "t") + &exp("w", "v") + &write("w", "end", "t1");
    assert_eq!(access_of(&body, ""), Access::ReadWrite);
}

#[test]
fn a_read_behind_a_write_does_not_see_the_value_on_entry() {
    let body = write("x", "t1", "t") + &read("v", "end", "t1") + &exp("w", "v");
    assert_eq!(access_of(&body, ""), Access::WriteOnly);
}

#[test]
fn tokens_order_and_not_the_lines_of_the_text() {
    // The read stands behind the write, but on a chain of its own.
    let body = write("x", "end", "t") + &read("v", "t2", "t") + &exp("w", "v");
    assert_eq!(access_of(&body, ""), Access::ReadWrite);
}

#[test]
fn a_read_whose_value_is_not_used_does_not_count() {
    let body = read("v", "t1", "t") + &write("x", "end", "t1");
    assert_eq!(access_of(&body, ""), Access::WriteOnly);
    assert_eq!(access_of(&read("v", "end", "t"), ""), Access::Unused);
}

#[test]
fn a_state_that_is_only_read_is_read_only() {
    assert_eq!(
        access_of(&(read("v", "end", "t") + &exp("w", "v")), ""),
        Access::ReadOnly
    );
}

#[test]
fn a_joined_token_is_behind_all_that_it_joins() {
    let join =
        "%end0 = coreai.join_token %t1, %t : (!coreai.token, !coreai.token) -> !coreai.token\n";
    let body = write("x", "t1", "t") + join + &read("v", "end", "end0") + &exp("w", "v");
    assert_eq!(access_of(&body, ""), Access::WriteOnly);
}

#[test]
fn a_branch_that_does_not_write_leaves_the_value_on_entry() {
    let branch = |one: &str, other: &str| {
        let token = "coreai.yield %u : !coreai.token\n";
        let region = |body: &str| match body {
            "" => "coreai.yield %t : !coreai.token\n".to_string(),
            body => format!("{body}{token}"),
        };
        format!(
            "%t1 = coreai.if %c {{\n{}}} else {{\n{}}} : tensor<i1> -> !coreai.token\n{}{}",
            region(one),
            region(other),
            read("v", "end", "t1"),
            exp("w", "v")
        )
    };
    let written = write("x", "u", "t");
    assert_eq!(
        access_of(&branch(&written, &written), ""),
        Access::WriteOnly
    );
    assert_eq!(access_of(&branch(&written, ""), ""), Access::ReadWrite);
}

#[test]
fn a_loop_may_read_before_it_has_written() {
    let body = |before: &str| {
        format!(
            "{before}%end = coreai.while %start {{\n\
             ^bb0(%p: !coreai.token):\n coreai.condition %c, %p : (tensor<i1>, !coreai.token)\n}} do {{\n\
             ^bb0(%p: !coreai.token):\n{}{}{}coreai.yield %q : !coreai.token\n}} : (!coreai.token) -> (!coreai.token)\n",
            read("v", "p1", "p"),
            exp("w", "v"),
            write("w", "q", "p1")
        )
    };
    let reset = write("x", "start", "t");
    assert_eq!(access_of(&body(&reset), ""), Access::WriteOnly);
    let fresh = "%start = coreai.create_token : !coreai.token\n";
    assert_eq!(access_of(&body(fresh), ""), Access::ReadWrite);
}

#[test]
fn a_loop_may_hand_its_next_turn_another_token() {
    // A read behind `a`, written before the loop; what the second turn has as `a` is `yields`.
    let body = |yields: &str| {
        format!(
            "{}%fresh = coreai.create_token : !coreai.token\n\
             %end, %other = coreai.while %start, %fresh {{\n\
             ^bb0(%a: !coreai.token, %b: !coreai.token):\n\
             coreai.condition %c, %a, %b : (tensor<i1>, !coreai.token, !coreai.token)\n}} do {{\n\
             ^bb0(%a: !coreai.token, %b: !coreai.token):\n{}{}\
             %new = coreai.create_token : !coreai.token\n\
             coreai.yield {yields} : !coreai.token, !coreai.token\n\
             }} : (!coreai.token, !coreai.token) -> (!coreai.token, !coreai.token)\n",
            write("x", "start", "t"),
            read("v", "a1", "a"),
            exp("w", "v"),
        )
    };
    assert_eq!(access_of(&body("%a1, %b"), ""), Access::WriteOnly);
    assert_eq!(access_of(&body("%b, %a1"), ""), Access::ReadWrite);
    assert_eq!(access_of(&body("%new, %b"), ""), Access::ReadWrite);
}

#[test]
fn a_write_is_found_before_thousands_of_reads() {
    let mut body = write("x", "t0", "t");
    for i in 0..3000 {
        let next = format!("t{}", i + 1);
        body += &read(&format!("v{i}"), &next, &format!("t{i}"));
        body += &exp(&format!("w{i}"), &format!("v{i}"));
    }
    body += &read("last", "end", "t3000");
    assert_eq!(access_of(&body, ""), Access::WriteOnly);
}

#[test]
fn a_state_is_followed_into_the_graphs_it_is_passed_to() {
    let helper = |body: String| {
        format!(
            "coreai.graph private @step(%h: !coreai.handle<{T}>, %p: !coreai.token, %x: {T}) -> !coreai.token {{\n\
             {body}coreai.output %q : !coreai.token\n}}\n"
        )
    };
    let call = |after: &str, before: &str| {
        format!(
            "%{after} = coreai.invoke @step(%h, %{before}, %x) : (!coreai.handle<{T}>, !coreai.token, {T}) -> !coreai.token\n"
        )
    };
    let writes = helper(write("x", "q", "p"));
    let reads = helper(read("v", "q", "p") + &exp("w", "v"));
    assert_eq!(access_of(&call("end", "t"), &writes), Access::WriteOnly);
    assert_eq!(access_of(&call("end", "t"), &reads), Access::ReadOnly);
    // The write inside the helper lies before the read outside, and the other way round.
    let after = call("t1", "t") + &read("v", "end", "t1") + &exp("w", "v");
    assert_eq!(access_of(&after, &writes), Access::WriteOnly);
    let before = write("x", "t1", "t") + &call("end", "t1");
    assert_eq!(access_of(&before, &reads), Access::WriteOnly);
}

#[test]
fn an_unknown_op_may_do_anything_with_a_state() {
    let body = format!(
        "%end = \"new.op\"(%h, %t) : (!coreai.handle<{T}>, !coreai.token) -> !coreai.token\n"
    );
    assert_eq!(access_of(&body, ""), Access::ReadWrite);
}

#[test]
fn graphs_that_call_each_other_end() {
    let helper = format!(
        "coreai.graph private @step(%h: !coreai.handle<{T}>, %p: !coreai.token) -> !coreai.token {{\n\
         %a = coreai.invoke @step(%h, %p) : (!coreai.handle<{T}>, !coreai.token) -> !coreai.token\n\
         %b = coreai.invoke @step(%h, %a) : (!coreai.handle<{T}>, !coreai.token) -> !coreai.token\n\
         coreai.output %b : !coreai.token\n}}\n"
    );
    let body = format!(
        "%t1 = coreai.invoke @step(%h, %t) : (!coreai.handle<{T}>, !coreai.token) -> !coreai.token\n{}{}",
        read("v", "end", "t1"),
        exp("w", "v")
    );
    assert_eq!(access_of(&body, &helper), Access::ReadWrite);
}

#[test]
fn the_guides_example_gives_its_contract() {
    let files = archive::unpack("printed-ir.tar.zst");
    let text = &files
        .iter()
        .find(|(name, _)| name == "doc_kvcache.mlir")
        .expect("packed")
        .1;
    let extracted = extract(&parse(std::str::from_utf8(text).expect("text")).expect("a program"));
    assert_eq!(extracted.notes, []);
    insta::assert_snapshot!(contract::json(&extracted.contract));
}

#[test]
fn contradictions_between_names_marks_and_types_are_told() {
    let text = format!(
        r#"module {{
        coreai.graph @main(
            %a: {T} {{MutableBuffers.buffer_mutation = "cache", coreai.name = "cache"}},
            %b: !coreai.handle<{T}> {{coreai.name = "s"}},
            %c: !coreai.handle<{T}> {{MutableBuffers.buffer_mutation = "k", coreai.name = "v"}},
            %d: tensor<?xsi8> {{coreai.name = "cache"}},
            %e: tensor<i1>)
            -> (!coreai.token {{coreai.name = "gone"}}, !coreai.token, {T} {{coreai.name = "y"}}, {T}) {{
          %t = coreai.create_token : !coreai.token
          %u = coreai.write_handle %c, %a, %t : (<{T}>, {T}, !coreai.token) -> !coreai.token
          coreai.output %t, %u, %a, %a : !coreai.token, !coreai.token, {T}, {T}
        }}
        udml.namespace @inner {{ coreai.graph @f() {{ coreai.output }} }} }}"#
    );
    let extracted = extract(&parse(&text).expect("a program"));
    let function = || "main".to_string();
    assert_eq!(
        extracted.notes,
        [
            Note::MutationWithoutHandle {
                function: function(),
                input: "cache".into(),
                buffer: "cache".into()
            },
            Note::HandleWithoutMutation {
                function: function(),
                state: "s".into()
            },
            Note::MutationOfOtherName {
                function: function(),
                state: "v".into(),
                buffer: "k".into()
            },
            Note::StateWithoutToken {
                function: function(),
                state: "v".into()
            },
            Note::DuplicateName {
                function: function(),
                role: Role::Input,
                name: "cache".into()
            },
            Note::MissingName {
                function: function(),
                role: Role::Input,
                position: 4
            },
            Note::TokenWithoutState {
                function: function(),
                position: 0,
                name: Some("gone".into())
            },
            Note::TokenWithoutState {
                function: function(),
                position: 1,
                name: None
            },
            Note::MissingName {
                function: function(),
                role: Role::Output,
                position: 3
            },
        ]
    );
    let main = &extracted.contract.functions[0];
    let inputs: Vec<_> = main
        .inputs
        .iter()
        .map(|p| (p.name.as_str(), p.dtype.as_str(), p.shape.as_slice()))
        .collect();
    assert_eq!(
        inputs,
        [
            ("cache", "float32", &[Some(2)][..]),
            ("cache", "int8", &[None][..]),
            ("%arg4", "bool", &[][..])
        ]
    );
    assert_eq!(main.outputs[1].name, "%result3");
    // The runtime joins namespaces and names with an underscore.
    assert_eq!(extracted.contract.functions[1].name, "inner_f");
}

#[test]
fn dtypes_bear_the_names_of_the_runtime_descriptor() {
    let pairs = [
        ("f32", "float32"),
        ("f64", "float64"),
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("f8E4M3FN", "float8e4m3fn"),
        ("f8E5M2", "float8e5m2"),
        ("f8E8M0FNU", "float8e8m0fn"),
        ("f4E2M1FN", "float4e2m1fn"),
        ("si2", "int2"),
        ("si4", "int4"),
        ("si8", "int8"),
        ("si16", "int16"),
        ("si32", "int32"),
        ("si64", "int64"),
        ("ui1", "uint1"),
        ("ui2", "uint2"),
        ("ui3", "uint3"),
        ("ui4", "uint4"),
        ("ui6", "uint6"),
        ("ui8", "uint8"),
        ("ui16", "uint16"),
        ("ui32", "uint32"),
        ("ui64", "uint64"),
        ("i1", "bool"),
        ("i8", "uint8"),
        ("i32", "uint32"),
        ("complex<f16>", "cfloat16"),
        ("complex<f32>", "cfloat32"),
        ("complex<f64>", "cfloat64"),
    ];
    for (printed, name) in pairs {
        let text = format!(
            "module {{ coreai.graph @g(%a: tensor<{printed}> {{coreai.name = \"a\"}}) {{ coreai.output }} }}"
        );
        let contract = extract(&parse(&text).expect("a program")).contract;
        assert_eq!(contract.functions[0].inputs[0].dtype, name, "{printed}");
    }
}

#[test]
fn a_handle_among_the_results_is_no_output() {
    let handle = "!coreai.handle<tensor<1xf32>>";
    let text = format!(
        r#"module {{ coreai.graph @main(%s: {handle} {{MutableBuffers.buffer_mutation = "s", coreai.name = "s"}})
        -> ({handle} {{coreai.name = "out"}}, {handle}) {{ coreai.output %s, %s : {handle}, {handle} }} }}"#
    );
    let extracted = extract(&parse(&text).expect("a program"));
    let told: Vec<String> = extracted.notes.iter().map(|n| n.to_string()).collect();
    assert_eq!(
        told,
        [
            "result 0, out, is the handle of a state: the runtime refuses the program",
            "result 1 is the handle of a state: the runtime refuses the program",
        ]
    );
    assert_eq!(extracted.contract.functions[0].outputs, []);
}
