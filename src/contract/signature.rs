//! The graph signature of an exported program: the reading that knows what each port *is*.
//!
//! The converter worker sends it as JSON, one [`FunctionSignature`] per entry point. Node names are the
//! tracer's and serve only to join the lists with each other; they are never part of a contract.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Dim;

/// What the worker knows of one entry point; the later fields are filled as its stages finish.
#[derive(Clone, Debug, Deserialize)]
pub struct FunctionSignature {
    /// Entry-point name.
    pub name: String,
    /// Export mode; `None` for a program somebody else exported.
    pub strict: Option<bool>,
    /// Whether the program is exported in training mode.
    #[serde(default)]
    pub training: bool,
    /// Names given in the recipe.
    pub names: GivenNames,
    /// Every registered buffer of the module, aliases included.
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    /// Groups of names of one and the same buffer (other buffers, attributes that hold it).
    #[serde(default)]
    pub aliases: Vec<Vec<String>>,
    /// Groups of buffers and attributes that are different tensors over the same memory.
    #[serde(default)]
    pub storages: Vec<Vec<String>>,
    /// Groups of example arguments that are one and the same tensor.
    #[serde(default)]
    pub shared_arguments: Vec<Vec<String>>,
    /// What two eager calls changed.
    #[serde(default)]
    pub observed: Option<Observed>,
    /// Why there is no reference trace, if there is none although it was asked for.
    #[serde(default)]
    pub no_reference: Option<String>,
    /// Chains of casts from a floating type to an integer one and back, in the program as exported.
    #[serde(default)]
    pub casts: Vec<CastPair>,
    /// Ops that draw random numbers, in the program as exported.
    #[serde(default)]
    pub random: Vec<RandomOp>,
    /// Buffers and arguments that the exported program writes in place, before decomposition.
    #[serde(default)]
    pub written: Vec<Written>,
    /// Placeholders and outputs, once the program is decomposed.
    #[serde(default)]
    pub program: Option<Program>,
}

/// An op that draws random numbers.
#[derive(Clone, Debug, Deserialize)]
pub struct RandomOp {
    /// The op, with what makes it random: `scaled_dot_product_attention, dropout_p 0.5`.
    pub what: String,
    /// Where the author's code calls it.
    #[serde(default)]
    pub site: Option<Site>,
}

/// A value that goes from a floating type through an integer one back to a floating type.
#[derive(Clone, Debug, Deserialize)]
pub struct CastPair {
    /// The first type, by torch's name.
    pub from: String,
    /// The integer type.
    pub via: String,
    /// The last type.
    pub to: String,
    /// Where the author's code casts back.
    #[serde(default)]
    pub site: Option<Site>,
}

/// The recipe's names; `None` where it left them to the tracer.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GivenNames {
    /// Names of the arguments that are not mutated.
    pub inputs: Option<Vec<String>>,
    /// Names of the returned values.
    pub outputs: Option<Vec<String>>,
    /// Names of mutated buffers, then of mutated arguments.
    pub states: Option<Vec<String>>,
}

/// A registered buffer.
#[derive(Clone, Debug, Deserialize)]
pub struct Buffer {
    /// The same for every name of one tensor, across the entry points of a recipe.
    pub key: String,
    /// Qualified name.
    pub name: String,
    /// torch's dtype name (`int64`).
    pub dtype: String,
    /// Extents; `None` where symbolic.
    pub shape: Vec<Dim>,
}

/// The inputs and outputs of the decomposed program, each in graph order.
#[derive(Clone, Debug, Deserialize)]
pub struct Program {
    /// Parameters, buffers, constants and user inputs.
    pub placeholders: Vec<Placeholder>,
    /// Mutations, then what `forward` returns.
    pub outputs: Vec<Output>,
    /// Every ATen op of the program with the place in the user's code that first needs it.
    #[serde(default)]
    pub ops: BTreeMap<String, Site>,
    /// Every ATen op with the number of its calls.
    #[serde(default)]
    pub histogram: BTreeMap<String, u64>,
}

