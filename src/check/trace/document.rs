//! The document of a trace.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::Deserialize;

use super::{TraceError, AGAIN, MOST, SCHEMA_VERSION};
use crate::check::Hints;

// Keys this version does not know are left alone: what a later recorder adds without a new
// `schema_version` does not change what is read here. A key that every trace has must be there: what
// is missing would count as nothing to compare. `toolchain`, `contract` and `hints` are not compared,
// and may be missing.

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    pub toolchain: BTreeMap<String, Option<String>>,
    pub functions: Vec<Function>,
    pub runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Version {
    schema_version: u64,
}

#[derive(Deserialize)]
struct WithContract {
    #[serde(default)]
    contract: Option<serde_json::Value>,
    #[serde(default)]
    hints: Option<Hints>,
}

/// An entry point as it was traced.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether the module was in training mode.
    pub training: bool,
    /// Every registered buffer.
    pub buffers: Vec<Buffer>,
    /// Every tensor argument.
    pub arguments: Vec<Argument>,
    /// Arguments that are no tensors.
    pub constants: Vec<Constant>,
}

/// A registered buffer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Buffer {
    /// Qualified name.
    pub name: String,
    /// Further qualified names of the same tensor.
    pub aliases: Vec<String>,
    /// torch's name of the element type.
    pub dtype: String,
    /// Extents, outermost first.
    pub shape: Vec<u64>,
    /// Whether any call wrote into it.
    pub written: bool,
}

impl Buffer {
    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// A tensor argument.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Argument {
    /// Path into the parameters of `forward`.
    pub path: String,
    /// torch's name of the element type.
    pub dtype: String,
    /// Whether any call wrote into it.
    pub written: bool,
}

/// An argument that is no tensor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Constant {
    /// Path into the parameters of `forward`.
    pub path: String,
    /// The value, as Python prints it.
    pub value: String,
}

/// What a run starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The values the module was handed over with.
    Registered,
    /// Zeros.
    Zeros,
}

impl Start {
    /// The word in reports and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Start::Registered => "registered",
            Start::Zeros => "zeros",
        }
    }
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Calls one after the other.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// What it starts from.
    pub kind: Start,
    /// By function and qualified name: every written buffer before the first call; `None` for one that
    /// a call registers.
    pub start: BTreeMap<String, BTreeMap<String, Option<Value>>>,
    /// The calls.
    pub calls: Vec<Call>,
}

impl Run {
    /// What a function's buffer holds before the first call.
    pub fn began(&self, function: &str, buffer: &str) -> Option<&Value> {
        self.start.get(function)?.get(buffer)?.as_ref()
    }
}

/// `null`, which has to be there: serde takes a missing key for one.
fn or_null<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(d)
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// The function.
    pub function: String,
    /// Every tensor argument by path, before the call.
    pub inputs: BTreeMap<String, Value>,
    /// The returned leaves, in order.
    pub outputs: Vec<Returned>,
    /// Every written buffer after the call, by qualified name; `None` where the states are too large
    /// to be recorded after every call.
    #[serde(deserialize_with = "or_null")]
    pub buffers: Option<BTreeMap<String, Value>>,
    /// Every written argument after the call, by path; as `buffers`.
    #[serde(deserialize_with = "or_null")]
    pub arguments: Option<BTreeMap<String, Value>>,
    /// Whether the call drew random numbers.
    pub random: bool,
    /// What eager PyTorch said when it refused.
    #[serde(deserialize_with = "or_null")]
    pub error: Option<String>,
}

impl Call {
    /// What a buffer holds after the call.
    pub fn buffer(&self, name: &str) -> Option<&Value> {
        self.buffers.as_ref()?.get(name)
    }

    /// What an argument holds after the call that wrote into it.
    pub fn argument(&self, path: &str) -> Option<&Value> {
        self.arguments.as_ref()?.get(path)
    }
}

/// A returned leaf: a tensor or a constant.
#[derive(Clone, Debug, Deserialize)]
pub struct Returned {
    /// Path below the return value; empty for a single one.
    pub path: String,
    /// The tensor.
    #[serde(default)]
    pub value: Option<Value>,
    /// What is no tensor, as Python prints it.
    #[serde(default)]
    pub constant: Option<String>,
}

/// A tensor of the file, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Value {
    /// Its name in the file.
    pub tensor: String,
    /// torch's name of the element type.
    pub dtype: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

/// The document, the text of the contract in it, and the hints.
pub(super) fn read(
    path: &Path,
    text: &str,
) -> Result<(Document, Option<String>, Hints), TraceError> {
    // The version first: another format has other keys, and the useful thing to say is the version.
    let Version { schema_version } = parse(path, text)?;
    if schema_version != u64::from(SCHEMA_VERSION) {
        return Err(TraceError::file(
            path,
            format!(
                "is a trace of version {schema_version}; this version reads {SCHEMA_VERSION}: record it again"
            ),
        ));
    }
    let document: Document = parse(path, text)?;
    let WithContract { contract, hints } = parse(path, text)?;
    let calls = document.runs.iter().map(|r| r.calls.len()).sum::<usize>();
    if document.functions.len().max(document.runs.len()).max(calls) > MOST {
        return Err(TraceError::file(
            path,
            format!("has more than {MOST} calls"),
        ));
    }
    let contract = contract.filter(|c| !c.is_null());
    let contract = contract.map(|c| c.to_string());
    Ok((document, contract, hints.unwrap_or_default()))
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, TraceError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let wrong = |key: String, e: serde_json::Error| {
        let message = e.to_string();
        let position = format!(" at line {} column {}", e.line(), e.column());
        let what = message.strip_suffix(&position).unwrap_or(&message);
        let missing = what.strip_prefix("missing field `");
        let what = match missing.and_then(|m| m.strip_suffix('`')) {
            Some(field) => format!("there is no {field:?}, which every trace has; {AGAIN}"),
            None => what.to_string(),
        };
        TraceError::Document {
            path: path.into(),
            line: e.line().max(1),
            column: e.column(),
            key,
            what,
        }
    };
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|e| wrong(e.path().to_string(), e.into_inner()))?;
    json.end().map_err(|e| wrong(String::new(), e))?;
    Ok(value)
}
