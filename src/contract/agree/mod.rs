//! Joins the readings of one asset and reports where they part.
//!
//! The graph signature knows what each port is, the emitted IR what the converter made of it, the
//! runtime descriptor what a consumer will see. None is trusted: they are laid beside each other, and
//! nothing may get lost on the way from what `forward` does to what the asset offers.

mod fates;
mod functions;
mod lost;
mod messages;
mod naming;
mod notes;
mod readings;

use super::signature::{asset_dtype, Expected, FunctionSignature, Program};
use super::{Access, Contract, Dim, Export, Function, Port, Source, SourceKind, State};
use crate::report::{Finding, Severity, Stage};
use crate::text;
pub(crate) use fates::{mutated_name, output_fix, return_fates, Fate};
use functions::functions_disagree;
use messages::not_written;
pub(crate) use messages::promoted_input;
pub use notes::finding_of;
pub use readings::{compare_reading, OtherFunction, OtherPort};

/// Gives every port its source from the graph signature, and reports what does not fit.
///
/// `contract` is what the IR says; its names, order, dtypes and shapes are left alone.
pub fn join(contract: &mut Contract, signatures: &[FunctionSignature]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for signature in signatures {
        let Some(program) = &signature.program else {
            continue;
        };
        let Some(function) = contract
            .functions
            .iter_mut()
            .find(|f| f.name == signature.name)
        else {
            findings.push(
                error(
                    "readings-disagree",
                    "the recipe's entry point is not in the asset",
                )
                .in_function(&signature.name)
                .with_fix("report this: the converter dropped a function"),
            );
            continue;
        };
        let mut join = Join {
            function,
            signature,
            program,
            findings: &mut findings,
        };
        join.run();
    }
    findings.extend(functions_disagree(contract, signatures));
    findings
}

struct Join<'a> {
    function: &'a mut Function,
    signature: &'a FunctionSignature,
    program: &'a Program,
    findings: &'a mut Vec<Finding>,
}

impl Join<'_> {
    fn run(&mut self) {
        self.function.export = self.signature.strict.map(|strict| Export { strict });
        let expected = self.program.expected();
        let (states, inputs): (Vec<_>, Vec<_>) =
            expected.iter().partition(|e| e.mutation.is_some());
        self.ports("state", &states);
        self.ports("input", &inputs);
        self.outputs();
        self.argument_order();
        self.shadowed();
        self.name_order();
        self.default_names();
        self.unexpected(&states);
        self.promoted(&states);
        self.narrowed();
        self.aliases();
        self.eager();
    }

    fn push(&mut self, finding: Finding) {
        self.findings.push(finding.in_function(&self.function.name));
    }

    /// Gives the states and inputs their sources, where the readings agree on how many there are.
    fn ports(&mut self, role: &str, expected: &[Expected<'_>]) {
        let sources: Vec<Source> = expected.iter().map(|e| source(e, self.signature)).collect();
        let mut ports: Vec<PortMut<'_>> = match role {
            "state" => self
                .function
                .states
                .iter_mut()
                .map(PortMut::of_state)
                .collect(),
            _ => self
                .function
                .inputs
                .iter_mut()
                .map(PortMut::of_input)
                .collect(),
        };
        let mut findings = Vec::new();
        if expected.len() != ports.len() {
            let names: Vec<String> = ports.iter().map(|p| p.name.to_owned()).collect();
            let there: Vec<String> = sources.iter().map(Source::to_string).collect();
            findings.push(disagreement(role, &there, &names));
        } else {
            for (position, (port, e)) in ports.iter_mut().zip(expected).enumerate() {
                let source = &sources[position];
                *port.source = Some(source.clone());
                if let Some(evidence) = mismatch(e, port.dtype, port.shape) {
                    let message = format!("{role} {position} is not what the graph signature says");
                    let finding = error("readings-disagree", message);
                    findings.push(finding.about(port.name).with_evidence(evidence));
                }
                let written = !matches!(port.access, Some(Access::ReadOnly | Access::Unused));
                if let (Some(access), false) = (port.access, written) {
                    findings.push(not_written(port.name, position, access, source, e));
                }
            }
        }
        for finding in findings {
            self.push(finding);
        }
    }

    /// Inputs and mutated arguments must come in the order of `forward`'s parameters.
    fn argument_order(&mut self) {
        let expected = self.program.expected();
        let ranked: Vec<(usize, &str)> = expected
            .iter()
            .filter(|e| e.placeholder.kind == "user_input")
            .filter_map(|e| Some((e.placeholder.rank?, e.placeholder.display_name())))
            .collect();
        if ranked.windows(2).all(|w| w[0].0 <= w[1].0) {
            return;
        }
        let mut sorted = ranked.clone();
        sorted.sort_by_key(|(rank, _)| *rank);
        let list = |r: &[(usize, &str)]| r.iter().map(|(_, n)| *n).collect::<Vec<_>>().join(", ");
        self.push(
            error(
                "argument-order",
                "the asset takes its arguments in another order than forward",
            )
            .with_evidence(format!("forward:  {}", list(&sorted)))
            .with_evidence(format!("asset:    {}", list(&ranked)))
            .with_evidence(
                "torch.export follows the order in which the example passes its keywords",
            )
            .with_fix("write the example's kwargs in the order of forward's parameters"),
        );
    }

    fn aliases(&mut self) {
        let mut found = Vec::new();
        for state in &self.function.states {
            let Some(source) = &state.source else {
                continue;
            };
            if let Some(group) = self
                .signature
                .aliases
                .iter()
                .find(|g| g.contains(&source.name))
            {
                let registered = |n: &&String| self.signature.buffers.iter().any(|b| &b.name == *n);
                let others: Vec<&str> = group
                    .iter()
                    .filter(|n| **n != source.name)
                    .filter(registered)
                    .map(String::as_str)
                    .collect();
                if !others.is_empty() {
                    found.push((state.name.clone(), source.clone(), text::list(&others)));
                }
            }
        }
        for (name, source, others) in found {
            self.push(
                Finding::new(
                    "aliased-buffers",
                    Stage::Contract,
                    Severity::Warning,
                    format!(
                        "state {} is {source}, which is also {others}",
                        text::name(&name)
                    ),
                )
                .about(name)
                .with_fix("register the shared buffer once, under the name consumers should know"),
            );
        }
    }
}

