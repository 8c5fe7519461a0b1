//! A decode step writes its row into the caller's state: it never copies the state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use coreai_audit::ir::{text, Module};
use coreai_audit::runtime::{DType, Model, Tensor};

/// Counts the bytes a thread asks for: other tests may run beside this one.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A cache of `capacity` rows of 16; a row is written at `x`, then the rows up to it are summed. `OP`
/// stands for the op that writes.
const CACHE: &str = r#"module {
  coreai.graph @main(%s: !coreai.handle<tensor<?x16xf32>> {coreai.name = "cache"}, %at: tensor<1xsi32> {coreai.name = "x"}, %row: tensor<1x16xf32> {coreai.name = "y"}) -> (!coreai.token {coreai.name = "cache"}, tensor<1x16xf32> {coreai.name = "sum"}) {
    %zero = coreai.constant dense<0> : tensor<1xsi32>
    %axis = coreai.constant dense<0> : tensor<si32>
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %ones = coreai.constant dense<1> : tensor<2xsi32>
    %width = coreai.constant dense<16> : tensor<1xsi32>
    %next = "coreai.add"(%at, %one) : (tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xsi32>
    %start = "coreai.concat"(%axis, %at, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %end = "coreai.concat"(%axis, %next, %width) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %zeros = "coreai.concat"(%axis, %zero, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %t = "coreai.create_token"() : () -> !coreai.token
    %old, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<?x16xf32>>, !coreai.token) -> (tensor<?x16xf32>, !coreai.token)
    WRITE
    %t2 = "coreai.write_handle"(%s, %new, %t1) : (!coreai.handle<tensor<?x16xf32>>, tensor<?x16xf32>, !coreai.token) -> !coreai.token
    %all, %t3 = "coreai.read_handle"(%s, %t2) : (!coreai.handle<tensor<?x16xf32>>, !coreai.token) -> (tensor<?x16xf32>, !coreai.token)
    %valid = "coreai.slice"(%all, %zeros, %end, %ones) : (tensor<?x16xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>) -> tensor<?x16xf32>
    %sum = "coreai.reduce_sum"(%valid, %zero) : (tensor<?x16xf32>, tensor<1xsi32>) -> tensor<1x16xf32>
    coreai.output %t3, %sum : !coreai.token, tensor<1x16xf32>
  }
}"#;

const SLICE: &str = r#"%new = "coreai.slice_update"(%old, %start, %end, %ones, %row) : (tensor<?x16xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>, tensor<1x16xf32>) -> tensor<?x16xf32>"#;

const SCATTER: &str = r#"%shape = coreai.constant dense<[1, 1]> : tensor<2xsi32>
    %index = "coreai.reshape"(%at, %shape) : (tensor<1xsi32>, tensor<2xsi32>) -> tensor<1x1xsi32>
    %new = "coreai.scatter_nd"(%old, %index, %row) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      "coreai.yield"(%b) : (tensor<f32>) -> ()
    }) : (tensor<?x16xf32>, tensor<1x1xsi32>, tensor<1x16xf32>) -> tensor<?x16xf32>"#;

/// A model of which every buffer is counted: no call uses again what another left.
fn counted(module: &Module) -> Model {
    Model::from_module(Path::new("cache"), module)
        .unwrap_or_else(|e| panic!("{e}"))
        .with_kept_memory(0)
}

/// Bytes one step allocates with a cache of this many rows.
fn step(write: &str, capacity: usize) -> usize {
    let text = CACHE.replace("WRITE", write);
    let module = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let model = counted(&module);
    let function = model.function("main").unwrap();
    let row = Tensor::from_values(&[1, 16], &[1.5f32; 16]).unwrap();
    let mut cache = Tensor::zeros(DType::F32, &[capacity, 16]).unwrap();
    let address = cache.address();
    let mut used = 0;
    for position in 0..3i32 {
        let at = Tensor::from_values(&[1], &[position]).unwrap();
        let before = BYTES.get();
        let out = function
            .run(
                &[("x", &at), ("y", &row)],
                &mut [("cache", &mut cache)],
                &mut [],
            )
            .unwrap_or_else(|e| panic!("{e}"));
        used = BYTES.get() - before;
        let sum = 1.5 * (position + 1) as f32;
        assert_eq!(out[0].1.values::<f32>().unwrap(), [sum; 16]);
    }
    assert_eq!(cache.address(), address, "the caller's own memory");
    let rows = cache.values::<f32>().unwrap();
    assert_eq!(rows[..48], [1.5; 48]);
    assert_eq!(rows[48..], vec![0.0; rows.len() - 48]);
    used
}

