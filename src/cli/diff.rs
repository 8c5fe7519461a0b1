//! `coreai-audit diff`: what changed between two contracts.

use super::{Context, Exit, Failure, Format, FormatArg, LevelArg};
use crate::asset::Fingerprint;
use crate::contract::{diff, Change, Level};
use crate::load::{load, Loaded};
use crate::report::{count_changes, render_changes};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// Tell what changed between two contracts
///
/// Each side is an asset (.aimodel), a contract in JSON, or a snapshot, accepted (.snap) or pending
/// (.snap.new). A reorder is told as a reorder and a rename as a rename; names that stayed while the buffers behind them changed
/// places are told too, if both contracts record their sources.
///
/// Every change is breaking (some consumer fails, or silently gets something else), compatible (every
/// consumer that worked still works) or a note. Between two assets it is also told whether they are the
/// same program, by their fingerprints; for that the weights are read. Which of them make the command exit with 1 is chosen with
/// --level.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit diff old.aimodel new.aimodel\n  \
    coreai-audit diff old.json new.aimodel\n  \
    coreai-audit diff snapshots/decoder.snap snapshots/decoder.snap.new\n  \
    coreai-audit diff --level runtime --format json old.json new.json\n\n\
    Exit codes: 0 nothing changed that counts; 1 something did; 2 a side has no contract.")]
pub struct Args {
    /// The contract before: an asset, JSON or a snapshot
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The contract after: an asset, JSON or a snapshot
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
    /// Whether two assets are the same program.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Programs>,
}

/// The fingerprints of two assets.
#[derive(Serialize)]
struct Programs {
    same: bool,
    old: Fingerprint,
    new: Fingerprint,
}

impl Programs {
    /// Compares two assets; `None` where one side is none.
    fn compare(old: &Loaded, new: &Loaded) -> Result<Option<Programs>, Failure> {
        let (Some((a, m)), Some((b, n))) = (&old.program, &new.program) else {
            return Ok(None);
        };
        let (old, new) = (a.fingerprint(m)?, b.fingerprint(n)?);
        Ok(Some(Programs {
            same: old == new,
            old,
            new,
        }))
    }
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
        let (old, new) = (load(&self.old)?, load(&self.new)?);
        let programs = Programs::compare(&old, &new)?;
        let changes = diff(&old.contract, &new.contract);
        let counting = changes
            .iter()
            .filter(|change| change.counts_at(level))
            .count();
        // At the level where anything counts, so does another program.
        let changed = programs.as_ref().is_some_and(|p| !p.same);
        let found = counting > 0 || (changed && level == Level::Strict);
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
                if let Some(programs) = &programs {
                    let told = match programs.same {
                        true => "the same program",
                        false => "another program: ops, wiring or weights changed",
                    };
                    writeln!(context.out, "{told}")?;
                }
            }
            Format::Json => {
                let shown = |path: &Path| path.display().to_string();
                let document = Document {
                    schema_version: SCHEMA_VERSION,
                    old: shown(&self.old),
                    new: shown(&self.new),
                    level,
                    counts: found,
                    changes: changes
                        .iter()
                        .map(|change| Counted {
                            change,
                            counts: change.counts_at(level),
                        })
                        .collect(),
                    program: programs,
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(if found { Exit::Found } else { Exit::Good })
    }
}
