//! What the two processes say to each other: one JSON document a line.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::{Dim, FunctionSignature};
use crate::manifest::Model;

/// One model to convert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The recipe's Python file.
    pub recipe: String,
    /// The function in it.
    pub function: String,
    /// Where the asset is written; ends in `.aimodel`. A temporary name: the caller renames it.
    pub asset: String,
    /// Keep stack traces of the author's code in the asset.
    pub debug_info: bool,
    /// Where the reference trace is written, if it is wanted.
    #[serde(default)]
    pub reference: Option<String>,
    /// How often the example is called for it where the recipe gives no calls.
    #[serde(default)]
    pub steps: Option<u32>,
}

impl Request {
    /// The conversion of `model` into `asset`, without a reference trace; paths are made absolute,
    /// because a recipe may change the worker's folder.
    pub fn new(model: &Model, asset: &Path, debug_info: bool) -> Request {
        let absolute = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            path.to_string_lossy().into_owned()
        };
        Request {
            recipe: absolute(&model.file),
            function: model.function.clone(),
            asset: absolute(asset),
            debug_info,
            reference: None,
            steps: model.steps,
        }
    }

    /// The same with a reference trace at `path`.
    pub fn with_reference(mut self, path: &Path) -> Request {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.reference = Some(path.to_string_lossy().into_owned());
        self
    }
}

/// The stages of a conversion, in the order they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The worker starts and imports torch and the converter.
    Start,
    /// The recipe function runs.
    Recipe,
    /// The module is called twice in eager mode.
    Observe,
    /// The reference trace is recorded in eager mode.
    Reference,
    /// `torch.export.export`.
    Export,
    /// `run_decompositions`.
    Decompose,
    /// `TorchConverter`.
    Convert,
    /// The separate optimise step of coreai-torch 0.4.0 to 0.4.2.
    Optimize,
    /// The emitted IR is printed.
    Print,
    /// The asset is written.
    Save,
    /// coreai-core's runtime descriptor is read.
    Describe,
    /// The asset is run against the reference trace; not in the worker.
    Check,
}

impl Step {
    /// The name in reports and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Recipe => "recipe",
            Step::Observe => "observe",
            Step::Reference => "reference",
            Step::Export => "export",
            Step::Decompose => "decompose",
            Step::Convert => "convert",
            Step::Optimize => "optimize",
            Step::Print => "print",
            Step::Save => "save",
            Step::Describe => "describe",
            Step::Check => "check",
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the worker reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// Imports are done.
    Ready { versions: serde_json::Value },
    /// A stage begins.
    Step { step: Step },
    /// What is known of the functions.
    Facts {
        functions: Vec<FunctionSignatureJson>,
    },
    /// The reference trace stands at the requested path.
    Reference,
    /// The emitted IR, MLIR generic form.
    Ir { text: String },
    /// coreai-core's own reading of the saved asset.
    Descriptor { functions: Vec<DescriptorFunction> },
    /// The asset stands at the requested path.
    Saved,
    /// The files that the recipe was made from, as far as they are known.
    Files { files: Vec<PathBuf> },
    /// A Python exception ended the request; the worker lives on.
    Failed { error: PythonError },
    /// The request is done.
    Done,
}

/// Kept as raw JSON by the worker, typed by the reader.
pub(crate) type FunctionSignatureJson = serde_json::Value;

/// The functions of the runtime descriptor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Descriptor {
    /// Function names as the runtime lists them; private helpers may be among them.
    pub functions: Vec<DescriptorFunction>,
}

/// One function of the runtime descriptor, ports in descriptor order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescriptorFunction {
    /// Its name.
    pub name: String,
    /// Inputs.
    pub inputs: Vec<DescriptorPort>,
    /// States.
    pub states: Vec<DescriptorPort>,
    /// Outputs.
    pub outputs: Vec<DescriptorPort>,
}

/// One port of the runtime descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescriptorPort {
    /// Its name.
    pub name: String,
    /// `None` for an image.
    pub dtype: Option<String>,
    /// Extents; `None` where the runtime reports -1.
    pub shape: Option<Vec<Dim>>,
}

/// A Python exception.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PythonError {
    /// `usage` (the recipe), `missing-package` or `python`.
    pub kind: String,
    /// Class of the exception.
    #[serde(rename = "type")]
    pub class: String,
    /// Its text, causes included.
    pub message: String,
    /// The package that is missing.
    #[serde(default)]
    pub module: Option<String>,
    /// Where it was raised, outermost first.
    pub frames: Vec<Frame>,
}

/// One frame of a Python traceback.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Source file.
    pub file: String,
    /// 1-based line.
    pub line: Option<u32>,
    /// Function name.
    pub function: String,
    /// The line's text.
    pub code: Option<String>,
    /// The user's own code, not a library's.
    pub user: bool,
}

/// Reads the functions of a `Facts` event.
pub(crate) fn functions(
    values: Vec<FunctionSignatureJson>,
) -> Result<Vec<FunctionSignature>, serde_json::Error> {
    values.into_iter().map(serde_json::from_value).collect()
}
