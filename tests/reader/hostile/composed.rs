//! Files composed to attack one thing each.

use super::build::{attr, list, numbers, op, section, signed, ty, varint, with_header, File};
use super::{memory, on_a_small_stack, use_all};
use coreai_audit::asset::{self, Asset, Integrity};
use coreai_audit::ir::text::parse;
use coreai_audit::ir::{Attr, Payload};

fn graph() -> File {
    File::minimal(1, 0, &File::output())
}

/// The error of reading a file, on a small stack and in little memory.
fn refused(file: &File) -> String {
    refused_bytes(file.bytes())
}

fn refused_bytes(bytes: Vec<u8>) -> String {
    on_a_small_stack(move || {
        let (result, most) = memory::most_held(|| use_all(&bytes).map(|_| ()));
        assert!(
            most <= 100 * bytes.len() + (1 << 20),
            "{most} bytes held for {}",
            bytes.len()
        );
        result.expect_err("refused")
    })
}

#[test]
fn the_writer_of_these_files_writes_files_that_are_read() {
    let program = use_all(&graph().bytes()).expect("a program");
    assert_eq!(
        program.module.to_string(),
        "module {\n  coreai.graph @main() {\n    coreai.output\n  }\n}\n"
    );
    assert_eq!(
        (program.dialect_version, program.bytecode_producer.as_str()),
        (Some(2), "test")
    );
}

#[test]
fn attributes_and_types_that_contain_themselves() {
    let mut file = graph();
    file.attributes[attr::EMPTY as usize] = [varint(5), list(&[attr::EMPTY])].concat();
    assert!(refused(&file)
        .contains("expected an attribute or type that does not contain itself, found a cycle"));
    let mut file = graph();
    file.types[ty::FUNCTION as usize] = [varint(30), list(&[]), list(&[3])].concat();
    file.types.push(numbers(&[31, 4]));
    file.types.push(numbers(&[31, 3]));
    assert!(refused(&file).contains("a cycle"));
}

#[test]
fn attributes_nested_beyond_reason() {
    let mut file = graph();
    let first = file.attributes.len() as u64;
    file.attributes[attr::EMPTY as usize] = [varint(5), list(&[first])].concat();
    for i in 0..50_000 {
        file.attributes
            .push([varint(5), list(&[first + i + 1])].concat());
    }
    file.attributes.push(numbers(&[46]));
    assert!(refused(&file).contains("levels of nesting, found more"));
}

#[test]
fn attributes_that_double_at_every_level() {
    let mut file = graph();
    let first = file.attributes.len() as u64;
    file.attributes[attr::EMPTY as usize] = [varint(5), list(&[first])].concat();
    for i in 0..60 {
        file.attributes
            .push([varint(5), list(&[first + i + 1, first + i + 1])].concat());
    }
    file.attributes.push(numbers(&[46]));
    on_a_small_stack(move || {
        let bytes = file.bytes();
        let (result, most) = memory::most_held(|| use_all(&bytes).map(|_| ()));
        assert!(result
            .expect_err("refused")
            .contains("attributes that expand to less"));
        // A million parts are allowed before this is believed to be an attack.
        assert!(most < 400 << 20, "{most}");
    });
}

#[test]
fn regions_nested_beyond_reason() {
    // Each `while` holds a region with the next one.
    let mut inner = File::output();
    for _ in 0..2000 {
        let region = [varint(1), varint(0), varint(1 << 1), inner].concat();
        inner = [
            varint(op::WHILE),
            vec![0x10],
            varint(attr::LOCATION),
            varint(1 << 1),
            region,
        ]
        .concat();
    }
    assert!(refused(&File::minimal(1, 0, &inner)).contains("levels of nesting, found more"));
    // Isolated regions nest by sections.
    let mut inner = File::output();
    for _ in 0..2000 {
        let region = [varint(1), varint(0), varint(1 << 1), inner].concat();
        inner = [
            varint(op::SOFTMAX),
            vec![0x10],
            varint(attr::LOCATION),
            varint(1 << 1 | 1),
            section(4, &region),
        ]
        .concat();
    }
    assert!(refused(&File::minimal(1, 0, &inner)).contains("levels of nesting, found more"));
}

