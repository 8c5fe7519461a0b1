//! A step that copies its whole cache allocates as much as the cache holds, and the check names it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use coreai_audit::check::{check_module, Options, ProtocolKind, Report, Trace};
use coreai_audit::contract;
use coreai_audit::ir::{text, Module};
use coreai_audit::runtime::{DType, Model, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;

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

/// A row of 2 is written at `x` into a cache of any number of rows, then those up to it are summed.
const IN_PLACE: &str = include_str!("check/cache.mlir");
const ROWS: usize = 1 << 16;

/// The same, but into what the cache is times one.
fn copying() -> String {
    let times_one = "%unit = coreai.constant dense<1.000000e+00> : tensor<f32>\n    \
        %all_of_it = \"coreai.decomposable.broadcasting_mul\"(%old, %unit) : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>\n    \
        %new = \"coreai.slice_update\"(%all_of_it,";
    let text = IN_PLACE.replace("%new = \"coreai.slice_update\"(%old,", times_one);
    assert_ne!(text, IN_PLACE);
    text
}

fn module(text: &str) -> Module {
    text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes the second step allocates.
fn allocated(text: &str) -> usize {
    let model = Model::from_module(Path::new("cache"), &module(text))
        .unwrap()
        .with_kept_memory(0);
    let function = model.function("main").unwrap();
    let row = Tensor::from_values(&[1, 2], &[1f32; 2]).unwrap();
    let mut cache = Tensor::zeros(DType::F32, &[ROWS, 2]).unwrap();
    let mut used = 0;
    for at in 0..2i32 {
        let at = Tensor::from_values(&[1], &[at]).unwrap();
        let before = BYTES.get();
        let given = [("x", &at), ("y", &row)];
        function
            .run(&given, &mut [("cache", &mut cache)], &mut [])
            .unwrap();
        used = BYTES.get() - before;
    }
    used
}

/// What PyTorch has when rows of ones are written at 0 and 1.
fn trace(folder: &Path) -> Trace {
    let mut tensors: Vec<(Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    let mut floats = |shape: &[usize], values: &[f32]| {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        tensors.push((Dtype::F32, shape.to_vec(), bytes));
        json!({"tensor": (tensors.len() - 1).to_string(), "dtype": "float32", "shape": shape})
    };
    let mut cache = vec![0f32; ROWS * 2];
    let start = floats(&[ROWS, 2], &cache);
    let mut calls = Vec::new();
    for at in 0..2usize {
        cache[at * 2..at * 2 + 2].fill(1.0);
        calls.push(json!({
            "function": "main",
            "inputs": {"x": {"tensor": format!("x{at}"), "dtype": "int32", "shape": [1]}, "y": floats(&[1, 2], &[1.0; 2])},
            "outputs": [{"path": "", "value": floats(&[1, 2], &[at as f32 + 1.0; 2])}],
            "buffers": {"cache": floats(&[ROWS, 2], &cache)},
            "arguments": {}, "random": false, "error": null,
        }));
    }
    let argument = |path: &str| json!({"path": path, "dtype": "float32", "written": false});
    let document = json!({
        "schema_version": 1, "toolchain": {}, "contract": null,
        "functions": [{
            "name": "main", "training": false, "constants": [], "arguments": [argument("x"), argument("y")],
            "buffers": [{"name": "cache", "aliases": [], "dtype": "float32", "shape": [ROWS, 2], "written": true}],
        }],
        "runs": [{"kind": "registered", "start": {"main": {"cache": start}}, "calls": calls}],
    });
    let places = [0i32.to_le_bytes(), 1i32.to_le_bytes()];
    let mut views: Vec<(String, TensorView<'_>)> = tensors
        .iter()
        .enumerate()
        .map(|(i, (dtype, shape, bytes))| {
            (
                i.to_string(),
                TensorView::new(*dtype, shape.clone(), bytes).unwrap(),
            )
        })
        .collect();
    for (i, place) in places.iter().enumerate() {
        views.push((
            format!("x{i}"),
            TensorView::new(Dtype::I32, vec![1], place).unwrap(),
        ));
    }
    let metadata = [("coreai-audit.trace".to_string(), document.to_string())].into();
    let path = folder.join("trace.safetensors");
    std::fs::write(
        &path,
        safetensors::serialize(views, Some(metadata)).unwrap(),
    )
    .unwrap();
    Trace::open(&path).unwrap_or_else(|e| panic!("{e}"))
}

fn checked(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let module = module(text);
    let contract = contract::extract(&module).contract;
    let options = Options {
        protocols: vec![ProtocolKind::Copies],
        ..Options::default()
    };
    let trace = trace(folder.path());
    check_module(
        Path::new("cache"),
        &module,
        &contract,
        &trace,
        &options,
        &mut (),
    )
    .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_cache_that_is_copied_in_every_step_is_named_and_one_written_in_place_is_not() {
    let size = ROWS * 2 * 4;
    assert!(allocated(IN_PLACE) < size / 2);
    assert!(allocated(&copying()) >= size);
    let good = checked(IN_PLACE);
    assert!(
        good.parity_holds() && good.findings.is_empty(),
        "{:#?}",
        good.findings
    );
    let bad = checked(&copying());
    assert!(bad.parity_holds(), "{:#?}", bad.findings);
    let told: Vec<(&str, &str)> = bad
        .findings
        .iter()
        .map(|f| (f.id.as_ref(), f.message.as_str()))
        .collect();
    assert_eq!(
        told,
        [(
            "cache-copied-per-step",
            "cache is copied as a whole in every step, although only some rows change"
        )]
    );
    assert_eq!(
        bad.findings[0].evidence,
        ["cache: 2 of 2 writes change some rows of axis 0 and move all 524288 bytes"]
    );
}
