//! Models × environments: how each cell stands to the first environment, and what the run amounts to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attribution::{steps, Step};
use super::record::Record;
use crate::contract::{diff, Level};
use crate::manifest::Allow;
use crate::report::{Finding, Severity, Stage};

/// Version of the JSON document.
pub const SCHEMA_VERSION: u32 = 1;

/// The finding that the asset could not be run at all.
const NOT_RUN: &str = "not-run";

/// One environment as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Its name, unique in the run.
    pub label: String,
    /// What was asked for: requirements, or the path of a Python that exists.
    pub asked: Vec<String>,
    /// Whether it was there before.
    pub existing: bool,
    /// Version of its Python.
    pub python: Option<String>,
    /// Package → version.
    pub packages: BTreeMap<String, String>,
    /// Why there is none, in one line.
    pub error: Option<String>,
}

/// A model with what became of it in each environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The model's name.
    pub name: String,
    /// `path.py:function`.
    pub recipe: String,
    /// Which changes of a contract count.
    pub level: Level,
    /// Findings that the manifest accepts.
    pub accepted: Vec<Allow>,
    /// One record for each environment; `None` where another machine has it.
    pub records: Vec<Option<Record>>,
}

/// How a cell stands to the first environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is the first environment, and there is an asset.
    Reference,
    /// The same contract and the same program.
    Same,
    /// The same contract of another program.
    ProgramChanged,
    /// The contract changed in nothing that counts.
    ContractCompatible,
    /// The contract changed.
    ContractChanged,
    /// There is no asset.
    CannotConvert,
    /// There is an asset, and none in the first environment to compare it with.
    NotCompared,
    /// Another machine has it.
    Elsewhere,
}

/// A row with its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The row.
    pub row: Row,
    /// One state for each environment.
    pub states: Vec<State>,
    /// Error findings of each environment that the first does not have, the accepted left out.
    pub new_findings: Vec<Vec<Finding>>,
    /// What each step along the environments brought.
    pub steps: Vec<Step>,
    /// 0: nothing moved; 1: something did; 2: something could not be judged.
    pub exit: i32,
}

/// The whole run, or a part of it.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// `k/n` for a part.
    pub shard: Option<String>,
    /// The environments in the order asked for; the first is the reference.
    pub environments: Vec<Environment>,
    /// The models.
    pub models: Vec<Judged>,
}

impl Matrix {
    /// Judges every row.
    pub fn new(shard: Option<String>, environments: Vec<Environment>, rows: Vec<Row>) -> Matrix {
        let judged = rows.into_iter().map(|r| judge(r, &environments));
        let models = judged
            .map(|mut model| {
                // In a part, the other machines have them; in the whole, nobody has judged them.
                if shard.is_none() && model.states.contains(&State::Elsewhere) {
                    model.exit = 2;
                }
                model
            })
            .collect();
        Matrix {
            shard,
            environments,
            models,
        }
    }

    /// Cells that nobody has, counted along the models of the first environment, then of the second, and
    /// so on.
    pub fn gaps(&self) -> Vec<usize> {
        let models = self.models.len();
        (0..models * self.environments.len())
            .filter(|cell| self.models[cell % models].states[cell / models] == State::Elsewhere)
            .collect()
    }

    /// The exit code: the worst of the models'.
    pub fn exit(&self) -> i32 {
        self.models.iter().map(|m| m.exit).max().unwrap_or(0)
    }
}

fn judge(row: Row, environments: &[Environment]) -> Judged {
    let first = row.records.first().and_then(Option::as_ref);
    let states: Vec<State> = row
        .records
        .iter()
        .enumerate()
        .map(|(i, record)| state(i, record.as_ref(), first, row.level))
        .collect();
    let new_findings: Vec<Vec<Finding>> = row
        .records
        .iter()
        .map(|record| match (record, first) {
            (Some(record), Some(first)) if record.failure.is_none() => {
                new_errors(record, first, &row.accepted)
            }
            _ => Vec::new(),
        })
        .collect();
    let exit = (0..states.len())
        .map(|i| exit_of(&row, i, states[i], &new_findings[i]))
        .max()
        .unwrap_or(0);
    Judged {
        steps: steps(&row, environments),
        row,
        states,
        new_findings,
        exit,
    }
}

fn state(index: usize, record: Option<&Record>, first: Option<&Record>, level: Level) -> State {
    let Some(record) = record else {
        return State::Elsewhere;
    };
    let Some(contract) = record
        .contract
        .as_ref()
        .filter(|_| record.failure.is_none())
    else {
        return State::CannotConvert;
    };
    if index == 0 {
        return State::Reference;
    }
    let first = first.filter(|f| f.failure.is_none());
    let Some((first, before)) = first.and_then(|f| Some((f, f.contract.as_ref()?))) else {
        return State::NotCompared;
    };
    let changes = diff(before, contract);
    if changes.iter().any(|c| c.counts_at(level)) {
        State::ContractChanged
    } else if !changes.is_empty() {
        State::ContractCompatible
    } else if first.fingerprint == record.fingerprint {
        State::Same
    } else {
        State::ProgramChanged
    }
}

fn exit_of(row: &Row, index: usize, state: State, new_findings: &[Finding]) -> i32 {
    let record = row.records[index].as_ref();
    let errors = record.iter().flat_map(|r| &r.findings).filter(|f| {
        let running = matches!(f.stage, Stage::Run | Stage::Check);
        running && f.severity == Severity::Error && !row.accepted.iter().any(|a| accepts(a, f))
    });
    // What cannot be run is not judged; what computes something else is found.
    let unchecked = errors.map(|f| if f.id == NOT_RUN { 2 } else { 1 }).max();
    let of_state = match state {
        State::CannotConvert => {
            let outside = record
                .and_then(|r| r.failure.as_ref())
                .is_none_or(|f| f.outside);
            let converted = |r: &Option<Record>| r.as_ref().is_some_and(|r| r.failure.is_none());
            // What used to convert and no longer does has moved; the rest could not be judged.
            let moved = !outside && row.records.first().is_some_and(converted);
            if moved {
                1
            } else {
                2
            }
        }
        State::NotCompared => match row.records.first() {
            Some(Some(_)) => 2,
            _ => 0,
        },
        State::ContractChanged => 1,
        State::ProgramChanged => i32::from(row.level == Level::Strict),
        State::Reference | State::Same | State::ContractCompatible | State::Elsewhere => 0,
    };
    of_state
        .max(unchecked.unwrap_or(0))
        .max(i32::from(!new_findings.is_empty()))
}

/// Error findings of `record` that `other` does not have and the manifest does not accept.
pub(super) fn new_errors(record: &Record, other: &Record, accepted: &[Allow]) -> Vec<Finding> {
    let same = |a: &Finding, b: &Finding| {
        a.id == b.id && a.function == b.function && a.subject == b.subject
    };
    record
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Error)
        .filter(|f| !other.findings.iter().any(|o| same(f, o)))
        .filter(|f| !accepted.iter().any(|a| accepts(a, f)))
        .cloned()
        .collect()
}

fn accepts(allow: &Allow, finding: &Finding) -> bool {
    let subject = allow.subject.as_ref();
    allow.id == finding.id && subject.is_none_or(|s| finding.subject.as_ref() == Some(s))
}
