//! `coreai-audit diff`: what changed between two contracts.

use super::load::load_contract;
use super::{Context, Exit, Failure, Format, FormatArg, LevelArg};
use crate::contract::{diff, Change, Level};
use crate::report::{count_changes, render_changes};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// Tell what changed between two contracts
///
/// Each side is a contract in JSON or a snapshot, accepted (.snap) or pending (.snap.new). A reorder is
/// told as a reorder and a rename as a rename; names that stayed while the buffers behind them changed
/// places are told too, if both contracts record their sources.
///
/// Every change is breaking (some consumer fails, or silently gets something else), compatible (every
/// consumer that worked still works) or a note. Which of them make the command exit with 1 is chosen with
/// --level.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit diff old.json new.json\n  \
    coreai-audit diff snapshots/decoder.snap snapshots/decoder.snap.new\n  \
    coreai-audit diff --level runtime --format json old.json new.json\n\n\
    Exit codes: 0 nothing changed that counts; 1 something did; 2 a file is no contract.")]
pub struct Args {
    /// The contract before: JSON or a snapshot
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The contract after: JSON or a snapshot
    #[arg(value_name = "NEW")]
    new: PathBuf,

    #[command(flatten)]
    level: LevelArg,

    #[command(flatten)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    old: String,
    new: String,
    level: Level,
    /// Whether any change counts at the level.
    counts: bool,
    changes: Vec<Counted<'a>>,
}

/// A change, and whether it counts at the chosen level.
#[derive(Serialize)]
struct Counted<'a> {
    #[serde(flatten)]
    change: &'a Change,
    counts: bool,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let level = self.level.level();
        let changes = diff(&load_contract(&self.old)?, &load_contract(&self.new)?);
        let counting = changes
            .iter()
            .filter(|change| change.counts_at(level))
            .count();
        match self.format.format {
            Format::Human => {
                let mut shown = String::new();
                render_changes(&mut shown, &changes, level, context.out.paint)?;
                write!(context.out, "{shown}")?;
                let total = count_changes(&changes);
                match changes.len() {
                    0 => writeln!(context.out, "{total}")?,
                    _ => writeln!(
                        context.out,
                        "{total}; counting at level {}: {counting}",
                        level.as_str()
                    )?,
                }
            }
            Format::Json => {
                let shown = |path: &Path| path.display().to_string();
                let document = Document {
                    schema_version: SCHEMA_VERSION,
                    old: shown(&self.old),
                    new: shown(&self.new),
                    level,
                    counts: counting > 0,
                    changes: changes
                        .iter()
                        .map(|change| Counted {
                            change,
                            counts: change.counts_at(level),
                        })
                        .collect(),
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(if counting > 0 {
            Exit::Found
        } else {
            Exit::Good
        })
    }
}