/// The part that states and inputs have in common.
struct PortMut<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [Dim],
    /// `None` for an input.
    access: Option<Access>,
    source: &'a mut Option<Source>,
}

impl<'a> PortMut<'a> {
    fn of_state(state: &'a mut State) -> Self {
        PortMut {
            name: &state.name,
            dtype: &state.dtype,
            shape: &state.shape,
            access: Some(state.access),
            source: &mut state.source,
        }
    }

    fn of_input(port: &'a mut Port) -> Self {
        PortMut {
            name: &port.name,
            dtype: &port.dtype,
            shape: &port.shape,
            access: None,
            source: &mut port.source,
        }
    }
}

/// A state or input of the signature as a [`Source`].
pub(crate) fn source(e: &Expected<'_>, signature: &FunctionSignature) -> Source {
    let name = e.placeholder.display_name().to_owned();
    let kind = if e.placeholder.kind == "user_input" {
        SourceKind::Argument
    } else {
        SourceKind::Buffer
    };
    let mut aliases: Vec<String> = Vec::new();
    if kind == SourceKind::Buffer {
        if let Some(group) = signature.aliases.iter().find(|g| g.contains(&name)) {
            let registered = |n: &&String| signature.buffers.iter().any(|b| &b.name == *n);
            aliases = group
                .iter()
                .filter(|n| **n != name)
                .filter(registered)
                .cloned()
                .collect();
        }
    }
    Source {
        kind,
        name,
        dtype: e.placeholder.dtype.clone().unwrap_or_default(),
        aliases,
    }
}

fn error(id: &'static str, message: impl Into<String>) -> Finding {
    Finding::new(id, Stage::Contract, Severity::Error, message)
}

fn disagreement(role: &str, signature: &[String], asset: &[String]) -> Finding {
    let list = |items: &[String]| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    error(
        "readings-disagree",
        format!(
            "the graph signature has {}, the asset {}",
            text::count(signature.len(), role),
            asset.len()
        ),
    )
    .with_evidence(format!("signature: {}", list(signature)))
    .with_evidence(format!("asset:     {}", list(asset)))
}

/// What differs between a placeholder and the port it became, narrowing aside.
fn mismatch(e: &Expected<'_>, dtype: &str, shape: &[Dim]) -> Option<String> {
    let torch = e.placeholder.dtype.as_deref().unwrap_or_default();
    let expected_shape = e.placeholder.shape.as_deref().unwrap_or_default();
    let same = asset_dtype(torch) == dtype && expected_shape == shape;
    (!same).then(|| {
        format!(
            "signature: {torch} {}; asset: {dtype} {}",
            super::shape(expected_shape),
            super::shape(shape)
        )
    })
}
