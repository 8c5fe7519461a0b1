//! The run as one JSON document, and parts of a run joined from theirs.

use serde::Deserialize;
use serde_json::{json, Value};

use super::matrix::{Environment, Judged, Matrix, Row, SCHEMA_VERSION};
use super::record::Record;
use super::shard::Shard;
use crate::contract::Level;
use crate::manifest::Allow;
use crate::text;

/// The run as a document; what differs from run to run stands under `run` of each cell.
pub fn document(matrix: &Matrix) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "coreai-audit", "version": env!("CARGO_PKG_VERSION")},
        "command": "upgrade",
        "exit": matrix.exit(),
        "shard": matrix.shard,
        "environments": matrix.environments,
        "models": matrix.models.iter().map(|m| model(m, &matrix.environments)).collect::<Vec<_>>(),
    })
}

fn model(judged: &Judged, environments: &[Environment]) -> Value {
    let row = &judged.row;
    let cells: Vec<Value> = row
        .records
        .iter()
        .zip(environments)
        .enumerate()
        .map(|(i, (record, environment))| {
            json!({
                "environment": environment.label,
                "state": judged.states[i],
                "new_findings": judged.new_findings[i],
                "record": record,
            })
        })
        .collect();
    json!({
        "name": row.name,
        "recipe": row.recipe,
        "level": row.level,
        "accepted": row.accepted,
        "exit": judged.exit,
        "cells": cells,
        "steps": judged.steps,
    })
}

/// Why documents cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// It is not a document of `upgrade`.
    #[error("{name}: expected a JSON document of `coreai-audit upgrade --format json`: {why}")]
    Format {
        /// The file.
        name: String,
        /// What is wrong, and where.
        why: String,
    },
    /// It was written by another version.
    #[error("{name}: schema_version {found}, this version reads {SCHEMA_VERSION}; use one version for all parts")]
    Version {
        /// The file.
        name: String,
        /// What it says.
        found: u32,
    },
    /// Parts of different runs.
    #[error("{name}: is no part of the same run as {first}: {what} differ")]
    OtherRun {
        /// The file.
        name: String,
        /// The first file.
        first: String,
        /// Models, environments or recipes.
        what: &'static str,
    },
    /// One cell, two different answers.
    #[error("{name}: {model} in {environment} is told otherwise by another part")]
    Contradiction {
        /// The file.
        name: String,
        /// The model.
        model: String,
        /// The environment.
        environment: String,
    },
    /// What it says of itself is no part of a whole.
    #[error("{name}: {why}")]
    Shard {
        /// The file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing to join.
    #[error("nothing to merge")]
    Nothing,
}

#[derive(Deserialize)]
struct Head {
    schema_version: u32,
    command: String,
}

#[derive(Deserialize)]
struct Tool {
    version: String,
}

/// Parts that were joined.
#[derive(Debug)]
pub struct Merged {
    /// What they are together.
    pub matrix: Matrix,
    /// What is not there, in one line.
    pub missing: Option<String>,
}

#[derive(Deserialize)]
struct Part {
    tool: Tool,
    shard: Option<String>,
    environments: Vec<Environment>,
    models: Vec<PartModel>,
}

#[derive(Deserialize)]
struct PartModel {
    name: String,
    recipe: String,
    level: Level,
    accepted: Vec<Allow>,
    cells: Vec<PartCell>,
}

#[derive(Deserialize)]
struct PartCell {
    record: Option<Record>,
}

