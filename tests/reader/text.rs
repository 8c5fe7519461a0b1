//! Reading printed programs: real ones in every form, and what is refused.

use super::archive;
use std::collections::BTreeMap;

use coreai_audit::ir::{self, text::parse, Module, PrintOptions};

/// Printed programs by name; the pretty form under `""`, others under their form's name.
fn programs() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut programs: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (path, data) in archive::unpack("printed-ir.tar.zst") {
        let stem = path.strip_suffix(".mlir").expect("a printed program");
        let form = ["generic", "debug", "plain", "aliases"]
            .into_iter()
            .find(|form| stem.ends_with(&format!(".{form}")))
            .unwrap_or_default();
        let name = stem
            .strip_suffix(form)
            .unwrap_or(stem)
            .trim_end_matches('.');
        let text = String::from_utf8(data).expect("text");
        programs
            .entry(name.to_string())
            .or_default()
            .insert(form.to_string(), text);
    }
    programs
}

fn read(name: &str, form: &str, text: &str) -> Module {
    parse(text).unwrap_or_else(|e| panic!("{name} {form}: {e}"))
}

#[test]
fn every_form_of_every_real_program_reads_to_the_same_module() {
    let programs = programs();
    let forms: Vec<usize> = ["", "generic", "debug", "plain", "aliases"]
        .iter()
        .map(|form| programs.values().filter(|p| p.contains_key(*form)).count())
        .collect();
    assert_eq!(forms, [202, 202, 16, 16, 8], "programs in each form");
    for (name, forms) in &programs {
        let pretty = read(name, "pretty", &forms[""]);
        for (form, text) in forms {
            let other = read(name, form, text);
            assert_eq!(
                ir::compare(&pretty, &other),
                None,
                "{name}: pretty against {form}"
            );
        }
    }
}

#[test]
fn what_is_printed_is_what_the_vendor_prints_letter_by_letter() {
    for (name, forms) in programs() {
        let mut ours = String::new();
        let options = PrintOptions {
            elide_above: Some(32),
        };
        read(&name, "pretty", &forms[""])
            .print(&mut ours, options)
            .expect("a string takes all");
        similar_asserts(&name, ours.trim_end(), forms[""].trim_end());
    }
}

fn similar_asserts(name: &str, ours: &str, theirs: &str) {
    for (n, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(a, b, "{name}, line {}", n + 1);
    }
    assert_eq!(ours.len(), theirs.len(), "{name}: one text ends early");
}

#[test]
fn printed_resources_are_attached_to_their_constants() {
    let programs = programs();
    let text = &programs["compressed__lin37x53_f32_pal1_pt"]["plain"];
    let module = read("pal1", "plain", text);
    let sizes: Vec<usize> = module.graphs[0]
        .body
        .walk()
        .filter_map(|(_, op)| match op.attrs.get("value") {
            Some(ir::Attr::Dense(ir::Dense {
                payload: ir::Payload::Resource { data, .. },
                ..
            })) => data.as_ref().map(|d| d.bytes().len()),
            _ => None,
        })
        .collect();
    // 37 × 53 indices of one bit.
    assert_eq!(sizes, [246]);
}

