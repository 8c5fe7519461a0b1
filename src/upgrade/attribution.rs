//! Which step along the environments brought which change.

use serde::Serialize;

use super::matrix::{new_errors, Environment, Row};
use super::record::Record;
use super::signature_diff::{self, SignatureChange};
use crate::contract::{diff, Change, Level};
use crate::report::Finding;

/// One model from one environment to the next that can be compared with it.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The environment before.
    pub from: String,
    /// The environment after.
    pub to: String,
    /// Environments between the two where nothing is known of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub across: Vec<String>,
    /// What the contract did; `None` where a side has none.
    pub contract: Option<Vec<Counted>>,
    /// Whether the programs are the same; `None` where a side has none.
    pub same_program: Option<bool>,
    /// What differs in the graph signatures.
    pub signature: Vec<SignatureChange>,
    /// Error findings that came.
    pub new_findings: Vec<Finding>,
    /// Error findings that went.
    pub gone_findings: Vec<Finding>,
}

/// A change, and whether it counts at the model's level.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// Whether it counts.
    pub counts: bool,
}

impl Step {
    /// Whether there is nothing to tell.
    pub fn is_quiet(&self) -> bool {
        self.contract.as_ref().is_none_or(Vec::is_empty)
            && self.same_program != Some(false)
            && self.signature.is_empty()
            && self.new_findings.is_empty()
            && self.gone_findings.is_empty()
    }
}

/// Compares every record that came at least to a graph signature with the next one that did.
pub(super) fn steps(row: &Row, environments: &[Environment]) -> Vec<Step> {
    let label = |i: usize| {
        environments
            .get(i)
            .map_or_else(String::new, |e| e.label.clone())
    };
    let known: Vec<(usize, &Record)> = row
        .records
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, r.as_ref()?)))
        .filter(|(_, r)| r.contract.is_some() || !r.signature.is_empty())
        .collect();
    known
        .windows(2)
        .filter_map(|pair| match pair {
            [(i, old), (j, new)] => Some(Step {
                from: label(*i),
                to: label(*j),
                across: (i + 1..*j).map(label).collect(),
                contract: contracts(old, new, row.level),
                same_program: old
                    .fingerprint
                    .as_ref()
                    .zip(new.fingerprint.as_ref())
                    .map(|(a, b)| a == b),
                signature: signature_diff::compare(&old.signature, &new.signature),
                new_findings: new_errors(new, old, &row.accepted),
                gone_findings: new_errors(old, new, &row.accepted),
            }),
            _ => None,
        })
        .collect()
}

fn contracts(old: &Record, new: &Record, level: Level) -> Option<Vec<Counted>> {
    let changes = diff(old.contract.as_ref()?, new.contract.as_ref()?);
    let counted = changes.into_iter().map(|change| Counted {
        counts: change.counts_at(level),
        change,
    });
    Some(counted.collect())
}
