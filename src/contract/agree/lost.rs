//! What gets lost between what `forward` does and what the asset offers.

use super::messages::{extra_outputs, lost_write, promoted_input};
use super::{error, output_fix, return_fates, Fate, Join};
use crate::contract::signature::{Expected, Output};
use crate::contract::{Source, SourceKind};
use crate::report::{Finding, Severity, Stage};
use crate::text;

impl Join<'_> {
    /// Every value that `forward` returns must be an output.
    pub(super) fn outputs(&mut self) {
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

    pub(super) fn promoted(&mut self, states: &[Expected<'_>]) {
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
            let names = self.signature.names.states.as_ref();
            if let Some(name) = names.and_then(|n| n.get(position)) {
                // It is named already: nothing is left to do where that is meant.
                finding = finding.with_fix(format!(
                    "nothing, where that is meant: state_names calls it {}; if it should stay an input, \
                     write out of place",
                    text::name(name)
                ));
            }
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

    pub(super) fn narrowed(&mut self) {
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

    /// Whatever eager PyTorch changes must be a state.
    pub(super) fn eager(&mut self) {
        let Some(observed) = &self.signature.observed else {
            return;
        };
        if let Some(why) = &observed.skipped {
            self.push(
                Finding::new(
                    "not-observed",
                    Stage::Contract,
                    Severity::Advice,
                    "the module could not be watched in eager mode, so a write that is lost would not be seen",
                )
                .with_evidence(why.clone())
                .with_fix("make the module copyable (copy.deepcopy), or return a fresh one from the recipe each time"),
            );
            return;
        }
        if let Some(message) = &observed.error {
            let of_calls = message.starts_with("call ");
            let finding = match of_calls {
                true => error(
                    "eager-refuses",
                    "eager PyTorch refuses a call of the recipe, so it cannot be compared with",
                ),
                false => error(
                    "eager-refuses",
                    "eager PyTorch refuses the example, so nothing can be compared with it",
                ),
            }
            .with_evidence(message.clone());
            self.push(match of_calls {
                true => finding
                    .with_fix("correct that entry of calls, or forward, so that PyTorch runs it"),
                false => finding,
            });
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
            .filter(|c| !c.once && !is_state(&c.name) && !mirrors_a_state(&c.name))
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
