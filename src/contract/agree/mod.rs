//! Joins the readings of one asset and reports where they part.
//!
//! The graph signature knows what each port is, the emitted IR what the converter made of it, the
//! runtime descriptor what a consumer will see. None is trusted: they are laid beside each other, and
//! nothing may get lost on the way from what `forward` does to what the asset offers.

mod fates;
mod functions;
mod messages;
mod notes;
mod readings;

use super::signature::{asset_dtype, Expected, FunctionSignature, Output, Program};
use super::{names, Access, Contract, Dim, Export, Function, Source, SourceKind};
use crate::report::{Finding, Severity, Stage};
use crate::text;
pub(crate) use fates::{mutated_name, output_fix, return_fates, Fate};
use functions::functions_disagree;
pub(crate) use messages::promoted_input;
use messages::{extra_outputs, lost_write, name_order_finding, not_written, unexpected};
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
        self.states(&states);
        self.inputs(&inputs);
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

    fn states(&mut self, expected: &[Expected<'_>]) {
        if expected.len() != self.function.states.len() {
            let finding = disagreement(
                "state",
                &expected
                    .iter()
                    .map(|e| source(e, self.signature).to_string())
                    .collect::<Vec<_>>(),
                &self
                    .function
                    .states
                    .iter()
                    .map(|s| s.name.clone())
                    .collect::<Vec<_>>(),
            );
            self.push(finding);
            return;
        }
        for (position, e) in expected.iter().enumerate() {
            let source = source(e, self.signature);
            let state = &mut self.function.states[position];
            state.source = Some(source.clone());
            let (name, dtype, shape, access) = (
                state.name.clone(),
                state.dtype.clone(),
                state.shape.clone(),
                state.access,
            );
            if let Some(evidence) = mismatch(e, &dtype, &shape) {
                self.push(
                    error(
                        "readings-disagree",
                        format!("state {position} is not what the graph signature says"),
                    )
                    .about(&name)
                    .with_evidence(evidence),
                );
            }
            if matches!(access, Access::ReadOnly | Access::Unused) {
                self.push(not_written(&name, position, access, &source, e));
            }
        }
    }

    fn inputs(&mut self, expected: &[Expected<'_>]) {
        if expected.len() != self.function.inputs.len() {
            let finding = disagreement(
                "input",
                &expected
                    .iter()
                    .map(|e| source(e, self.signature).to_string())
                    .collect::<Vec<_>>(),
                &self
                    .function
                    .inputs
                    .iter()
                    .map(|s| s.name.clone())
                    .collect::<Vec<_>>(),
            );
            self.push(finding);
            return;
        }
        for (position, e) in expected.iter().enumerate() {
            let port = &mut self.function.inputs[position];
            port.source = Some(source(e, self.signature));
            let name = port.name.clone();
            if let Some(evidence) = mismatch(e, &port.dtype, &port.shape) {
                self.push(
                    error(
                        "readings-disagree",
                        format!("input {position} is not what the graph signature says"),
                    )
                    .about(name)
                    .with_evidence(evidence),
                );
            }
        }
    }

    /// Every value that `forward` returns must be an output.
    fn outputs(&mut self) {
        let returned: Vec<&Output> = self.program.returns().collect();
        let outputs = &self.function.outputs;
        if returned.len() == outputs.len() {
            return;
        }
        if returned.len() < outputs.len() {
            let finding = extra_outputs(self.program, returned.len(), outputs.len());
            self.push(finding);
            return;
        }
        if self.shadow_of_a_state().is_some() && returned.len() == outputs.len() + 1 {
            return; // told by `shadowed`
        }
        let fates = return_fates(self.program, self.signature);
        let mut finding = error(
            "output-vanished",
            format!(
                "forward returns {}, the asset has {}",
                text::count(returned.len(), "value"),
                text::count(outputs.len(), "output")
            ),
        );
        for fate in fates.iter().filter_map(Fate::explain) {
            finding = finding.with_evidence(fate);
        }
        let survivors: Vec<usize> = fates
            .iter()
            .enumerate()
            .filter(|(_, f)| matches!(f, Fate::Output))
            .map(|(i, _)| i)
            .collect();
        if survivors.len() == outputs.len() {
            for (position, from) in survivors.iter().enumerate().filter(|(p, from)| p != *from) {
                finding =
                    finding.with_evidence(format!("position {position} now holds return {from}"));
            }
        }
        self.push(finding.with_fix(output_fix(&fates)));
    }

    fn shadow_of_a_state(&self) -> Option<String> {
        let given = self.signature.names.outputs.as_ref()?;
        given
            .iter()
            .find(|o| self.function.states.iter().any(|s| &s.name == *o))
            .cloned()
    }

    fn shadowed(&mut self) {
        let Some(name) = self.shadow_of_a_state() else {
            return;
        };
        let state = self.function.states.iter().find(|s| s.name == name);
        let source = state
            .and_then(|s| s.source.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default();
        let returned = self.program.returns().count();
        let finding = error(
            "duplicate-or-shadowed-name",
            format!(
                "{} is a state and an output: {returned} returned, {} in the asset",
                text::name(&name),
                self.function.outputs.len()
            ),
        )
        .about(&name)
        .with_evidence("the output is gone, and its value is written into the state of that name")
        .with_evidence(format!(
            "the state is {source}, which is meant to hold another value"
        ))
        .with_fix("give the output another name in output_names");
        self.push(finding);
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

    fn name_order(&mut self) {
        let states: Vec<(String, String)> =
            named(self.function.states.iter().map(|s| (&s.name, &s.source)));
        let inputs: Vec<(String, String)> =
            named(self.function.inputs.iter().map(|s| (&s.name, &s.source)));
        let outputs = self.returned_names();
        for (role, field, ports) in [
            ("state", "state_names", states),
            ("input", "input_names", inputs),
            ("output", "output_names", outputs),
        ] {
            let names: Vec<&str> = ports.iter().map(|p| p.0.as_str()).collect();
            let sources: Vec<&str> = ports.iter().map(|p| p.1.as_str()).collect();
            let moved = names::misplaced(&names, &sources);
            if moved.is_empty() {
                continue;
            }
            self.push(name_order_finding(
                role,
                field,
                &names,
                &sources,
                &moved,
                self.signature,
            ));
        }
    }

    /// Outputs with the key under which `forward` returns them, where all are returned under keys.
    fn returned_names(&self) -> Vec<(String, String)> {
        let returned: Vec<&Output> = self.program.returns().collect();
        let keyed = |o: &&Output| o.path.as_deref().is_some_and(|p| p.contains(['\'', '.']));
        let given = self.signature.names.outputs.is_some();
        if !given || returned.len() != self.function.outputs.len() || !returned.iter().all(keyed) {
            return Vec::new();
        }
        let names = self.function.outputs.iter().map(|o| o.name.clone());
        names
            .zip(returned.iter().map(|o| o.path.clone().unwrap_or_default()))
            .collect()
    }

    fn default_names(&mut self) {
        let given = &self.signature.names;
        let mut parts = Vec::new();
        let mut evidence = Vec::new();
        let f = &*self.function;
        let mut left_out =
            |given: bool, field: &'static str, ports: Vec<(String, Option<String>)>, role: &str| {
                if given || ports.is_empty() {
                    return;
                }
                parts.push(field);
                for (i, (name, source)) in ports.iter().enumerate() {
                    let name = text::name(name);
                    evidence.push(match source {
                        Some(source) => format!("{role} {i}: {name} is {source}"),
                        None => format!("{role} {i}: {name} is a name nobody chose"),
                    });
                }
            };
        let states = f
            .states
            .iter()
            .map(|s| (s.name.clone(), s.source.as_ref().map(Source::to_string)));
        left_out(
            given.states.is_some(),
            "state_names",
            states.collect(),
            "state",
        );
        let inputs = f
            .inputs
            .iter()
            .map(|s| (s.name.clone(), s.source.as_ref().map(Source::to_string)));
        left_out(
            given.inputs.is_some(),
            "input_names",
            inputs.collect(),
            "input",
        );
        let outputs = f.outputs.iter().map(|s| (s.name.clone(), None));
        left_out(
            given.outputs.is_some(),
            "output_names",
            outputs.collect(),
            "output",
        );
        if parts.is_empty() {
            return;
        }
        let mut finding = Finding::new(
            "default-names",
            Stage::Contract,
            Severity::Warning,
            format!(
                "{} left to PyTorch's tracer, whose names move between versions",
                text::list(&parts)
            ),
        );
        finding.evidence = evidence;
        self.push(finding.with_fix(format!(
            "give {} in the recipe; [] says there are none",
            text::list(&parts)
        )));
    }

    /// An empty list of names asserts that there is nothing to name.
    fn unexpected(&mut self, states: &[Expected<'_>]) {
        let given = &self.signature.names;
        let empty = |names: &Option<Vec<String>>| names.as_ref().is_some_and(Vec::is_empty);
        let f = &*self.function;
        let mut findings = Vec::new();
        if empty(&given.states) && !f.states.is_empty() {
            let mut finding = unexpected("state", f.states.len());
            for (i, (state, e)) in f.states.iter().zip(states).enumerate() {
                let site = e.placeholder.sites.last();
                let written =
                    site.map_or_else(String::new, |s| format!(", written at {}", s.describe()));
                let source = source(e, self.signature);
                let name = text::name(&state.name);
                finding = finding.with_evidence(format!("state {i}: {name} is {source}{written}"));
            }
            findings.push(finding);
        }
        for (role, names, ports) in [
            ("input", &given.inputs, &f.inputs),
            ("output", &given.outputs, &f.outputs),
        ] {
            if empty(names) && !ports.is_empty() {
                let names: Vec<_> = ports.iter().map(|p| text::name(&p.name)).collect();
                findings.push(unexpected(role, ports.len()).with_evidence(text::list(&names)));
            }
        }
        for finding in findings {
            self.push(finding);
        }
    }

    fn promoted(&mut self, states: &[Expected<'_>]) {
        let named = self.signature.names.states.is_some();
        for (position, e) in states.iter().enumerate() {
            if e.placeholder.kind != "user_input" {
                continue;
            }
            let severity = if named {
                Severity::Advice
            } else {
                Severity::Warning
            };
            let mut finding = promoted_input(e, position, severity);
            if e.placeholder.sites.is_empty() {
                finding.evidence.extend(self.unset_buffers());
            }
            self.push(finding);
        }
    }

    /// Buffers that forward creates or sets for the first time: torch takes such a write for one to the
    /// argument that is bound to the name.
    fn unset_buffers(&self) -> Vec<String> {
        let observed = self.signature.observed.iter().flat_map(|o| &o.changed);
        observed
            .filter(|c| c.kind == "buffer" && c.appeared)
            .map(|c| {
                format!(
                    "cause: buffer {} is None or absent when the module is exported",
                    c.name
                )
            })
            .collect()
    }

    fn narrowed(&mut self) {
        let narrowed: Vec<(String, String, String)> = self
            .function
            .states
            .iter()
            .filter_map(|s| {
                let source = s.source.as_ref()?;
                let wide = matches!(
                    source.dtype.as_str(),
                    "int64" | "float64" | "uint64" | "complex128"
                );
                (wide && source.dtype != s.dtype)
                    .then(|| (s.name.clone(), source.dtype.clone(), s.dtype.clone()))
            })
            .collect();
        for (name, from, to) in narrowed {
            self.push(
                Finding::new(
                    "int64-narrowed",
                    Stage::Contract,
                    Severity::Advice,
                    format!("state is {from} in torch and {to} in the asset"),
                )
                .about(name)
                .with_fix(format!(
                    "a consumer must allocate {to}; use {to} in the module to make both agree"
                )),
            );
        }
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

    /// Whatever eager PyTorch changes must be a state.
    fn eager(&mut self) {
        let Some(observed) = &self.signature.observed else {
            return;
        };
        if let Some(message) = &observed.error {
            self.push(
                error(
                    "eager-refuses",
                    "eager PyTorch refuses the example, so nothing can be compared with it",
                )
                .with_evidence(message.clone()),
            );
            return;
        }
        let states: Vec<&Source> = self
            .function
            .states
            .iter()
            .filter_map(|s| s.source.as_ref())
            .collect();
        let is_state = |name: &str| {
            states
                .iter()
                .any(|s| s.kind == SourceKind::Buffer && s.names().any(|n| n == name))
        };
        let mirrors_a_state = |name: &str| {
            self.signature
                .aliases
                .iter()
                .any(|g| g.iter().any(|n| n == name) && g.iter().any(|n| is_state(n)))
        };
        let lost: Vec<_> = observed
            .changed
            .iter()
            .filter(|c| !is_state(&c.name) && !mirrors_a_state(&c.name))
            .cloned()
            .collect();
        let training_only = observed.mode == "train" && !self.signature.training;
        let total = self.function.states.len();
        if training_only {
            self.push(
                Finding::new(
                    "training-mode",
                    Stage::Contract,
                    Severity::Advice,
                    "the recipe hands the module over in training mode; it was exported in evaluation mode",
                )
                .with_fix("call .eval() in the recipe, or give training=True"),
            );
        }
        for changed in lost {
            self.push(lost_write(&changed, total, training_only));
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

fn named<'a>(
    ports: impl Iterator<Item = (&'a String, &'a Option<Source>)>,
) -> Vec<(String, String)> {
    ports
        .filter_map(|(name, source)| Some((name.clone(), source.as_ref()?.name.clone())))
        .collect()
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
