//! Names: given by position, so anything about them can be wrong without an error.

use super::messages::{name_order_finding, unexpected};
use super::{error, source, Join};
use crate::contract::signature::{Expected, Output};
use crate::contract::{names, Source};
use crate::report::{Finding, Severity, Stage};
use crate::text;

impl Join<'_> {
    pub(super) fn shadow_of_a_state(&self) -> Option<String> {
        let given = self.signature.names.outputs.as_ref()?;
        given
            .iter()
            .find(|o| self.function.states.iter().any(|s| &s.name == *o))
            .cloned()
    }

    pub(super) fn shadowed(&mut self) {
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

    pub(super) fn name_order(&mut self) {
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
            let mut finding =
                name_order_finding(role, field, &names, &sources, &moved, self.signature);
            if self.reordered_by_keywords() && role != "output" {
                finding = finding
                    .with_fix("write the example's kwargs in forward's order; the names fit then");
            }
            self.push(finding);
        }
    }

    /// Whether the order of the example's keywords is to blame.
    fn reordered_by_keywords(&self) -> bool {
        let here = |f: &Finding| f.function.as_ref() == Some(&self.function.name);
        self.findings
            .iter()
            .any(|f| f.id == "argument-order" && here(f))
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

    pub(super) fn default_names(&mut self) {
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
    pub(super) fn unexpected(&mut self, states: &[Expected<'_>]) {
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
}

fn named<'a>(
    ports: impl Iterator<Item = (&'a String, &'a Option<Source>)>,
) -> Vec<(String, String)> {
    ports
        .filter_map(|(name, source)| Some((name.clone(), source.as_ref()?.name.clone())))
        .collect()
}
