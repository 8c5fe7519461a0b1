//! `coreai-audit report`: what to do with reports that were written.

use std::path::PathBuf;

use super::{Context, Exit, Failure, FormatArg};
use crate::contract::file;
use crate::upgrade;

/// Work with JSON reports that were written
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Merge(Merge),
}

/// Join the parts of an upgrade run that was spread with --shard
///
/// The whole is judged anew, and is the same as if one machine had run it. Where a part is missing, the
/// rest is told, and the exit code is 2.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit report merge 1.json 2.json\n  \
    coreai-audit report merge --format json part-*.json > whole.json\n\n\
    Exit codes: 0 no contract moved; 1 something moved; 2 something could not be judged.")]
struct Merge {
    /// Documents of `coreai-audit upgrade --shard K/N --format json`
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,

    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let Command::Merge(args) = self.command;
        let mut parts = Vec::new();
        for path in &args.parts {
            parts.push((path.display().to_string(), file::read_text(path)?));
        }
        let merged = upgrade::merge(&parts)?;
        if let Some(missing) = &merged.missing {
            eprintln!("error: {missing}");
        }
        super::matrix::show(&merged.matrix, args.format.format, context)
    }
}
