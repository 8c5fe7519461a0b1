//! `coreai-audit upgrade envs`: the environments that were made.

use std::io::Write;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::json;

use super::EnvDirArg;
use crate::cli::{Context, Exit, Failure, Format, FormatArg};
use crate::convert::bytes;
use crate::text;
use crate::upgrade::envs::{self, Made};

/// Version of the JSON documents.
const SCHEMA_VERSION: u32 = 1;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Digits of the key that are shown and suffice to name one.
const SHOWN_DIGITS: usize = 8;

/// List and remove the environments that `upgrade` has made
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(List),
    Prune(Prune),
}

/// List the environments, the most recently used first
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit upgrade envs list\n  \
    coreai-audit upgrade envs list --format json")]
struct List {
    #[command(flatten)]
    env_dir: EnvDirArg,

    #[command(flatten)]
    format: FormatArg,
}

/// Remove environments that have not been used for a while, and what killed runs and half removals left
///
/// Files that are shared with uv's cache take no disk twice; `uv cache prune` and `uv cache clean`
/// free the rest.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit upgrade envs prune                  what was not used for 30 days\n  \
    coreai-audit upgrade envs prune --unused 0       everything\n  \
    coreai-audit upgrade envs prune 3f2a91bc         one of them")]
struct Prune {
    /// Remove these, as `list` names them [default: by age]
    #[arg(value_name = "ENV")]
    names: Vec<String>,

    /// Remove what was not used for this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    unused: u32,

    #[command(flatten)]
    env_dir: EnvDirArg,

    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        match self.command {
            Command::List(args) => args.run(context),
            Command::Prune(args) => args.run(context),
        }
    }
}

impl List {
    fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let folder = self.env_dir.folder()?;
        let all = envs::list(&folder)?;
        match self.format.format {
            Format::Json => {
                let rows: Vec<_> = all.iter().map(document).collect();
                let document = json!({
                    "schema_version": SCHEMA_VERSION,
                    "folder": folder,
                    "environments": rows,
                    "damaged": envs::spoilt(&folder),
                });
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
            Format::Human if all.is_empty() => {
                writeln!(context.out, "no environments in {}", folder.display())?;
            }
            Format::Human => {
                write!(context.out, "{}", table(&all))?;
                writeln!(context.out, "in {}", folder.display())?;
            }
        }
        for damaged in envs::spoilt(&folder) {
            writeln!(
                context.err,
                "{}: its marker is damaged; nothing uses it, and prune removes it",
                damaged.display()
            )?;
        }
        Ok(Exit::Good)
    }
}

fn table(all: &[Made]) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header([
            "env",
            "python",
            "torch",
            "coreai-torch",
            "packages",
            "size",
            "shared",
            "unused for",
        ]);
    for made in all {
        let lock = &made.marker.lock;
        let versions = lock.versions();
        let version = |name: &str| {
            let version = versions.get(name).map_or("–", String::as_str);
            text::line(version).into_owned()
        };
        let (size, shared) = made.size();
        let days = made.unused_for().as_secs() / DAY.as_secs();
        table.add_row([
            name(made),
            text::line(&lock.python).into_owned(),
            version("torch"),
            version("coreai-torch"),
            lock.packages.len().to_string(),
            bytes(size),
            bytes(shared),
            text::count(days as usize, "day"),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= 4 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
        .lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect()
}

fn name(made: &Made) -> String {
    let key = text::line(&made.marker.key);
    key.chars().take(SHOWN_DIGITS).collect()
}

fn document(made: &Made) -> serde_json::Value {
    let (size, shared) = made.size();
    json!({
        "key": made.marker.key,
        "folder": made.folder,
        "python": made.marker.lock.python,
        "packages": made.marker.lock.versions(),
        "bytes": size,
        "shared_bytes": shared,
        "unused_seconds": made.unused_for().as_secs(),
    })
}

impl Prune {
    fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let folder = self.env_dir.folder()?;
        envs::sweep(&folder);
        let spoilt = envs::spoilt(&folder);
        for damaged in &spoilt {
            envs::remove_spoilt(damaged)?;
            writeln!(
                context.err,
                "removed {}: its marker was damaged",
                damaged.display()
            )?;
        }
        let all = envs::list(&folder)?;
        for name in &self.names {
            let matching = all
                .iter()
                .filter(|m| m.marker.key.starts_with(name.as_str()));
            match (matching.count(), name.len()) {
                (1, SHOWN_DIGITS..) => {}
                (0, _) => return Err(format!("{name}: no such environment in {}", folder.display()).into()),
                _ => return Err(format!("{name}: give at least {SHOWN_DIGITS} digits, and enough to tell one from another").into()),
            }
        }
        let limit = DAY * self.unused;
        let goes = |made: &&Made| match self.names.is_empty() {
            true => made.unused_for() >= limit,
            false => self
                .names
                .iter()
                .any(|n| made.marker.key.starts_with(n.as_str())),
        };
        let (mut freed, mut removed) = (0, Vec::new());
        for made in all.iter().filter(goes) {
            let (size, shared) = made.size();
            made.remove()?;
            freed += size - shared;
            removed.push(made);
        }
        match self.format.format {
            Format::Json => {
                let keys: Vec<&str> = removed.iter().map(|m| m.marker.key.as_str()).collect();
                let document = json!({
                    "schema_version": SCHEMA_VERSION,
                    "folder": folder,
                    "removed": keys,
                    "removed_damaged": spoilt,
                    "freed_bytes": freed,
                });
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
            Format::Human => writeln!(
                context.out,
                "removed {} of {}, {} freed",
                removed.len(),
                text::count(all.len(), "environment"),
                bytes(freed)
            )?,
        }
        Ok(Exit::Good)
    }
}
