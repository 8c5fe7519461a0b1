//! The converted asset run against the reference that was recorded before its export.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::check::{self, CastPair, Hints, Lost, Options, RandomOp, Tolerances, Trace};
use crate::contract::{Contract, FunctionSignature, Site};
use crate::convert::{Outcome, Progress, StageTime, Step};
use crate::manifest::Model;
use crate::report::{Finding, Severity, Stage};

/// Where the reference trace of an asset stands: beside it, under its name.
pub fn trace_path(asset: &Path) -> PathBuf {
    asset.with_extension("trace.safetensors")
}

/// What running the asset came to.
#[derive(Default)]
pub struct Checked {
    /// What was measured; absent where nothing could be run.
    pub report: Option<check::Report>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// The asset could not be run at all.
    pub could_not: bool,
    /// How long it took.
    pub time: Option<StageTime>,
}

/// Runs a conversion's asset against its reference, and puts the contract and what is known of the
/// program into the trace.
pub fn run(
    model: &Model,
    outcome: &Outcome,
    contract: &Contract,
    asset: &Path,
    trace: &Path,
    progress: &mut dyn Progress,
) -> Checked {
    let mut checked = Checked::default();
    if !outcome.reference {
        checked.findings.extend(no_reference(outcome));
        return checked;
    }
    if !outcome.saved {
        return checked;
    }
    progress.step(Step::Check);
    let start = Instant::now();
    let options = Options {
        tolerances: Tolerances {
            atol: model.atol,
            rtol: model.rtol,
        },
        hints: hints(&outcome.functions, contract),
        ..Options::default()
    };
    let result = Trace::open(trace)
        .and_then(|t| t.with_contract(contract, &options.hints))
        .map_err(check::CheckError::from)
        .and_then(|t| check::check_with(asset, contract, &t, &options, &mut Ticks(progress)));
    match result {
        Ok(mut report) => {
            checked.findings = std::mem::take(&mut report.findings);
            checked.report = Some(report);
        }
        // What PyTorch refuses is told where it was tried, and is no fault of the asset's.
        Err(check::CheckError::Refused { said, function, .. }) => {
            let mut finding = Finding::new(
                "eager-refuses",
                Stage::Run,
                Severity::Error,
                "eager PyTorch refuses the first call: nothing can be compared with it",
            )
            .with_evidence(said);
            finding.function = Some(function);
            checked.findings.push(finding);
        }
        Err(error) => {
            let mut finding = Finding::new(
                "not-run",
                Stage::Run,
                Severity::Error,
                "the asset cannot be run against its reference",
            )
            .with_evidence(error.to_string());
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                finding = finding.with_evidence(error.to_string());
                cause = error.source();
            }
            checked.findings.push(finding);
            checked.could_not = true;
        }
    }
    checked.time = Some(StageTime {
        stage: Step::Check,
        seconds: start.elapsed().as_secs_f64(),
    });
    checked
}

/// Signs of life while the asset runs.
struct Ticks<'p>(&'p mut dyn Progress);

impl check::Progress for Ticks<'_> {
    fn call(&mut self, _: check::trace::Start, _: usize, _: usize) {
        self.0.tick();
    }

    fn protocol(&mut self, _: check::ProtocolKind) {
        self.0.tick();
    }
}

fn no_reference(outcome: &Outcome) -> Option<Finding> {
    let why = outcome
        .functions
        .iter()
        .find_map(|f| f.no_reference.as_ref())?;
    Some(
        Finding::new(
            "no-reference",
            Stage::Check,
            Severity::Advice,
            "the asset was not run against PyTorch: there is no reference",
        )
        .with_evidence(why.clone())
        .with_fix(
            "give the recipe a module, or run `coreai-audit check` with a trace recorded elsewhere",
        ),
    )
}

/// What the exported program and the eager calls say of the values.
fn hints(functions: &[FunctionSignature], contract: &Contract) -> Hints {
    let mut hints = Hints::default();
    for function in functions {
        let name = || function.name.clone();
        if function.program.is_some() {
            hints.read.push(name());
        }
        hints.casts.extend(function.casts.iter().map(|c| CastPair {
            function: name(),
            from: c.from.clone(),
            via: c.via.clone(),
            site: place(c.site.as_ref()),
        }));
        hints
            .random
            .extend(function.random.iter().map(|r| RandomOp {
                function: name(),
                what: r.what.clone(),
                site: place(r.site.as_ref()),
            }));
        // Which buffers are lost follows from the trace, which has the mode that was exported: those that
        // change in training alone do not change there.
        let unseen = function
            .observed
            .as_ref()
            .is_some_and(|o| o.mode == "train" && !function.training);
        let changed = function.observed.iter().flat_map(|o| &o.changed);
        let others = changed
            .filter(|c| (c.kind != "buffer" || unseen) && !is_state(function, contract, &c.name));
        hints.lost.extend(others.map(|c| Lost {
            function: name(),
            kind: match c.kind.as_str() {
                "attribute" => "tensor".to_owned(),
                other => other.to_owned(),
            },
            name: c.name.clone(),
        }));
    }
    hints
}

