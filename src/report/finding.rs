//! What a check saw.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;

/// One thing a check found, about one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Stable kebab-case id of the kind of finding.
    pub id: Cow<'static, str>,
    /// The stage that found it.
    pub stage: Stage,
    /// How much it matters.
    pub severity: Severity,
    /// The function (entry point) it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The state, port, op or file it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What was seen: one observation a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A finding about the model as a whole; add the rest with the methods below.
    pub fn new(
        id: impl Into<Cow<'static, str>>,
        stage: Stage,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Finding {
            id: id.into(),
            stage,
            severity,
            function: None,
            subject: None,
            message: message.into(),
            evidence: Vec::new(),
            fix: None,
        }
    }

    /// Names the function it is about.
    pub fn in_function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Names the state, port, op or file it is about.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Adds an observation.
    pub fn with_evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    /// Says what to change.
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The order of reading: errors first, then by stage and place.
    fn key(&self) -> impl Ord + '_ {
        (
            (self.severity, self.stage, &self.function, &self.subject),
            (&self.id, &self.message, &self.evidence, &self.fix),
        )
    }
}

impl Ord for Finding {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Finding {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The part of the work that found something, in the order the parts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// `torch.export` and the recipe behind it.
    Export,
    /// The converter.
    Convert,
    /// Reading the contract and making its sources agree.
    Contract,
    /// Comparing with the accepted contract.
    Snapshot,
    /// Rules on the graph.
    Lint,
    /// What the engines that load assets accept.
    Consumer,
    /// Running the asset.
    Run,
    /// Comparing with PyTorch.
    Check,
}

impl Stage {
    /// The name used in JSON and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Export => "export",
            Stage::Convert => "convert",
            Stage::Contract => "contract",
            Stage::Snapshot => "snapshot",
            Stage::Lint => "lint",
            Stage::Consumer => "consumer",
            Stage::Run => "run",
            Stage::Check => "check",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How much a finding matters; the worst stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The promise is broken: the command exits with 1.
    Error,
    /// Worth a look; does not change the exit code.
    Warning,
    /// Good to know; does not change the exit code.
    Advice,
}

impl Severity {
    /// The name used in JSON and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "advice",
        }
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether any finding is an error, so that the command has to exit with 1.
pub fn fails(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, stage: Stage, id: &'static str) -> Finding {
        Finding::new(id, stage, severity, "m")
    }

    #[test]
    fn errors_come_first_then_the_stages_in_the_order_they_run() {
        let mut all = [
            finding(Severity::Advice, Stage::Export, "a"),
            finding(Severity::Error, Stage::Check, "b"),
            finding(Severity::Warning, Stage::Lint, "c"),
            finding(Severity::Error, Stage::Contract, "e"),
            finding(Severity::Error, Stage::Contract, "d"),
        ];
        all.sort();
        let ids: Vec<&str> = all.iter().map(|f| f.id.as_ref()).collect();
        assert_eq!(ids, ["d", "e", "b", "c", "a"]);
    }

    #[test]
    fn only_errors_fail_the_command() {
        let advice = finding(Severity::Advice, Stage::Lint, "a");
        let warning = finding(Severity::Warning, Stage::Lint, "a");
        let error = finding(Severity::Error, Stage::Lint, "a");
        assert!(!fails(&[]));
        assert!(!fails(&[advice.clone(), warning]));
        assert!(fails(&[advice, error]));
    }

    #[test]
    fn a_finding_survives_json_and_leaves_out_what_it_has_not() {
        let short = finding(Severity::Error, Stage::Contract, "output-vanished");
        assert_eq!(
            serde_json::to_string(&short).unwrap(),
            r#"{"id":"output-vanished","stage":"contract","severity":"error","message":"m"}"#
        );
        let full = short
            .in_function("main")
            .about("k")
            .with_evidence("saw it")
            .with_fix("do");
        let json = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Finding>(&json).unwrap(), full);
    }
}
