//! The recipe names another number of inputs, states or outputs than the program has.
//!
//! Often that is the model's doing and not a slip of the pen: an in-place op turned an input into a
//! state, a buffer is no longer written, a returned value is the state itself.

use super::Explanation;
use crate::contract::agree::{output_fix, promoted_input, return_fates, source, Fate};
use crate::contract::names::fit;
use crate::contract::signature::{Expected, FunctionSignature, Program};
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity, Stage};
use crate::text;

/// Explains a failure of the converter's count checks; `None` if it is about something else.
pub(super) fn explain(error: &PythonError, functions: &[FunctionSignature]) -> Option<Explanation> {
    let counted = ["stateful inputs (", "live inputs (", "live outputs ("];
    if !counted.iter().any(|c| error.message.contains(c)) {
        return None;
    }
    let mut explanation = Explanation {
        findings: Vec::new(),
        found: false,
        certain: true,
    };
    for signature in functions {
        let Some(program) = &signature.program else {
            continue;
        };
        let mut counts = Counts::new(signature, program);
        counts.run();
        explanation.found |= counts.found;
        let name = &signature.name;
        explanation
            .findings
            .extend(counts.findings.into_iter().map(|f| f.in_function(name)));
    }
    if explanation.findings.is_empty() {
        return None;
    }
    Some(explanation)
}

struct Counts<'a> {
    signature: &'a FunctionSignature,
    program: &'a Program,
    states: Vec<Expected<'a>>,
    inputs: Vec<Expected<'a>>,
    findings: Vec<Finding>,
    found: bool,
}

impl<'a> Counts<'a> {
    fn new(signature: &'a FunctionSignature, program: &'a Program) -> Self {
        let (states, inputs) = program
            .expected()
            .into_iter()
            .partition(|e| e.mutation.is_some());
        Counts {
            signature,
            program,
            states,
            inputs,
            findings: Vec::new(),
            found: false,
        }
    }

    fn run(&mut self) {
        if self.mutated_parameters() {
            return;
        }
        let names = &self.signature.names;
        let count = |n: &Option<Vec<String>>| n.as_ref().filter(|n| !n.is_empty()).map(Vec::len);
        let too_many_states = count(&names.states).is_some_and(|n| self.states.len() > n);
        let too_few_states = count(&names.states).is_some_and(|n| self.states.len() < n);
        let wrong_inputs = count(&names.inputs).is_some_and(|n| self.inputs.len() != n);
        let promoted = (too_many_states || wrong_inputs) && self.promoted();
        let demoted = too_few_states && self.unwritten();
        if !promoted && !demoted {
            if too_many_states || too_few_states {
                self.wrong_states();
            }
            if wrong_inputs {
                self.wrong_inputs();
            }
        }
        self.outputs();
    }

    fn fail(&mut self, finding: Finding) {
        self.findings.push(finding);
        self.found = true;
    }

    /// A parameter that forward writes comes out as an output that nobody returned.
    fn mutated_parameters(&mut self) -> bool {
        let mutated: Vec<String> = self
            .program
            .outputs
            .iter()
            .filter(|o| o.kind == "parameter_mutation")
            .filter_map(|o| o.target.clone())
            .collect();
        for name in &mutated {
            self.fail(
                Finding::new(
                    "mutated-parameter",
                    Stage::Convert,
                    Severity::Error,
                    format!("parameter {name} is written by forward; only a registered buffer can be a state"),
                )
                .about(name)
                .with_evidence("its new value comes out as an output that forward does not return")
                .with_fix(format!("register {name} as a buffer and write it in place")),
            );
        }
        !mutated.is_empty()
    }

