//! Traces made by hand.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{json, Value as Json};

use super::trace::{Trace, KEY};

/// A trace with one function and one run, of float32 values unless told otherwise.
pub(crate) struct Traced {
    name: String,
    buffers: Vec<Json>,
    arguments: Vec<Json>,
    start: BTreeMap<String, Json>,
    calls: Vec<Json>,
    tensors: Vec<(Dtype, Vec<usize>, Vec<u8>)>,
}

/// A call, before its tensors have names.
#[derive(Clone)]
pub(crate) struct Made {
    function: String,
    inputs: Vec<(String, Raw)>,
    outputs: Vec<(String, Raw)>,
    buffers: Vec<(String, Raw)>,
    arguments: Vec<(String, Raw)>,
    random: bool,
    error: Option<String>,
}

/// A tensor: torch's dtype, how it is stored, shape and bytes.
#[derive(Clone)]
pub(crate) struct Raw(pub &'static str, pub Dtype, pub Vec<usize>, pub Vec<u8>);

fn floats(shape: &[usize], values: &[f32]) -> Raw {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Raw("float32", Dtype::F32, shape.to_vec(), bytes)
}

/// An int64 tensor.
pub(crate) fn longs(shape: &[usize], values: &[i64]) -> Raw {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Raw("int64", Dtype::I64, shape.to_vec(), bytes)
}

pub(crate) fn call(function: &str) -> Made {
    Made {
        function: function.into(),
        inputs: vec![],
        outputs: vec![],
        buffers: vec![],
        arguments: vec![],
        random: false,
        error: None,
    }
}

impl Made {
    pub fn input(self, name: &str, shape: &[usize], values: &[f32]) -> Made {
        self.given(name, floats(shape, values))
    }

    pub fn given(mut self, name: &str, raw: Raw) -> Made {
        self.inputs.push((name.into(), raw));
        self
    }

    pub fn output(self, path: &str, shape: &[usize], values: &[f32]) -> Made {
        self.returned(path, floats(shape, values))
    }

    pub fn returned(mut self, path: &str, raw: Raw) -> Made {
        self.outputs.push((path.into(), raw));
        self
    }

    pub fn buffer(self, name: &str, shape: &[usize], values: &[f32]) -> Made {
        self.left(name, floats(shape, values))
    }

    pub fn left(mut self, name: &str, raw: Raw) -> Made {
        self.buffers.push((name.into(), raw));
        self
    }
}

impl Traced {
    pub fn new(name: &str) -> Traced {
        Traced {
            name: name.into(),
            buffers: vec![],
            arguments: vec![],
            start: BTreeMap::new(),
            calls: vec![],
            tensors: vec![],
        }
    }

    /// A buffer that no call writes.
    pub fn kept_buffer(&mut self, name: &str, shape: &[usize]) {
        self.buffers.push(
            json!({"name": name, "aliases": [], "dtype": "float32", "shape": shape, "written": false}),
        );
    }

    /// A written buffer and its registered value.
    pub fn buffer(&mut self, name: &str, shape: &[usize], start: &[f32]) {
        self.buffer_of(name, floats(shape, start));
    }

    pub fn buffer_of(&mut self, name: &str, raw: Raw) {
        self.buffers.push(
            json!({"name": name, "aliases": [], "dtype": raw.0, "shape": raw.2, "written": true}),
        );
        let value = self.tensor(raw);
        self.start.insert(name.into(), value);
    }

    pub fn argument(&mut self, path: &str) {
        self.arguments
            .push(json!({"path": path, "dtype": "float32", "written": false}));
    }

    pub fn call(&mut self, made: Made) {
        // Without any, they were not recorded, as where they are too large.
        let unrecorded = made.buffers.is_empty() && !self.buffers.is_empty();
        let mut map = |list: Vec<(String, Raw)>| {
            let named = list.into_iter().map(|(n, r)| (n, self.tensor(r)));
            Json::Object(named.collect())
        };
        let (inputs, buffers, arguments) =
            (map(made.inputs), map(made.buffers), map(made.arguments));
        let buffers = if unrecorded { Json::Null } else { buffers };
        let outputs = made.outputs.into_iter();
        let outputs: Vec<Json> = outputs
            .map(|(path, raw)| json!({"path": path, "value": self.tensor(raw)}))
            .collect();
        self.calls.push(json!({
            "function": made.function, "inputs": inputs, "outputs": outputs, "buffers": buffers,
            "arguments": arguments, "random": made.random, "error": made.error,
        }));
    }

    fn tensor(&mut self, Raw(dtype, stored, shape, bytes): Raw) -> Json {
        let value =
            json!({"tensor": self.tensors.len().to_string(), "dtype": dtype, "shape": shape});
        self.tensors.push((stored, shape, bytes));
        value
    }

    /// The document, as it stands in the file.
    pub fn document(&self) -> String {
        json!({
            "schema_version": 1,
            "toolchain": {"torch": "2.13.0"},
            "functions": [{"name": self.name, "training": false, "buffers": self.buffers, "arguments": self.arguments, "constants": []}],
            "runs": [{"kind": "registered", "start": {self.name.clone(): self.start}, "calls": self.calls}],
            "contract": null,
        })
        .to_string()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_with(&self.document())
    }

    pub fn bytes_with(&self, document: &str) -> Vec<u8> {
        let views = self
            .tensors
            .iter()
            .enumerate()
            .map(|(i, (dtype, shape, bytes))| {
                let view = TensorView::new(*dtype, shape.clone(), bytes).unwrap();
                (i.to_string(), view)
            });
        let metadata = [(KEY.to_string(), document.to_string())].into();
        safetensors::serialize(views, Some(metadata)).unwrap()
    }

    /// Writes it into a folder and opens it.
    pub fn open(&self, folder: &Path) -> Trace {
        let path = folder.join("trace.safetensors");
        std::fs::write(&path, self.bytes()).unwrap();
        Trace::open(&path).unwrap_or_else(|e| panic!("{e}"))
    }
}
