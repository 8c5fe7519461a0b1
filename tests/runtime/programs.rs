//! Small programs written as text.

use std::path::Path;

use coreai_audit::ir::text;
use coreai_audit::runtime::{LoadError, Model, RunError, Tensor};

/// A model of this text.
pub fn load(text: &str) -> Result<Model, LoadError> {
    let module = text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Model::from_module(Path::new("test.aimodel"), &module)
}

/// The outputs of `main` on inputs `x`, `y`, `z`.
pub fn eval(text: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
    let model = load(text).unwrap_or_else(|e| panic!("{e}"));
    let function = model.function("main").expect("main");
    let inputs: Vec<(&str, &Tensor)> = ["x", "y", "z", "u", "v"].into_iter().zip(inputs).collect();
    let outputs = function.run(&inputs, &mut [], &mut [])?;
    Ok(outputs.into_iter().map(|(_, t)| t).collect())
}

/// A program with one op: types of the operands, the op applied to `%a0, %a1, …`, the result's type.
pub fn one(operands: &[&str], op: &str, result: &str) -> String {
    let names = ["x", "y", "z", "u", "v"];
    let args: Vec<String> = operands
        .iter()
        .zip(names)
        .enumerate()
        .map(|(i, (ty, n))| format!("%a{i}: tensor<{ty}> {{coreai.name = \"{n}\"}}"))
        .collect();
    let values: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
    let types: Vec<String> = operands.iter().map(|t| format!("tensor<{t}>")).collect();
    let (name, attrs) = op.split_once(' ').unwrap_or((op, ""));
    format!(
        "module {{ coreai.graph @main({}) -> (tensor<{result}> {{coreai.name = \"r\"}}) {{\n\
         %r = \"coreai.{name}\"({}) {attrs} : ({}) -> tensor<{result}>\n\
         coreai.output %r : tensor<{result}> }} }}",
        args.join(", "),
        values.join(", "),
        types.join(", ")
    )
}

/// The result of one op.
pub fn apply(
    operands: &[&str],
    op: &str,
    result: &str,
    inputs: &[Tensor],
) -> Result<Tensor, String> {
    let mut out = eval(&one(operands, op, result), inputs).map_err(|e| e.to_string())?;
    Ok(out.remove(0))
}

/// A tensor.
pub fn t<T: coreai_audit::runtime::Element>(shape: &[usize], values: &[T]) -> Tensor {
    Tensor::from_values(shape, values).expect("values that fit")
}