    /// Mutated arguments that the recipe names as inputs, or does not name among the states.
    fn promoted(&mut self) -> bool {
        let given_states = self.signature.names.states.clone();
        let given_inputs = self.signature.names.inputs.clone().unwrap_or_default();
        let arguments: Vec<(usize, &Expected<'_>)> = self
            .states
            .iter()
            .enumerate()
            .filter(|(_, e)| e.placeholder.kind == "user_input")
            .collect();
        let surplus = given_states.as_ref().map_or(arguments.len(), |given| {
            self.states.len().saturating_sub(given.len())
        });
        let missing_inputs = given_inputs.len().saturating_sub(self.inputs.len());
        let expected = if given_states.is_some() {
            surplus
        } else {
            missing_inputs
        };
        if arguments.is_empty() || expected == 0 {
            return false;
        }
        // Those that fit a state name are meant as states; the rest are the accused.
        let named = |e: &Expected<'_>| {
            let name = e.placeholder.display_name();
            let best = |names: &[String]| names.iter().map(|n| fit(n, name)).fold(0.0, f64::max);
            best(given_states.as_deref().unwrap_or_default()) - best(&given_inputs)
        };
        let mut accused = arguments.clone();
        accused.sort_by(|a, b| named(a.1).total_cmp(&named(b.1)));
        accused.truncate(expected);
        accused.sort_by_key(|(position, _)| *position);
        let findings: Vec<Finding> = accused
            .iter()
            .map(|(position, e)| promoted_input(e, *position, Severity::Error))
            .collect();
        for finding in findings {
            self.fail(finding);
        }
        true
    }