/// Whether a name is one of a state's: its buffer, an alias of it, or a view of its memory.
fn is_state(function: &FunctionSignature, contract: &Contract, name: &str) -> bool {
    let states = contract
        .functions
        .iter()
        .filter(|f| f.name == function.name)
        .flat_map(|f| &f.states);
    let sources: Vec<&str> = states
        .filter_map(|s| s.source.as_ref())
        .map(|s| s.name.as_str())
        .collect();
    let groups = function.aliases.iter().chain(&function.storages);
    sources.contains(&name)
        || groups.into_iter().any(|group| {
            group.iter().any(|n| n == name) && group.iter().any(|n| sources.contains(&n.as_str()))
        })
}

fn place(site: Option<&Site>) -> String {
    site.and_then(Site::place).unwrap_or_default()
}

/// Lays what running found beside what reading found: the same thing is told once, with both kinds of
/// evidence.
pub fn merge(findings: &mut Vec<Finding>, checked: Vec<Finding>, report: Option<&check::Report>) {
    if let Some(report) = report.filter(|r| r.parity_holds() && !r.runs.is_empty()) {
        let calls = report.runs.iter().map(|r| r.compared).max().unwrap_or(0);
        for lost in findings.iter_mut().filter(|f| f.id == "write-lost") {
            lost.evidence.push(format!(
                "run against PyTorch: everything the asset computes agrees over {}, so its outputs cannot show it",
                crate::text::count(calls, "call")
            ));
        }
    }
    for new in checked {
        let same_kind = |old: &Finding| old.id == new.id && old.function == new.function;
        let same = |old: &Finding| same_kind(old) && old.subject == new.subject;
        // Running sees the loss at an output, and names what was lost.
        let named = |old: &Finding| {
            let names = |subject: &String| new.message.contains(subject.as_str());
            same_kind(old) && old.stage < new.stage && old.subject.as_ref().is_none_or(names)
        };
        let place = findings.iter().position(same);
        let place = place.or_else(|| findings.iter().position(named));
        // An output that nobody returned is nowhere to be compared with.
        let extra = |old: &Finding| old.id == "extra-output" && old.function == new.function;
        if new.id == "not-compared" && findings.iter().any(extra) {
            for old in findings.iter_mut().filter(|f| f.id == "extra-output") {
                old.evidence.push(new.message.clone());
            }
            continue;
        }
        let new_words = new.message.clone();
        let (id, function, stage) = (new.id.clone(), new.function.clone(), new.stage);
        match place.and_then(|i| findings.get_mut(i)) {
            Some(old) => {
                let lines = std::iter::once(format!("run against PyTorch: {}", new.message));
                for line in lines.chain(new.evidence) {
                    if !old.evidence.contains(&line) {
                        old.evidence.push(line);
                    }
                }
                old.severity = old.severity.min(new.severity);
                old.fix = old.fix.take().or(new.fix);
            }
            None => findings.push(new),
        }
        // Further things of the same kind that this one names as well.
        if let Some(kept) = place {
            let mut at = 0;
            findings.retain(|old| {
                let other = at != kept && old.id == id && old.function == function;
                at += 1;
                let named = |subject: &String| mentions(&new_words, subject);
                !(other && old.stage < stage && old.subject.as_ref().is_some_and(named))
            });
        }
    }
}

/// Whether a text has a name in it, and not as a part of another one.
fn mentions(text: &str, name: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || "_.[]".contains(c);
    let mut places = text.match_indices(name);
    places.any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(of_name) && !after.is_some_and(of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &'static str, subject: Option<&str>, message: &str) -> Finding {
        at(Stage::Check, id, subject, message)
    }

    fn at(stage: Stage, id: &'static str, subject: Option<&str>, message: &str) -> Finding {
        let finding = Finding::new(id, stage, Severity::Warning, message);
        match subject {
            Some(subject) => finding.about(subject),
            None => finding,
        }
    }

    #[test]
    fn one_fault_that_two_stages_see_is_told_once() {
        let mut all = vec![finding("write-lost", Some("k"), "k is lost")];
        let seen = finding("write-lost", Some("k"), "y differs").with_evidence("2 against 3");
        merge(
            &mut all,
            vec![seen, finding("values-differ", None, "y differs")],
            None,
        );
        let ids: Vec<&str> = all.iter().map(|f| &*f.id).collect();
        assert_eq!(ids, ["write-lost", "values-differ"]);
        assert_eq!(all[0].message, "k is lost");
        assert_eq!(
            all[0].evidence,
            ["run against PyTorch: y differs", "2 against 3"]
        );
    }

    #[test]
    fn what_running_shows_at_an_output_belongs_to_what_was_lost() {
        let mut all = vec![at(Stage::Contract, "write-lost", Some("k"), "k is lost")];
        merge(
            &mut all,
            vec![finding("write-lost", Some("y"), "k changes, y differs")],
            None,
        );
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].subject.as_deref(), Some("k"));
        assert_eq!(
            all[0].evidence,
            ["run against PyTorch: k changes, y differs"]
        );
    }

    #[test]
    fn another_subject_is_another_finding() {
        let mut all = vec![finding("write-lost", Some("k"), "k is lost")];
        merge(
            &mut all,
            vec![finding("write-lost", Some("v"), "v is lost")],
            None,
        );
        assert_eq!(all.len(), 2);
    }
}