/// Joins the documents of the parts of one run, given as (file name, text).
///
/// # Errors
/// When a text is no such document, or the parts are not of one run.
pub fn merge(parts: &[(String, String)]) -> Result<Merged, MergeError> {
    let mut whole: Option<(String, Vec<Environment>, Vec<Row>)> = None;
    let mut tool: Option<String> = None;
    let mut shards: Option<(String, Shard)> = None;
    for (name, text) in parts {
        let part = read(name, text)?;
        let version = tool.get_or_insert_with(|| part.tool.version.clone());
        if part.tool.version != *version {
            return Err(MergeError::Shard {
                name: name.clone(),
                why: format!(
                    "was written by version {} of coreai-audit, and {} by {version}: use one version for all parts",
                    part.tool.version, parts[0].0
                ),
            });
        }
        if let Some(shard) = &part.shard {
            let shard = shard.parse().map_err(|why| MergeError::Shard {
                name: name.clone(),
                why,
            })?;
            let (first, other) = shards.get_or_insert_with(|| (name.clone(), shard));
            if !shard.is_of_same(*other) {
                return Err(MergeError::Shard {
                    name: name.clone(),
                    why: format!(
                        "is part {shard}, and {first} is part {other}: expected parts of as many"
                    ),
                });
            }
        }
        let rows: Vec<Row> = part.models.into_iter().map(row).collect();
        let Some((first, environments, joined)) = &mut whole else {
            check_width(name, &part.environments, &rows)?;
            whole = Some((name.clone(), part.environments, rows));
            continue;
        };
        let other = |what| MergeError::OtherRun {
            name: name.clone(),
            first: first.clone(),
            what,
        };
        if part.environments != *environments {
            return Err(other("the environments"));
        }
        check_width(name, environments, &rows)?;
        let same = |a: &Row, b: &Row| {
            (&a.name, &a.recipe, a.level, &a.accepted) == (&b.name, &b.recipe, b.level, &b.accepted)
        };
        if rows.len() != joined.len() || !rows.iter().zip(joined.iter()).all(|(a, b)| same(a, b)) {
            return Err(other("the models"));
        }
        for (row, into) in rows.into_iter().zip(joined) {
            join(name, environments, row, into)?;
        }
    }
    let (_, environments, rows) = whole.ok_or(MergeError::Nothing)?;
    let matrix = Matrix::new(None, environments, rows);
    let missing = missing(&matrix, shards.map(|(_, shard)| shard));
    Ok(Merged { matrix, missing })
}

/// What nobody has: whole parts by their numbers, as far as the documents tell how many there are.
fn missing(matrix: &Matrix, shard: Option<Shard>) -> Option<String> {
    let gaps = matrix.gaps();
    let total = matrix.models.len() * matrix.environments.len();
    let cells = text::count(gaps.len(), "cell");
    let mut parts: Vec<String> = Vec::new();
    for cell in &gaps {
        let Some(shard) = shard else { break };
        let part = shard.holder(*cell, total).to_string();
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let not_judged = format!("{cells} of {total} not judged");
    match (gaps.is_empty(), parts.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("a part is missing: {not_judged}")),
        (false, false) => Some(format!(
            "{} {} missing: {not_judged}",
            text::list(
                &parts
                    .iter()
                    .map(|p| format!("part {p}"))
                    .collect::<Vec<_>>()
            ),
            if parts.len() == 1 { "is" } else { "are" }
        )),
    }
}

fn read(name: &str, text: &str) -> Result<Part, MergeError> {
    let wrong = |why: String| MergeError::Format {
        name: name.to_owned(),
        why,
    };
    let head: Head = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
    if head.command != "upgrade" {
        return Err(wrong(format!("its command is {:?}", head.command)));
    }
    if head.schema_version != SCHEMA_VERSION {
        return Err(MergeError::Version {
            name: name.to_owned(),
            found: head.schema_version,
        });
    }
    let reader = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(reader)
        .map_err(|e| wrong(format!("{}: {}", e.path(), e.inner())))
}

fn check_width(name: &str, environments: &[Environment], rows: &[Row]) -> Result<(), MergeError> {
    match rows.iter().find(|r| r.records.len() != environments.len()) {
        Some(row) => Err(MergeError::Format {
            name: name.to_owned(),
            why: format!(
                "model {} has {} cells for {} environments",
                row.name,
                row.records.len(),
                environments.len()
            ),
        }),
        None => Ok(()),
    }
}

fn row(model: PartModel) -> Row {
    Row {
        name: model.name,
        recipe: model.recipe,
        level: model.level,
        accepted: model.accepted,
        records: model.cells.into_iter().map(|c| c.record).collect(),
    }
}

fn join(
    name: &str,
    environments: &[Environment],
    from: Row,
    into: &mut Row,
) -> Result<(), MergeError> {
    let model = from.name;
    for ((record, slot), environment) in from
        .records
        .into_iter()
        .zip(&mut into.records)
        .zip(environments)
    {
        match (record, &slot) {
            (None, _) => {}
            (Some(record), None) => *slot = Some(record),
            (Some(record), Some(there)) => {
                let bare = |r: &Record| Record {
                    run: Default::default(),
                    ..r.clone()
                };
                if bare(&record) != bare(there) {
                    return Err(MergeError::Contradiction {
                        name: name.to_owned(),
                        model,
                        environment: environment.label.clone(),
                    });
                }
            }
        }
    }
    Ok(())
}