#[test]
fn a_step_costs_the_same_whatever_the_capacity() {
    for write in [SLICE, SCATTER] {
        let (small, large) = (step(write, 64), step(write, 1 << 18));
        assert_eq!(small, large, "{write}");
        assert!(small < 32 << 10, "{small} bytes");
    }
}

/// `cache[1][at:at+1] = row` on a cache of two layers, as the converter writes it: a selection over the
/// whole cache. `MASK` says which layers are selected.
const LAYERS: &str = r#"module {
  coreai.graph @main(%s: !coreai.handle<tensor<2x?x16xf32>> {coreai.name = "cache"}, %at: tensor<1xsi32> {coreai.name = "x"}, %row: tensor<1x16xf32> {coreai.name = "y"}) -> (!coreai.token {coreai.name = "cache"}, tensor<1x16xf32> {coreai.name = "sum"}) {
    %zero = coreai.constant dense<0> : tensor<1xsi32>
    %axis = coreai.constant dense<0> : tensor<si32>
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %ones = coreai.constant dense<1> : tensor<2xsi32>
    %ones3 = coreai.constant dense<1> : tensor<3xsi32>
    %width = coreai.constant dense<16> : tensor<1xsi32>
    %two = coreai.constant dense<2> : tensor<1xui32>
    %mask = coreai.constant dense<MASK> : tensor<2x1x1xi1>
    %from = coreai.constant dense<[1, 0, 0]> : tensor<3xsi32>
    %to = coreai.constant dense<[2, 2147483647, 2147483647]> : tensor<3xsi32>
    %next = "coreai.add"(%at, %one) : (tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xsi32>
    %start = "coreai.concat"(%axis, %at, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %end = "coreai.concat"(%axis, %next, %width) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %zeros = "coreai.concat"(%axis, %zero, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %t = "coreai.create_token"() : () -> !coreai.token
    %old, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<2x?x16xf32>>, !coreai.token) -> (tensor<2x?x16xf32>, !coreai.token)
    %slab = "coreai.slice"(%old, %from, %to, %ones3) : (tensor<2x?x16xf32>, tensor<3xsi32>, tensor<3xsi32>, tensor<3xsi32>) -> tensor<1x?x16xf32>
    %layer = "coreai.shrink_dims"(%slab, %zero) : (tensor<1x?x16xf32>, tensor<1xsi32>) -> tensor<?x16xf32>
    %new = "coreai.slice_update"(%layer, %start, %end, %ones, %row) : (tensor<?x16xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>, tensor<1x16xf32>) -> tensor<?x16xf32>
    %wide = "coreai.expand_dims"(%new, %zero) : (tensor<?x16xf32>, tensor<1xsi32>) -> tensor<1x?x16xf32>
    %both = "coreai.broadcast_in_dims"(%wide, %two, %zero) : (tensor<1x?x16xf32>, tensor<1xui32>, tensor<1xsi32>) -> tensor<2x?x16xf32>
    %all = "coreai.decomposable.broadcasting_where"(%mask, %both, %old) : (tensor<2x1x1xi1>, tensor<2x?x16xf32>, tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
    %t2 = "coreai.write_handle"(%s, %all, %t1) : (!coreai.handle<tensor<2x?x16xf32>>, tensor<2x?x16xf32>, !coreai.token) -> !coreai.token
    %seen = "coreai.slice"(%all, %from, %to, %ones3) : (tensor<2x?x16xf32>, tensor<3xsi32>, tensor<3xsi32>, tensor<3xsi32>) -> tensor<1x?x16xf32>
    %rows = "coreai.shrink_dims"(%seen, %zero) : (tensor<1x?x16xf32>, tensor<1xsi32>) -> tensor<?x16xf32>
    %valid = "coreai.slice"(%rows, %zeros, %end, %ones) : (tensor<?x16xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>) -> tensor<?x16xf32>
    %sum = "coreai.reduce_sum"(%valid, %zero) : (tensor<?x16xf32>, tensor<1xsi32>) -> tensor<1x16xf32>
    coreai.output %t2, %sum : !coreai.token, tensor<1x16xf32>
  }
}"#;

/// A row of 100, 101 and 102 is written in three steps; the bytes that the last one allocated.
fn three_rows(module: &Module, cache: &mut Tensor) -> usize {
    let model = counted(module);
    let function = model.function("main").unwrap();
    let mut used = 0;
    for position in 0..3i32 {
        let at = Tensor::from_values(&[1], &[position]).unwrap();
        let row = Tensor::from_values(&[1, 16], &[100.0 + position as f32; 16]).unwrap();
        let before = BYTES.get();
        function
            .run(
                &[("x", &at), ("y", &row)],
                &mut [("cache", &mut *cache)],
                &mut [],
            )
            .unwrap_or_else(|e| panic!("{e}"));
        used = BYTES.get() - before;
    }
    used
}

/// Three steps on a cache of two layers; the bytes the last one allocated, and the cache.
fn layered(mask: &str, capacity: usize) -> (usize, Vec<f32>) {
    let module = text::parse(&LAYERS.replace("MASK", mask)).unwrap_or_else(|e| panic!("{e}"));
    let start: Vec<f32> = (0..2 * capacity * 16).map(|i| (i % 7) as f32).collect();
    let mut cache = Tensor::from_values(&[2, capacity, 16], &start).unwrap();
    let used = three_rows(&module, &mut cache);
    (used, cache.values::<f32>().unwrap())
}

#[test]
fn a_row_of_one_layer_of_a_stacked_cache_costs_the_same_whatever_the_capacity() {
    let mask = "[[[false]], [[true]]]";
    let (small, seen) = layered(mask, 64);
    let mut expected: Vec<f32> = (0..2 * 64 * 16).map(|i| (i % 7) as f32).collect();
    for row in 0..3 {
        expected[(64 + row) * 16..(64 + row + 1) * 16].fill(100.0 + row as f32);
    }
    assert_eq!(seen, expected);
    let (large, _) = layered(mask, 1 << 16);
    assert_eq!(small, large);
    assert!(small < 32 << 10, "{small} bytes");
}

#[test]
fn another_layer_gets_a_copy_of_this_one_with_the_row() {
    let (_, seen) = layered("[[[true]], [[false]]]", 64);
    let start: Vec<f32> = (0..2 * 64 * 16).map(|i| (i % 7) as f32).collect();
    // Layer 1 is what it was; layer 0 is layer 1 with the last row written.
    assert_eq!(seen[64 * 16..], start[64 * 16..]);
    let mut expected = start[64 * 16..].to_vec();
    expected[2 * 16..3 * 16].fill(102.0);
    assert_eq!(seen[..64 * 16], expected);
}

#[test]
fn a_mask_of_all_layers_gives_all_of_them_the_row() {
    let (_, seen) = layered("true", 64);
    assert_eq!(seen[..64 * 16], seen[64 * 16..]);
    assert_eq!(seen[2 * 16], 102.0);
}

/// The same with a capacity that is known: the layer is taken out and put back by reshaping, and the row
/// is written by index, as `cache[1].index_copy_(0, at, row)` becomes.
fn by_index(capacity: usize) -> String {
    let mut text = String::new();
    for line in LAYERS.lines() {
        let fixed = |line: &str| line.replace('?', &capacity.to_string());
        let name = line.trim_start().split(' ').next().unwrap();
        text += &match name {
            "%layer" => format!("%flat = coreai.constant dense<[{capacity}, 16]> : tensor<2xui32>\n%layer = \"coreai.reshape\"(%slab, %flat) : (tensor<1x{capacity}x16xf32>, tensor<2xui32>) -> tensor<{capacity}x16xf32>"),
            "%new" => fixed(SCATTER).replace("%old", "%layer"),
            "%wide" => format!("%deep = coreai.constant dense<[1, {capacity}, 16]> : tensor<3xui32>\n%wide = \"coreai.reshape\"(%new, %deep) : (tensor<{capacity}x16xf32>, tensor<3xui32>) -> tensor<1x{capacity}x16xf32>"),
            // What is summed is as long as what was written.
            "%valid" => line.replacen('?', &capacity.to_string(), 1),
            "%sum" => line.into(),
            _ => fixed(line),
        };
        text.push('\n');
    }
    text.replace("MASK", "[[[false]], [[true]]]")
}

fn written_by_index(capacity: usize) -> (usize, Vec<f32>) {
    let module = text::parse(&by_index(capacity)).unwrap_or_else(|e| panic!("{e}"));
    let mut cache = Tensor::zeros(DType::F32, &[2, capacity, 16]).unwrap();
    let address = cache.address();
    let used = three_rows(&module, &mut cache);
    assert_eq!(cache.address(), address, "the caller's own memory");
    (used, cache.values::<f32>().unwrap())
}

#[test]
fn a_row_written_by_index_into_one_layer_costs_the_same_whatever_the_capacity() {
    let (small, seen) = written_by_index(64);
    let mut expected = vec![0f32; 2 * 64 * 16];
    for row in 0..3 {
        expected[(64 + row) * 16..(64 + row + 1) * 16].fill(100.0 + row as f32);
    }
    assert_eq!(seen, expected);
    let (large, _) = written_by_index(1 << 16);
    assert_eq!(small, large);
    assert!(small < 32 << 10, "{small} bytes");
}

#[test]
fn what_fails_in_a_rewritten_program_is_named_as_it_was_written() {
    let module = text::parse(&by_index(64)).unwrap_or_else(|e| panic!("{e}"));
    let own = module.graphs[0].body.walk();
    let index = own.into_iter().find(|(_, op)| op.is("coreai.scatter_nd"));
    let index = index.map(|(id, _)| id.0).unwrap();
    let model = counted(&module);
    let mut cache = Tensor::zeros(DType::F32, &[2, 64, 16]).unwrap();
    let at = Tensor::from_values(&[1], &[64i32]).unwrap();
    let row = Tensor::from_values(&[1, 16], &[1f32; 16]).unwrap();
    let error = model.function("main").unwrap().run(
        &[("x", &at), ("y", &row)],
        &mut [("cache", &mut cache)],
        &mut [],
    );
    let said = error.unwrap_err().to_string();
    let begins = format!("graph main: coreai.scatter_nd (op {index}): ");
    assert!(said.starts_with(&begins), "{said}");
}

/// A step as a decoder has it: all positions so far are given, and the output goes into a view.
fn viewed(capacity: usize) -> usize {
    let text = CACHE
        .replace("WRITE", SLICE)
        .replace(
            "%row: ",
            "%seen: tensor<?xsi32> {coreai.name = \"seen\"}, %new_rows: tensor<?x16xf32> {coreai.name = \"z\"}, %row: ",
        )
        .replace(
            "{coreai.name = \"sum\"})",
            "{coreai.name = \"sum\"}, tensor<?x16xf32> {coreai.name = \"twice\"})",
        )
        .replace(
            "coreai.output %t3, %sum : !coreai.token, tensor<1x16xf32>",
            "%twice = \"coreai.add\"(%new_rows, %new_rows) : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>\n\
             coreai.output %t3, %sum, %twice : !coreai.token, tensor<1x16xf32>, tensor<?x16xf32>",
        );
    let module = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let model = counted(&module);
    let function = model.function("main").unwrap();
    let mut cache = Tensor::zeros(DType::F32, &[capacity, 16]).unwrap();
    let mut step = |position: i32, rows: usize, room: usize| {
        let at = Tensor::from_values(&[1], &[position]).unwrap();
        let seen = Tensor::zeros(DType::I32, &[position as usize + rows]).unwrap();
        let new = Tensor::from_values(&[rows, 16], &vec![2f32; rows * 16]).unwrap();
        let row = Tensor::from_values(&[1, 16], &[1.5f32; 16]).unwrap();
        let mut view = Tensor::zeros(DType::F32, &[room, 16]).unwrap();
        let before = BYTES.get();
        let ran = function.run(
            &[("x", &at), ("seen", &seen), ("z", &new), ("y", &row)],
            &mut [("cache", &mut cache)],
            &mut [("twice", &mut view)],
        );
        let used = BYTES.get() - before;
        let held = cache.values::<f32>().unwrap();
        (ran.is_ok(), used, view.values::<f32>().unwrap(), held)
    };
    // A prompt of four rows, then one row a step.
    assert_eq!(step(0, 4, 4).2, [4.0; 64]);
    let mut used = 0;
    for position in 4..8 {
        let (good, bytes, view, _) = step(position, 1, 1);
        assert!(good);
        assert_eq!(view, [4.0; 16]);
        used = bytes;
    }
    // A view of another shape is refused with the state as it was.
    let (good, _, _, held) = step(9, 1, 2);
    assert!(!good);
    assert_eq!(held[9 * 16..10 * 16], [0.0; 16]);
    used
}

#[test]
fn a_step_into_a_view_costs_the_same_whatever_the_capacity_and_leaves_the_state_where_it_fails() {
    let (small, large) = (viewed(64), viewed(1 << 16));
    assert_eq!(small, large);
    assert!(small < 32 << 10, "{small} bytes");
}

/// Sums of exponentials of a row; no value outlives the op that uses it.
const CHAIN: &str = r#"module {
  coreai.graph @main(%x: tensor<1x65536xf32> {coreai.name = "x"}) -> (tensor<1x1xf32> {coreai.name = "y"}) {
    %axis = coreai.constant dense<1> : tensor<1xsi32>
    %a = "coreai.decomposable.broadcasting_add"(%x, %x) : (tensor<1x65536xf32>, tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %b = "coreai.exp"(%x) : (tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %c = "coreai.decomposable.broadcasting_add"(%a, %b) : (tensor<1x65536xf32>, tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %d = "coreai.exp"(%x) : (tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %e = "coreai.decomposable.broadcasting_add"(%c, %d) : (tensor<1x65536xf32>, tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %y = "coreai.reduce_sum"(%e, %axis) : (tensor<1x65536xf32>, tensor<1xsi32>) -> tensor<1x1xf32>
    coreai.output %y : tensor<1x1xf32>
  }
}"#;

#[test]
fn values_take_the_memory_of_those_before_them_and_a_step_that_of_the_last() {
    let module = text::parse(CHAIN).unwrap_or_else(|e| panic!("{e}"));
    let model = Model::from_module(Path::new("chain"), &module).unwrap_or_else(|e| panic!("{e}"));
    let function = model.function("main").unwrap();
    let x = Tensor::from_values(&[1, 65536], &[0f32; 65536]).unwrap();
    let step = || {
        let before = BYTES.get();
        let out = function.run(&[("x", &x)], &mut [], &mut []).unwrap();
        assert_eq!(out[0].1.values::<f32>().unwrap(), [131072.0]);
        BYTES.get() - before
    };
    let one = 4 * 65536;
    let (first, second) = (step(), step());
    // Three values at most exist at a time, not six; memory is asked for before it is taken.
    assert!(first < 2 * 3 * one + (32 << 10), "{first} bytes");
    assert!(second < 32 << 10, "{second} bytes");
}