/// One placeholder.
#[derive(Clone, Debug, Deserialize)]
pub struct Placeholder {
    /// The tracer's node name.
    pub node: Option<String>,
    /// `buffer`, `parameter`, `constant_tensor`, `user_input`, …
    pub kind: String,
    /// Qualified name of a buffer or parameter.
    pub target: Option<String>,
    /// Whether the program reads it.
    #[serde(default)]
    pub used: bool,
    /// torch's dtype name; `None` for a value that is no tensor.
    pub dtype: Option<String>,
    /// Extents; `None` where symbolic.
    pub shape: Option<Vec<Dim>>,
    /// The Python value that was baked in, where the example holds no tensor.
    pub constant: Option<String>,
    /// Path of a user input below `forward`'s arguments (`cache['k']`).
    #[serde(default)]
    pub path: Option<String>,
    /// Position of its parameter in `forward`'s signature.
    #[serde(default)]
    pub rank: Option<usize>,
    /// Where the user's code writes it in place.
    #[serde(default)]
    pub sites: Vec<Site>,
}

/// One output of the program.
#[derive(Clone, Debug, Deserialize)]
pub struct Output {
    /// The tracer's name of the node that computes it.
    pub node: Option<String>,
    /// `buffer_mutation`, `user_input_mutation`, `user_output`, …
    pub kind: String,
    /// The buffer or placeholder that is mutated.
    pub target: Option<String>,
    /// torch's dtype name; `None` for a value that is no tensor.
    pub dtype: Option<String>,
    /// Extents; `None` where symbolic.
    pub shape: Option<Vec<Dim>>,
    /// The Python value that is returned, where it is no tensor.
    pub constant: Option<String>,
    /// Path of a returned value below what `forward` returns (`[0]`, `['logits']`, empty if alone).
    #[serde(default)]
    pub path: Option<String>,
}

/// A buffer or argument that is written in place.
#[derive(Clone, Debug, Deserialize)]
pub struct Written {
    /// Qualified buffer name, or the argument's placeholder.
    pub name: String,
    /// The writes, in program order.
    pub sites: Vec<Site>,
}

/// An in-place op in the user's code.
#[derive(Clone, Debug, Deserialize)]
pub struct Site {
    /// ATen op (`mul_`).
    pub op: String,
    /// Source file, line and text, where the trace has them.
    pub file: Option<String>,
    /// 1-based line.
    pub line: Option<u32>,
    /// The line's text.
    pub code: Option<String>,
    /// Path of the submodule that runs the op.
    #[serde(default)]
    pub module: Option<String>,
    /// Its class.
    #[serde(default)]
    pub class: Option<String>,
    /// For `copy_`: the node whose value is written.
    #[serde(default)]
    pub value: Option<String>,
    /// For `copy_`: the buffer or argument that the value is a view of, where it is one.
    #[serde(default)]
    pub value_origin: Option<String>,
    /// For `copy_`: the extents of the value.
    #[serde(default)]
    pub value_shape: Option<Vec<Dim>>,
}

/// What changed when the module was called twice in eager mode.
#[derive(Clone, Debug, Deserialize)]
pub struct Observed {
    /// `train` or `eval`: the mode in which the recipe handed the module over.
    pub mode: String,
    /// Buffers, parameters, attributes and Python values that changed.
    pub changed: Vec<Changed>,
    /// Why eager PyTorch refused the call.
    pub error: Option<String>,
    /// Why the module was not watched.
    #[serde(default)]
    pub skipped: Option<String>,
}