#[test]
fn counts_that_promise_more_than_the_file_holds() {
    let huge = [varint(1), varint(u64::MAX)].concat();
    let mut told = Vec::new();
    let mut file = graph();
    file.ir = varint(u64::MAX);
    told.push(refused(&file));
    for (what, ops) in [
        (
            "values",
            [
                varint(op::WHILE),
                vec![0x10],
                varint(0),
                varint(1 << 1),
                huge.clone(),
            ]
            .concat(),
        ),
        (
            "results",
            [varint(op::WHILE), vec![0x02], varint(0), varint(1 << 40)].concat(),
        ),
        (
            "operands",
            [varint(op::WHILE), vec![0x04], varint(0), varint(1 << 40)].concat(),
        ),
        (
            "regions",
            [varint(op::WHILE), vec![0x10], varint(0), varint(1 << 40)].concat(),
        ),
        ("op", varint(1 << 40)),
        (
            "location",
            [varint(op::WHILE), vec![0], varint(1 << 40)].concat(),
        ),
        ("mask", [varint(op::WHILE), vec![0xff], varint(0)].concat()),
        (
            "branches",
            [varint(op::WHILE), vec![0x08], varint(0)].concat(),
        ),
    ] {
        told.push(format!("{what}: {}", refused(&File::minimal(1, 0, &ops))));
    }
    let mut file = graph();
    file.attributes[attr::EMPTY as usize] = numbers(&[5, 1 << 40]);
    told.push(refused(&file));
    let mut file = graph();
    file.types[ty::FUNCTION as usize] = numbers(&[30, 1 << 40]);
    told.push(refused(&file));
    // Offsets differ by nothing but what the test changes, so they are part of the message.
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn values_that_are_not_there() {
    let ops = [varint(op::OUTPUT), vec![0x04], varint(0), list(&[0])].concat();
    assert!(
        refused(&File::minimal(1, 0, &ops)).contains("expected a value number below 0, found 0")
    );
    // The value is the op's own result.
    let ops = [
        varint(op::WHILE),
        vec![0x06],
        varint(0),
        list(&[ty::TENSOR]),
        list(&[0]),
    ]
    .concat();
    assert!(refused(&File::minimal(1, 1, &ops)).contains("expected a value defined above, found 0"));
    // The region states more values than it defines, and fewer.
    assert!(refused(&File::minimal(1, 1, &File::output()))
        .contains("expected 1 values in the region, found 0"));
    let ops = [
        varint(op::WHILE),
        vec![0x02],
        varint(0),
        list(&[ty::TENSOR]),
    ]
    .concat();
    assert!(refused(&File::minimal(1, 0, &ops))
        .contains("as many values as the region states, found more"));
}

#[test]
fn broken_containers() {
    let file = graph();
    let sections = file.sections();
    let mut told = Vec::new();
    let mut twice = sections.clone();
    twice.push(sections[0].clone());
    told.push(refused_bytes(with_header(&twice)));
    for missing in 0..4 {
        let mut fewer = sections.clone();
        fewer.remove(missing);
        told.push(refused_bytes(with_header(&fewer)));
    }
    let unknown = [&sections[..], &[section(9, &[])]].concat();
    told.push(refused_bytes(with_header(&unknown)));
    let too_long = [&sections[..], &[[&[7][..], &varint(1 << 50)].concat()]].concat();
    told.push(refused_bytes(with_header(&too_long)));
    let misaligned = [
        &sections[..],
        &[[&[0x87][..], &varint(0), &varint(3)].concat()],
    ]
    .concat();
    told.push(refused_bytes(with_header(&misaligned)));
    let mut text = file.clone();
    text.strings[7] = b"ma\xffin".to_vec();
    told.push(refused(&text));
    let mut padded = sections.clone();
    padded[2].splice(0..1, [0x82]);
    let at = 1 + varint(file.attributes.concat().len() as u64).len();
    padded[2].splice(at..at, [varint(64), vec![0xcc; 3]].concat());
    told.push(refused_bytes(with_header(&padded)));
    let mut spare = file.clone();
    spare.ir.push(0);
    told.push(refused(&spare));
    insta::assert_snapshot!(told.join("\n"));
}

/// A graph with one constant of type `tensor<2xf32>`, and its attribute.
fn constant(attribute: Vec<u8>) -> File {
    let ops = [
        [
            varint(op::CONSTANT),
            vec![0x42],
            varint(0),
            varint(1),
            list(&[ty::TENSOR]),
        ]
        .concat(),
        File::output(),
    ]
    .concat();
    let mut file = File::minimal(2, 1, &ops);
    file.properties
        .push(numbers(&[file.attributes.len() as u64]));
    file.attributes.push(attribute);
    file
}

#[test]
fn constants_whose_data_does_not_fit() {
    let inline = |splat: u8, bytes: &[u8]| {
        [
            varint(6),
            vec![splat],
            varint(bytes.len() as u64),
            bytes.to_vec(),
        ]
        .concat()
    };
    assert!(use_all(&constant(inline(0, &[0; 8])).bytes()).is_ok());
    assert!(use_all(&constant(inline(1, &[0; 4])).bytes()).is_ok());
    assert!(refused(&constant(inline(0, &[0; 7])))
        .contains("expected 8 bytes for tensor<2xf32>, found 7 bytes"));
    assert!(refused(&constant(inline(1, &[0; 8])))
        .contains("expected 4 bytes for tensor<2xf32>, found 8 bytes"));
    assert!(refused(&constant(inline(2, &[0; 8]))).contains("expected 0 or 1, found 2"));
    assert!(refused(&constant(numbers(&[7, 0])))
        .contains("expected a resource number below 0, found 0"));
    assert!(refused(&constant(numbers(&[46]))).contains("expected constant data (code 6 or 7)"));
    let mut dynamic = constant(inline(0, &[0; 8]));
    dynamic.types[ty::TENSOR as usize] =
        [varint(2), varint(1), signed(i64::MIN), varint(ty::F32)].concat();
    assert!(refused(&dynamic).contains("expected data of a static shape, for tensor<?xf32>"));
    let mut vast = constant(inline(0, &[0; 8]));
    vast.types[ty::TENSOR as usize] = [
        varint(2),
        varint(3),
        [signed(i64::MAX), signed(i64::MAX), signed(i64::MAX)].concat(),
        varint(ty::F32),
    ]
    .concat();
    assert!(refused(&vast).contains("expected data of a static shape"));
    let mut negative = constant(inline(0, &[0; 8]));
    negative.types[ty::TENSOR as usize] =
        [varint(2), varint(1), signed(-1), varint(ty::F32)].concat();
    assert!(refused(&negative).contains("expected an extent of 0 or more, found -1"));
}

/// A constant in a resource of eight bytes, with the sizes and the entry given.
fn resource(size: u64, kind: u8, entry: &[u8]) -> File {
    let mut file = constant(numbers(&[7, 0]));
    file.resource_sizes = [numbers(&[0, 0, 1, 8, size]), vec![kind]].concat();
    file.resources = entry.to_vec();
    file
}

#[test]
fn resources_that_do_not_fit() {
    let data = [varint(1), varint(8), vec![5; 8]].concat();
    let program = use_all(&resource(10, 0, &data).bytes()).expect("a program");
    let (_, op) = program.module.graphs[0].body.walk().next().expect("an op");
    let Some(Attr::Dense(dense)) = op.attrs.get("value") else {
        panic!("{op:?}")
    };
    let Payload::Resource {
        key,
        data: Some(blob),
    } = &dense.payload
    else {
        panic!("{dense:?}")
    };
    assert_eq!((&**key, blob.bytes()), ("resource_1", &[5; 8][..]));
    let told = [
        refused(&resource(11, 0, &data)),
        refused(&resource(u64::MAX, 0, &data)),
        refused(&resource(10, 3, &data)),
        refused(&resource(
            10,
            0,
            &[varint(1), varint(9), vec![5; 8]].concat(),
        )),
        refused(&resource(
            10,
            0,
            &[varint(3), varint(8), vec![5; 8]].concat(),
        )),
        refused(&resource(9, 0, &data)),
        refused(&resource(10, 0, &[&data[..], &[0]].concat())),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn unknown_codes_are_kept_and_named() {
    let mut file = graph();
    file.attributes[attr::LOCATION as usize] = [varint(99), vec![1, 2, 3]].concat();
    assert!(use_all(&file.bytes()).is_ok());
    let mut file = graph();
    file.types[ty::FUNCTION as usize] = [varint(30), list(&[]), list(&[])].concat();
    file.types.push([varint(60), vec![7]].concat());
    file.attributes[attr::NAME as usize] = [varint(99), vec![1, 2, 3]].concat();
    assert!(refused(&file).contains("expected a graph whose name is a string"));
}

#[test]
fn parts_that_are_missing_or_no_files() {
    let root = tempfile::tempdir().expect("a directory");
    let asset = root.path().join("a.aimodel");
    std::fs::create_dir(&asset).expect("a directory");
    assert!(Asset::open(&asset).is_err());
    std::fs::write(asset.join("main.mlirb"), b"").expect("written");
    let error = asset::read_module(&asset).expect_err("empty").to_string();
    assert!(
        error.contains("main.mlirb: byte 0, header: expected the magic number"),
        "{error}"
    );
    std::fs::write(asset.join("main.mlirb"), graph().bytes()).expect("written");
    assert!(asset::read_module(&asset).is_ok());
    let opened = Asset::open(&asset).expect("an asset");
    assert!(matches!(opened.integrity(), Ok(Integrity::Missing { .. })));
    std::fs::create_dir(asset.join("main.hash")).expect("a directory");
    assert!(opened.integrity().is_err());
    std::fs::remove_dir(asset.join("main.hash")).expect("removed");
    for (hash, word) in [
        (vec![0; 32], "mismatch"),
        (vec![0; 31], "unreadable"),
        (vec![0; 1000], "unreadable"),
    ] {
        std::fs::write(asset.join("main.hash"), hash).expect("written");
        assert_eq!(opened.integrity().expect("checked").word(), word);
    }
    std::fs::remove_file(asset.join("main.mlirb")).expect("removed");
    std::fs::create_dir(asset.join("main.mlirb")).expect("a directory");
    let error = Asset::open(&asset).expect_err("a directory").to_string();
    assert!(
        error.ends_with("main.mlirb: expected a file, found something else"),
        "{error}"
    );
}

#[test]
fn printed_programs_nested_to_the_limit_fit_a_small_stack() {
    let regions = |n: usize| {
        let open = "coreai.if %c {\n".repeat(n);
        let close = "} else {\n} : tensor<i1> -> tensor<i1>\n".repeat(n);
        format!("module {{ coreai.graph @main(%c: tensor<i1>) {{ {open}{close} }} }}")
    };
    let attributes = |n: usize| format!("#a = {}unit{}", "{a = [".repeat(n), "]}".repeat(n));
    on_a_small_stack(move || {
        assert!(parse(&regions(50)).is_ok());
        assert!(parse(&attributes(30)).is_ok());
        for text in [regions(5000), attributes(5000)] {
            let error = parse(&text).expect_err("too deep").to_string();
            assert!(
                error.contains("at most 64 levels of nesting, found more"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_boolean_is_zero_or_one_whatever_the_byte() {
    let mut file = constant([varint(6), vec![0], varint(2), vec![0, 7]].concat());
    file.types[ty::F32 as usize] = varint(4);
    let program = use_all(&file.bytes()).expect("a program");
    let (_, op) = program.module.graphs[0].body.walk().next().expect("an op");
    assert_eq!(
        op.attrs["value"].to_string(),
        "dense<[false, true]> : tensor<2xi1>"
    );
    let Attr::Dense(data) = &op.attrs["value"] else {
        panic!("{op:?}")
    };
    assert_eq!(data.elements().as_deref(), Some(&[0, 1][..]));
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_part_is_refused_and_not_waited_for() {
    let root = tempfile::tempdir().expect("a directory");
    let asset = root.path().join("a.aimodel");
    std::fs::create_dir(&asset).expect("a directory");
    std::fs::write(asset.join("main.mlirb"), graph().bytes()).expect("written");
    let pipe = |name: &str| {
        let status = std::process::Command::new("mkfifo")
            .arg(asset.join(name))
            .status();
        assert!(status.expect("mkfifo").success());
    };
    pipe("main.hash");
    pipe("metadata.json");
    let opened = Asset::open(&asset).expect("an asset");
    for error in [
        opened.integrity().map(|_| ()),
        opened.metadata().map(|_| ()),
    ] {
        let error = error.expect_err("a pipe").to_string();
        assert!(
            error.ends_with("expected a file, found something else"),
            "{error}"
        );
    }
    std::fs::remove_file(asset.join("main.mlirb")).expect("removed");
    pipe("main.mlirb");
    assert!(Asset::open(&asset).is_err());
}

#[test]
fn long_data_that_many_share_is_kept_once_or_refused() {
    // One string of a megabyte in two thousand attributes of the graph's arguments.
    let mut file = graph();
    file.strings.push(vec![b'x'; 1 << 20]);
    let long = file.strings.len() as u64 - 1;
    let first = file.attributes.len() as u64;
    file.attributes
        .extend((0..2000).map(|_| numbers(&[1, long])));
    file.attributes[attr::EMPTY as usize] =
        [varint(5), list(&(first..first + 2000).collect::<Vec<_>>())].concat();
    assert!(refused(&file).contains("attributes that expand to less"));
    // One constant of a megabyte in two thousand ops.
    let count = 2000u64;
    let one = [
        varint(op::CONSTANT),
        vec![0x42],
        varint(0),
        varint(1),
        list(&[ty::TENSOR]),
    ]
    .concat();
    let mut file = File::minimal(
        count + 1,
        count,
        &[one.repeat(count as usize), File::output()].concat(),
    );
    file.types[ty::TENSOR as usize] =
        [varint(2), varint(1), signed(1 << 18), varint(ty::F32)].concat();
    file.properties
        .push(numbers(&[file.attributes.len() as u64]));
    let data: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect();
    file.attributes
        .push([varint(6), vec![0], varint(data.len() as u64), data].concat());
    on_a_small_stack(move || {
        let bytes = file.bytes();
        let (result, most) =
            memory::most_held(|| use_all(&bytes).map(|p| p.module.graphs[0].body.ops.len()));
        assert_eq!(result, Ok(2001));
        assert!(most < 8 << 20, "{most}");
    });
}

#[test]
fn a_tensor_has_few_dimensions() {
    let mut file = graph();
    file.types
        .push([varint(2), varint(65), signed(1).repeat(65), varint(ty::F32)].concat());
    file.types[ty::FUNCTION as usize] = [varint(30), list(&[3]), list(&[])].concat();
    assert!(refused(&file).contains("expected at most 64 extents, found 65"));
    let text = format!(
        "module {{ coreai.graph @main(%x: tensor<{}f32>) {{ }} }}",
        "1x".repeat(65)
    );
    assert!(parse(&text)
        .expect_err("refused")
        .to_string()
        .contains("expected at most 64 extents"));
}

#[test]
fn two_attributes_of_one_name_are_refused() {
    // Strings 9 and 10 are the name as stored and as printed; the argument has two of these entries.
    let entry = |name: u64| [varint(9), varint(name), list(&[attr::NAME])].concat();
    let file = |names: &[u64]| {
        let mut file = File::with_argument(5);
        file.strings.push(b"aicode.name".to_vec());
        file.strings.push(b"coreai.name".to_vec());
        let entries: Vec<u64> = (0..names.len() as u64).map(|i| 7 + i).collect();
        file.attributes.push([varint(5), list(&[6])].concat());
        file.attributes.push([varint(5), list(&entries)].concat());
        file.attributes.extend(names.iter().map(|n| entry(*n)));
        file
    };
    let program = use_all(&file(&[9]).bytes()).expect("a program");
    assert!(program
        .module
        .to_string()
        .contains("coreai.name = \"main\""));
    for names in [[9, 9], [9, 10], [10, 10]] {
        let error = refused(&file(&names));
        assert!(
            error.contains(
                "expected attributes of different names, found two called \"coreai.name\""
            ),
            "{error}"
        );
    }
}

#[test]
fn flags_of_a_graph_have_one_bit() {
    for (width, one) in [(8, vec![1]), (16, signed(1)), (64, signed(1))] {
        let mut file = graph();
        file.attributes[attr::FALSE as usize] = [varint(2), varint(width), vec![0], one].concat();
        let error = refused(&file);
        assert!(error.contains("as an integer of one bit"), "{error}");
    }
}

#[test]
fn a_body_returns_the_results_of_its_signature() {
    let mut file = graph();
    file.types[ty::FUNCTION as usize] = [varint(30), list(&[ty::TENSOR]), list(&[])].concat();
    let error = refused(&file);
    assert!(
        error.contains("expected a body that returns the results of the function type"),
        "{error}"
    );
}

#[test]
fn graphs_of_one_name_are_refused() {
    let body = [varint(1), varint(0), varint(1 << 1), File::output()].concat();
    let error = refused(&File::of_graphs(&[body.clone(), body]));
    assert!(
        error.contains("expected graphs of different names, found two called main"),
        "{error}"
    );
}

#[test]
fn an_unknown_element_type_is_named() {
    let mut file = graph();
    file.types[ty::F32 as usize] = [varint(99), vec![7]].concat();
    file.types[ty::FUNCTION as usize] = [varint(30), list(&[]), list(&[ty::TENSOR])].concat();
    let error = refused(&file);
    assert!(error.contains("!aicode.unknown<99, \"07\">"), "{error}");
}
