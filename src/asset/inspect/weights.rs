//! The constants of a program.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::contract::{dtype_name, Dim};
use crate::ir::{Attr, Dense, Element, Module, Payload};

/// The largest constants are listed, so many of them.
const LISTED: usize = 20;

/// The constants of the graphs; those of stored definitions are the dialect's, not the model's.
#[derive(Debug, Default, Serialize)]
pub struct Weights {
    /// Constants, shared ones once.
    pub constants: usize,
    /// Bytes they take in the file.
    pub bytes: u64,
    /// By element type.
    pub by_dtype: BTreeMap<String, DtypeWeights>,
    /// The largest, largest first; at most twenty.
    pub largest: Vec<Constant>,
    /// Constants with elements below eight bits that take a byte each. The vendor's interpreter reads
    /// past their end.
    pub unpacked: Vec<Constant>,
}

/// The constants of one element type.
#[derive(Debug, Default, Serialize)]
pub struct DtypeWeights {
    /// How many.
    pub constants: usize,
    /// Bytes in the file.
    pub bytes: u64,
}

/// One constant.
#[derive(Clone, Debug, Serialize)]
pub struct Constant {
    /// The graph it is in, first where several share it.
    pub graph: String,
    /// Number of its op in the graph.
    pub op: usize,
    /// Element type.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<Dim>,
    /// Bytes in the file.
    pub bytes: u64,
    /// Where they are.
    pub storage: Storage,
}

/// Where the bytes of a constant are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// Among the attributes.
    Inline,
    /// In the resource section.
    Resource,
}

/// Measures all constants of the graphs.
pub(super) fn measure(module: &Module) -> Weights {
    let mut weights = Weights::default();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for graph in &module.graphs {
        for (id, op) in graph.body.walk() {
            let Some(Attr::Dense(data)) = op.attrs.get("value") else {
                continue;
            };
            let Some(tensor) = data.tensor() else {
                continue;
            };
            let (bytes, storage) = match &data.payload {
                Payload::Splat(b) | Payload::Elements(b) => (b.len() as u64, Storage::Inline),
                Payload::Resource {
                    data: Some(blob), ..
                } => {
                    if !seen.insert(blob.range()) {
                        continue;
                    }
                    (blob.bytes().len() as u64, Storage::Resource)
                }
                _ => continue,
            };
            let constant = Constant {
                graph: graph.name.to_string(),
                op: id.0 as usize,
                dtype: dtype_name(tensor.element),
                shape: tensor.dims.clone(),
                bytes,
                storage,
            };
            weights.constants += 1;
            weights.bytes += bytes;
            let of_dtype = weights.by_dtype.entry(constant.dtype.clone()).or_default();
            of_dtype.constants += 1;
            of_dtype.bytes += bytes;
            if is_unpacked(data, tensor.element) {
                weights.unpacked.push(constant.clone());
            }
            all.push(constant);
        }
    }
    all.sort_by_key(|c| std::cmp::Reverse(c.bytes));
    all.truncate(LISTED);
    weights.largest = all;
    weights
}

/// A resource of sub-byte elements that has a byte for each.
fn is_unpacked(data: &Dense, element: Element) -> bool {
    let Payload::Resource {
        data: Some(blob), ..
    } = &data.payload
    else {
        return false;
    };
    let width = u64::from(element.width());
    let count = data.tensor().and_then(|t| t.elements());
    let stored = blob.range().len() as u64;
    let packed = count
        .and_then(|n| n.checked_mul(width))
        .map(|bits| bits.div_ceil(8));
    width < 8 && element != Element::Bool && count == Some(stored) && packed != Some(stored)
}