#[test]
fn locations_are_found_through_aliases() {
    let programs = programs();
    let module = read(
        "regions",
        "aliases",
        &programs["syntax__regions"]["aliases"],
    );
    let texts: Vec<&str> = module.graphs[0]
        .body
        .walk()
        .filter_map(|(_, op)| op.location.as_ref().map(|l| &*l.text))
        .take(3)
        .collect();
    assert_eq!(texts, [r#""-":3:7"#, r#""-":5:4"#, r#""-":7:7"#]);
    // A converter's debug information: aliases of locations with scopes, in both ways of writing.
    for form in ["aliases", "debug"] {
        let module = read("kv_debug", form, &programs["kv_debug"][form]);
        let graph = module.graphs.last().expect("a graph");
        let (_, op) = graph
            .body
            .walk()
            .find(|(_, op)| op.is("coreai.transpose"))
            .expect("an op");
        let at = op.location.as_ref().expect("a location");
        assert_eq!(
            (at.file.as_deref(), at.line, at.column),
            (
                Some("/home/me/torch/lib/python3.11/site-packages/torch/nn/modules/linear.py"),
                134,
                0
            ),
            "{form}: {}",
            at.text
        );
    }
}

/// The error of a module whose graph body is `body`.
fn refused(body: &str) -> String {
    let text = format!(
        "module {{\n  coreai.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n    {body}\n  }}\n}}\n"
    );
    parse(&text).expect_err("refused").to_string()
}

#[test]
fn errors_name_line_column_and_what_was_expected() {
    let cases = [
        "%0 = coreai.frobnicate %x by 3 : tensor<2xf32> -> tensor<2xf32>",
        "%0 = coreai.exp %y : tensor<2xf32> -> tensor<2xf32>",
        "%0 = coreai.exp %x : tensor<3xf32> -> tensor<2xf32>",
        "%0:2 = coreai.exp %x : tensor<2xf32> -> tensor<2xf32>",
        "%0 = coreai.slice_update %x at (%x, %x, %x) : (tensor<2xf32>) to tensor<2xf32>",
        "%x = coreai.exp %x : tensor<2xf32> -> tensor<2xf32>",
        "%0 = coreai.constant dense<[1.0]> : tensor<2xf32>",
        "%0 = coreai.constant dense<> : tensor<1xf32>",
        "%0 = coreai.constant dense<1.0> : tensor<?xf32>",
        "%0 = coreai.constant dense<300> : tensor<si8>",
        "%0 = coreai.constant dense<1> : tensor<si322>",
        "%0 = \"coreai.exp\"(%x) : (tensor<2xf32>) -> tensor<2xq32>",
        "coreai.output %x : tensor<2xf32> \"",
        "é",
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|c| format!("{c}\n  {}", refused(c)))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn an_op_with_unknown_syntax_is_read_from_the_generic_form() {
    let text = r#"module { coreai.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = "new.frobnicate"(%x) <{by = 3 : si32}> : (tensor<2xf32>) -> tensor<2xf32>
        coreai.output %0 : tensor<2xf32> } }"#;
    let module = parse(text).expect("generic ops all parse");
    let op = &module.graphs[0].body.ops[0];
    assert_eq!(
        (&*op.name, op.attrs["by"].as_int()),
        ("new.frobnicate", Some(3))
    );
}

#[test]
fn nesting_is_limited() {
    let deep = |open: &str, close: &str| {
        let text = format!("#a = {}{}", open.repeat(100_000), close.repeat(100_000));
        parse(&text).expect_err("too deep").to_string()
    };
    let expected = "line 1, column 70: expected at most 64 levels of nesting, found more";
    assert_eq!(deep("[", "]"), expected);
    assert!(deep("{a=", "}").contains("at most 64 levels of nesting"));
    let regions = format!("module {}", "{ udml.namespace @a ".repeat(1000));
    assert!(parse(&regions)
        .expect_err("too deep")
        .to_string()
        .contains("at most 64 levels"));
}

#[test]
fn aliases_cannot_be_used_to_blow_up_memory() {
    let mut text = String::from("#a0 = [unit, unit]\n");
    for i in 1..64 {
        text.push_str(&format!("#a{i} = [#a{0}, #a{0}]\n", i - 1));
    }
    let error = parse(&text).expect_err("2^64 entries");
    assert!(
        error.to_string().contains("aliases that expand to less"),
        "{error}"
    );
}

#[test]
fn any_prefix_of_a_program_is_an_error_or_a_program_and_never_a_panic() {
    let programs = programs();
    for name in ["syntax__names", "syntax__regions", "syntax__elements"] {
        for form in ["", "aliases", "generic"] {
            let text = &programs[name][form];
            let whole = text.trim_end().len();
            for end in (0..whole).step_by(5).filter(|i| text.is_char_boundary(*i)) {
                let result = parse(&text[..end]);
                // Only alias definitions and locations may follow the module.
                assert!(
                    result.is_err() || form == "aliases" || end == 0,
                    "{name} cut at {end}"
                );
            }
        }
    }
}

#[test]
fn a_long_location_that_many_ops_share_costs_once() {
    let long = "x".repeat(1 << 20);
    let ops: String = (0..20_000)
        .map(|i| {
            format!(
                "%v{i} = coreai.create_token : !coreai.token loc({})\n",
                if i % 2 == 0 { "#loc1" } else { "#d.l<#loc1>" }
            )
        })
        .collect();
    let text = format!("module {{ coreai.graph @main() {{\n{ops}}} }}\n#loc = loc(\"{long}\":7:8)\n#loc1 = loc(#loc)\n");
    let start = std::time::Instant::now();
    let module = parse(&text).expect("a program");
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    let lines: Vec<u64> = module.graphs[0]
        .body
        .ops
        .iter()
        .filter_map(|op| Some(op.location.as_ref()?.line))
        .collect();
    assert_eq!(lines, [7; 20_000]);
}