/// One thing that changed in eager mode.
#[derive(Clone, Debug, Deserialize)]
pub struct Changed {
    /// Qualified buffer or parameter name, or attribute path.
    pub name: String,
    /// `buffer`, `parameter`, `attribute` (a tensor) or `python` (a scalar, or a length).
    pub kind: String,
    /// torch's dtype name for tensors.
    pub dtype: Option<String>,
    /// It was absent or `None` before the first call.
    pub appeared: bool,
    /// Only the first of two calls changed it: a cache as a rule, and no fault by itself.
    #[serde(default)]
    pub once: bool,
}

/// A value the program expects from its caller: an expected port of the asset.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The placeholder behind it.
    pub placeholder: &'a Placeholder,
    /// The node that computes its new value, for a state.
    pub mutation: Option<&'a Output>,
}

impl Program {
    /// The ports the asset must have, in graph-argument order: mutated buffers and all user inputs.
    pub fn expected(&self) -> Vec<Expected<'_>> {
        self.placeholders
            .iter()
            .filter_map(|placeholder| {
                let mutation = self.mutation_of(placeholder);
                let is_port = placeholder.kind == "user_input" || mutation.is_some();
                (is_port && placeholder.dtype.is_some()).then_some(Expected {
                    placeholder,
                    mutation,
                })
            })
            .collect()
    }

    /// What `forward` returns, in order.
    pub fn returns(&self) -> impl Iterator<Item = &Output> {
        self.outputs.iter().filter(|o| o.kind == "user_output")
    }

    /// The mutation outputs, buffers and arguments alike.
    pub fn mutations(&self) -> impl Iterator<Item = &Output> {
        self.outputs.iter().filter(|o| o.is_mutation())
    }

    fn mutation_of(&self, placeholder: &Placeholder) -> Option<&Output> {
        self.outputs.iter().find(|o| match o.kind.as_str() {
            "buffer_mutation" => placeholder.kind == "buffer" && o.target == placeholder.target,
            "user_input_mutation" => {
                placeholder.kind == "user_input" && o.target == placeholder.node
            }
            _ => false,
        })
    }
}

impl Output {
    /// Whether it is the new value of a buffer or argument.
    pub fn is_mutation(&self) -> bool {
        self.kind == "buffer_mutation" || self.kind == "user_input_mutation"
    }
}

impl Placeholder {
    /// The name a user knows it by: argument path, or qualified buffer name.
    pub fn display_name(&self) -> &str {
        self.path
            .as_deref()
            .or(self.target.as_deref())
            .or(self.node.as_deref())
            .unwrap_or("?")
    }
}

impl Site {
    /// `model.py:12`, where it is known.
    pub fn place(&self) -> Option<String> {
        let short = self.file.as_ref()?.rsplit(['/', '\\']).next()?;
        Some(format!("{short}:{}", self.line?))
    }

    /// `model.py:12: x.mul_(2)`, with the submodule where that says more.
    pub fn describe(&self) -> String {
        let mut text = match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                let short = file.rsplit(['/', '\\']).next().unwrap_or(file);
                format!(
                    "{short}:{line}: {}",
                    self.code.as_deref().unwrap_or(&self.op)
                )
            }
            _ => self.op.clone(),
        };
        if let (Some(module), Some(class)) = (&self.module, &self.class) {
            if !module.is_empty() {
                let class = class.rsplit('.').next().unwrap_or(class);
                text.push_str(&format!("  ({} in {module}, a {class})", self.op));
            }
        }
        text
    }
}

/// The dtype the converter gives a torch tensor: 64-bit types are narrowed to 32 bits.
///
/// Names on the right are the runtime descriptor's.
pub fn asset_dtype(torch: &str) -> &str {
    match torch {
        "int64" => "int32",
        "uint64" => "uint32",
        "float64" => "float32",
        "complex64" | "complex128" => "cfloat32",
        "complex32" => "cfloat16",
        "half" => "float16",
        "float8_e4m3fn" => "float8e4m3fn",
        "float8_e5m2" => "float8e5m2",
        "float8_e8m0fnu" => "float8e8m0fn",
        "float4_e2m1fn_x2" => "float4e2m1fn",
        other => other,
    }
}