    /// Names in `state_names` whose buffer or argument is there and is not written.
    fn unwritten(&mut self) -> bool {
        let given = self.signature.names.states.clone().unwrap_or_default();
        let sources: Vec<String> = self
            .states
            .iter()
            .map(|e| e.placeholder.display_name().to_owned())
            .collect();
        let missing = given.len() - self.states.len();
        let mut candidates: Vec<(&str, &str)> = Vec::new();
        for buffer in &self.signature.buffers {
            let is_state = sources.contains(&buffer.name)
                || self
                    .signature
                    .aliases
                    .iter()
                    .any(|g| g.contains(&buffer.name) && g.iter().any(|n| sources.contains(n)));
            if !is_state {
                candidates.push(("buffer", &buffer.name));
            }
        }
        candidates.extend(
            self.inputs
                .iter()
                .map(|e| ("argument", e.placeholder.display_name())),
        );
        // The name that nobody fits better than this candidate is the one left without a state.
        let mut scored: Vec<(f64, usize, usize)> = Vec::new();
        for (n, name) in given.iter().enumerate() {
            let held = sources.iter().map(|s| fit(name, s)).fold(0.0, f64::max);
            for (c, (_, candidate)) in candidates.iter().enumerate() {
                let score = fit(name, candidate);
                if score > held && score > 0.0 {
                    scored.push((score, n, c));
                }
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (_, n, c) in scored {
            if taken.len() < missing && taken.iter().all(|(tn, tc)| *tn != n && *tc != c) {
                taken.push((n, c));
            }
        }
        if taken.len() < missing {
            return false;
        }
        taken.sort_unstable();
        for (n, c) in taken {
            let (kind, candidate) = candidates[c];
            if kind == "buffer" && self.changes_in_eager(candidate) {
                let finding = self.lost(&given[n], candidate);
                self.fail(finding);
                continue;
            }
            let name = text::name(&given[n]).into_owned();
            let becomes = if kind == "buffer" {
                "it is read only, so its value at export is baked in as a constant"
            } else {
                "it is read only, so it is an input"
            };
            self.fail(
                Finding::new(
                    "state-never-written",
                    Stage::Convert,
                    Severity::Error,
                    format!("{kind} {candidate} is never written by forward, so it is no state: {name} in state_names has nothing to name"),
                )
                .about(&given[n])
                .with_evidence(becomes)
                .with_evidence(format!(
                    "state_names has {}, the program has {}: {}",
                    text::count(given.len(), "name"),
                    text::count(self.states.len(), "state"),
                    if sources.is_empty() { "none".to_owned() } else { text::list(&sources) },
                ))
                .with_fix(format!("write {candidate} in place in forward, or take {name} out of state_names")),
            );
        }
        true
    }

    fn changes_in_eager(&self, buffer: &str) -> bool {
        let observed = self.signature.observed.iter().flat_map(|o| &o.changed);
        observed
            .into_iter()
            .any(|c| c.kind == "buffer" && c.name == buffer)
    }

    /// Eager PyTorch changes the buffer, and the exported program records no write.
    fn lost(&self, name: &str, buffer: &str) -> Finding {
        let mode = match self.signature.strict {
            Some(true) => "strict export drops a write that binds the name to a new tensor",
            _ => "the export records no write to it",
        };
        Finding::new(
            "write-lost",
            Stage::Convert,
            Severity::Error,
            format!("buffer {buffer} changes from call to call in PyTorch, and torch.export lost the write"),
        )
        .about(name)
        .with_evidence(mode)
        .with_evidence(format!("so {} in state_names has nothing to name", text::name(name)))
        .with_fix("write the registered buffer in place (copy_, add_, index assignment)")
    }

    fn wrong_states(&mut self) {
        let given = self.signature.names.states.clone().unwrap_or_default();
        let sources: Vec<String> = self
            .states
            .iter()
            .map(|e| source(e, self.signature).to_string())
            .collect();
        self.findings
            .push(wrong_count("state_names", "state", &given, &sources));
    }

    fn wrong_inputs(&mut self) {
        let given = self.signature.names.inputs.clone().unwrap_or_default();
        let sources: Vec<String> = self
            .inputs
            .iter()
            .map(|e| source(e, self.signature).to_string())
            .collect();
        self.findings
            .push(wrong_count("input_names", "input", &given, &sources));
    }

    fn outputs(&mut self) {
        let Some(given) = self
            .signature
            .names
            .outputs
            .clone()
            .filter(|n| !n.is_empty())
        else {
            return;
        };
        let fates = return_fates(self.program, self.signature);
        let live = fates
            .iter()
            .filter(|f| matches!(f, Fate::Output | Fate::Overwritten(..)))
            .count();
        if live == given.len() {
            return;
        }
        if given.len() == fates.len() {
            let mut finding = Finding::new(
                "output-vanished",
                Stage::Contract,
                Severity::Error,
                format!(
                    "forward returns {}, the asset would have {}",
                    text::count(fates.len(), "value"),
                    text::count(live, "output")
                ),
            );
            finding
                .evidence
                .extend(fates.iter().filter_map(Fate::explain));
            self.fail(finding.with_fix(output_fix(&fates)));
            return;
        }
        let returned: Vec<String> = self
            .program
            .returns()
            .enumerate()
            .map(|(i, o)| {
                format!(
                    "return {i}{}",
                    o.path
                        .as_deref()
                        .filter(|p| !p.is_empty())
                        .map(|p| format!(" ({p})"))
                        .unwrap_or_default()
                )
            })
            .collect();
        self.findings
            .push(wrong_count("output_names", "output", &given, &returned));
    }
}

fn wrong_count(field: &str, role: &str, given: &[String], there: &[String]) -> Finding {
    let mut finding = Finding::new(
        "wrong-number-of-names",
        Stage::Convert,
        Severity::Error,
        format!(
            "{field} has {}, the program has {}",
            text::count(given.len(), "name"),
            text::count(there.len(), role)
        ),
    );
    for i in 0..given.len().max(there.len()) {
        let name = given.get(i).map_or("(no name)".into(), |n| text::name(n));
        let what = there.get(i).map_or("(nothing)", String::as_str);
        finding = finding.with_evidence(format!("{role} {i}: {name} for {what}"));
    }
    finding.with_fix(format!(
        "give {field} one name for each {role}, in that order"
    ))
}
