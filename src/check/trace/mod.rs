//! The reference trace: what PyTorch computed, in one safetensors file (`docs/trace.md`).
//!
//! The file is mapped and its tensors are views into the map. It is untrusted: everything the document
//! says of a tensor is compared with the tensor when the file is opened, so that later reads cannot
//! fail for that reason.

mod document;
mod error;
mod rewrite;

pub use document::{Argument, Buffer, Call, Constant, Function, Returned, Run, Start, Value};
pub use error::TraceError;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::Document;
use safetensors::tensor::{Dtype, Metadata};
use safetensors::SafeTensors;

use super::options::Hints;
use crate::contract::{self, Contract};
use crate::runtime::{DType, Tensor};

/// The key of the document in the file's metadata.
pub const KEY: &str = "coreai-audit.trace";
/// What to do about a trace that lacks something.
pub(super) const AGAIN: &str = "record it again with `coreai-audit convert --trace`";
/// Version of the document this crate reads.
pub const SCHEMA_VERSION: u32 = 1;
/// Most functions, runs, calls in a run, and entries in any list or map of the document.
const MOST: usize = 1 << 20;

/// A tensor of the file.
#[derive(Clone, Debug)]
struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

/// A trace, opened.
#[derive(Clone)]
pub struct Trace {
    path: PathBuf,
    map: Arc<memmap2::Mmap>,
    entries: HashMap<String, Entry>,
    document: Document,
    contract: Option<Contract>,
    hints: Hints,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("path", &self.path)
            .field("runs", &self.document.runs.len())
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens a trace and compares all that its document says with the tensors in the file.
    ///
    /// # Errors
    /// [`TraceError`], with the file and the key in the document.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let io = |source| TraceError::Io {
            path: path.into(),
            source,
        };
        let about = std::fs::metadata(path).map_err(io)?;
        if !about.is_file() {
            return Err(TraceError::file(path, "is no file; expected a trace"));
        }
        if about.len() == 0 {
            return Err(TraceError::file(path, "is empty; expected a trace"));
        }
        let file = File::open(path).map_err(io)?;
        let map = crate::files::map(&file).map_err(io)?;
        Trace::over(path, map)
    }

    fn over(path: &Path, map: memmap2::Mmap) -> Result<Trace, TraceError> {
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|e| TraceError::file(path, format!("is no safetensors file: {e}")))?;
        let text = metadata
            .metadata()
            .as_ref()
            .and_then(|m| m.get(KEY))
            .ok_or_else(|| {
                TraceError::file(
                    path,
                    format!("has no {KEY} in its metadata; record one with `coreai-audit convert --trace`"),
                )
            })?;
        let (document, contract, hints) = document::read(path, text)?;
        let contract = contract
            .map(|c| contract::parse(&c, &format!("{}: contract", path.display())))
            .transpose()
            .map_err(|e| TraceError::Contract {
                path: path.into(),
                source: Box::new(e),
            })?;
        // The numbers count from behind the header, whose length is written in eight bytes.
        let entries = entries(&metadata, header + 8);
        let trace = Trace {
            path: path.into(),
            map: Arc::new(map),
            entries,
            document,
            contract,
            hints,
        };
        trace.check()?;
        Ok(trace)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The functions that were traced, in the order of the asset.
    pub fn functions(&self) -> &[Function] {
        &self.document.functions
    }

    /// What is known of the exported program; empty where the recorder did not say.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The function with this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.document.functions.iter().find(|f| f.name == name)
    }

    /// The runs.
    pub fn runs(&self) -> &[Run] {
        &self.document.runs
    }

    /// Versions of what recorded it.
    pub fn toolchain(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.document.toolchain.iter();
        all.filter_map(|(name, version)| Some((name.as_str(), version.as_deref()?)))
    }

    /// The contract of the asset that was converted from the same recipe, where it is recorded.
    pub fn contract(&self) -> Option<&Contract> {
        self.contract.as_ref()
    }

    /// The contents of a tensor, in torch's dtype; a copy.
    ///
    /// # Errors
    /// [`TraceError::Value`] for a dtype no asset can hold, and when memory is not to be had.
    pub fn tensor(&self, value: &Value) -> Result<Tensor, TraceError> {
        let wrong = |what: String| TraceError::Value {
            path: self.path.clone(),
            key: format!("tensor {}", value.tensor),
            what,
        };
        let dtype = torch_dtype(&value.dtype)
            .ok_or_else(|| wrong(format!("{} is no dtype an asset can hold", value.dtype)))?;
        Tensor::from_bytes(dtype, &value.shape, self.bytes(value)).map_err(|e| wrong(e.to_string()))
    }

    /// The bytes of a tensor, row-major.
    pub fn bytes(&self, value: &Value) -> &[u8] {
        let entry = self.entries.get(&value.tensor);
        entry
            .and_then(|e| self.map.get(e.start..e.end))
            .unwrap_or_default()
    }

    /// Whether two tensors are the same bit for bit, dtype and shape included.
    pub fn same(&self, a: &Value, b: &Value) -> bool {
        a.dtype == b.dtype
            && a.shape == b.shape
            && (a.tensor == b.tensor || self.bytes(a) == self.bytes(b))
    }

    /// Compares the document with the tensors and with itself.
    fn check(&self) -> Result<(), TraceError> {
        let document = &self.document;
        let mut names = HashSet::new();
        let wrong = |key: String, what: String| TraceError::Value {
            path: self.path.clone(),
            key,
            what,
        };
        for (i, function) in document.functions.iter().enumerate() {
            if !names.insert(function.name.as_str()) {
                let what = format!("two functions are called {:?}", function.name);
                return Err(wrong(format!("functions[{i}].name"), what));
            }
        }
        let known = |name: &str| names.contains(name);
        // Nothing compared is no parity.
        if document.runs.iter().all(|r| r.calls.is_empty()) {
            return Err(TraceError::file(
                &self.path,
                "records no call, so there is nothing to compare with; record one with `coreai-audit convert --trace`",
            ));
        }
        for (r, run) in document.runs.iter().enumerate() {
            if document.runs[..r.min(2)].iter().any(|o| o.kind == run.kind) {
                let what = format!("two runs start from {}", run.kind);
                return Err(wrong(format!("runs[{r}].kind"), what));
            }
            for (function, buffers) in &run.start {
                if !known(function) {
                    let what = format!("no function is called {function:?}");
                    return Err(wrong(format!("runs[{r}].start"), what));
                }
                for (name, value) in buffers {
                    if let Some(value) = value {
                        self.fits(value, || format!("runs[{r}].start[{function:?}][{name:?}]"))?;
                    }
                }
            }
            self.whole(run, r)?;
            for (c, call) in run.calls.iter().enumerate() {
                if !known(&call.function) {
                    let what = format!("no function is called {:?}", call.function);
                    return Err(wrong(format!("runs[{r}].calls[{c}].function"), what));
                }
                let lists = [
                    ("inputs", Some(&call.inputs)),
                    ("buffers", call.buffers.as_ref()),
                    ("arguments", call.arguments.as_ref()),
                ];
                for (list, values) in lists {
                    for (name, value) in values.into_iter().flatten() {
                        self.fits(value, || format!("runs[{r}].calls[{c}].{list}[{name:?}]"))?;
                    }
                }
                for (o, returned) in call.outputs.iter().enumerate() {
                    if returned.value.is_some() == returned.constant.is_some() {
                        let what =
                            format!("has to have either a \"value\" or a \"constant\"; {AGAIN}");
                        return Err(wrong(format!("runs[{r}].calls[{c}].outputs[{o}]"), what));
                    }
                    if let Some(value) = &returned.value {
                        self.fits(value, || format!("runs[{r}].calls[{c}].outputs[{o}]"))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a run has every buffer that its functions say they write: one that is missing would
    /// count as one there is nothing to compare with.
    fn whole(&self, run: &Run, r: usize) -> Result<(), TraceError> {
        let missing = |key: String, name: &str| TraceError::Value {
            path: self.path.clone(),
            key,
            what: format!("there is no {name:?}; {AGAIN}"),
        };
        for function in &self.document.functions {
            let at = || format!("runs[{r}].start");
            let Some(start) = run.start.get(&function.name) else {
                return Err(missing(at(), &function.name));
            };
            for buffer in function.buffers.iter().filter(|b| b.written) {
                let Some(began) = buffer.names().find_map(|n| start.get(n)) else {
                    let key = format!("{}[{:?}]", at(), function.name);
                    return Err(missing(key, &buffer.name));
                };
                // Where a call registers it, the calls before have none.
                let calls = run.calls.iter().enumerate();
                for (c, call) in calls.filter(|(_, c)| c.function == function.name) {
                    let Some(held) = call.buffers.as_ref().filter(|_| began.is_some()) else {
                        continue;
                    };
                    if !buffer.names().any(|n| held.contains_key(n)) {
                        let key = format!("runs[{r}].calls[{c}].buffers");
                        return Err(missing(key, &buffer.name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the tensor is there and is what the document says.
    fn fits(&self, value: &Value, key: impl Fn() -> String) -> Result<(), TraceError> {
        let wrong = |what: String| TraceError::Value {
            path: self.path.clone(),
            key: key(),
            what,
        };
        let entry = self
            .entries
            .get(&value.tensor)
            .ok_or_else(|| wrong(format!("there is no tensor {:?} in the file", value.tensor)))?;
        let (stored, extra) = stored_as(&value.dtype)
            .ok_or_else(|| wrong(format!("{:?} is no dtype of torch's", value.dtype)))?;
        let shape: Vec<usize> = value.shape.iter().copied().chain(extra).collect();
        // A boolean may be stored as a byte, a half in pairs of bytes; the bits count.
        if entry.dtype != stored || entry.shape != shape {
            return Err(wrong(format!(
                "says {} {:?}, which is stored as {stored:?} {shape:?}; tensor {:?} is {:?} {:?}",
                value.dtype, value.shape, value.tensor, entry.dtype, entry.shape
            )));
        }
        if stored == Dtype::BOOL && self.bytes(value).iter().any(|b| *b > 1) {
            return Err(wrong("a boolean is stored as 0 or 1".into()));
        }
        Ok(())
    }
}

fn entries(metadata: &Metadata, data: usize) -> HashMap<String, Entry> {
    let entry = |info: &safetensors::tensor::TensorInfo| Entry {
        dtype: info.dtype,
        shape: info.shape.clone(),
        start: data.saturating_add(info.data_offsets.0),
        end: data.saturating_add(info.data_offsets.1),
    };
    let tensors = metadata.tensors();
    tensors.iter().map(|(n, i)| (n.clone(), entry(i))).collect()
}

/// How a dtype of torch's is stored: the type, and the extent appended for the parts of a complex.
fn stored_as(dtype: &str) -> Option<(Dtype, Option<usize>)> {
    Some(match dtype {
        "float32" => (Dtype::F32, None),
        "float64" => (Dtype::F64, None),
        "float16" => (Dtype::F16, None),
        "bfloat16" => (Dtype::BF16, None),
        "int8" => (Dtype::I8, None),
        "int16" => (Dtype::I16, None),
        "int32" => (Dtype::I32, None),
        "int64" => (Dtype::I64, None),
        "uint8" => (Dtype::U8, None),
        "uint16" => (Dtype::U16, None),
        "uint32" => (Dtype::U32, None),
        "uint64" => (Dtype::U64, None),
        "bool" => (Dtype::BOOL, None),
        "complex32" => (Dtype::F16, Some(2)),
        "complex64" => (Dtype::F32, Some(2)),
        "complex128" => (Dtype::F64, Some(2)),
        other if other.starts_with("float8_") => (Dtype::U8, None),
        _ => return None,
    })
}

/// The element type of a dtype of torch's; `None` where no asset can hold it.
pub fn torch_dtype(dtype: &str) -> Option<DType> {
    Some(match dtype {
        "complex32" => DType::C16,
        "complex64" => DType::C32,
        "complex128" => DType::C64,
        "float8_e5m2" => DType::F8E5M2,
        "float8_e4m3fn" => DType::F8E4M3,
        "float8_e8m0fnu" => DType::F8E8M0,
        other => DType::from_name(other)?,
    })
}

#[cfg(test)]
mod tests;
