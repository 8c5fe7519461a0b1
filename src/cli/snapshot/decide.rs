//! `coreai-audit snapshot accept` and `reject`.

use super::FolderArgs;
use crate::cli::{Context, Exit, Failure, Format, FormatArg};
use crate::contract::snapshot::SnapshotError;
use crate::text;
use serde::Serialize;
use std::io::Write;

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// Accept pending contracts: they become what conversions are compared with
///
/// Look at them first, with `coreai-audit snapshot check`. If one of several pending files is unreadable,
/// none is accepted. Refused where CI is set.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot accept decoder\n  \
    coreai-audit snapshot accept --all")]
pub struct AcceptArgs {
    #[command(flatten)]
    which: Which,
}

/// Throw pending contracts away: the accepted ones stay
///
/// Refused where CI is set.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot reject decoder\n  \
    coreai-audit snapshot reject --all")]
pub struct RejectArgs {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
struct Which {
    /// The models
    #[arg(
        value_name = "MODEL",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    models: Vec<String>,

    /// Everything that is pending
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    format: FormatArg,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Accept,
    Reject,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<Vec<&'a str>>,
}

impl AcceptArgs {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        self.which.decide(context, Decision::Accept)
    }
}

impl RejectArgs {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        self.which.decide(context, Decision::Reject)
    }
}

impl Which {
    fn decide(self, context: &mut Context<'_>, decision: Decision) -> Result<Exit, Failure> {
        let folder = self.folder.open(context)?;
        let mut entries = folder.entries(&self.models)?;
        if self.all {
            entries.retain(|entry| entry.pending);
        }
        // All or nothing, as far as that can be known before.
        for entry in &entries {
            let model = &entry.model;
            if !entry.pending {
                let path = folder.store.pending_path(model)?;
                return Err(SnapshotError::NoPending {
                    model: model.clone(),
                    path,
                }
                .into());
            }
            if decision == Decision::Accept {
                folder.store.load_pending(model)?;
            }
        }
        for entry in &entries {
            match decision {
                Decision::Accept => folder.store.accept(&entry.model)?,
                Decision::Reject => folder.store.reject(&entry.model)?,
            }
        }
        let models: Vec<&str> = entries.iter().map(|entry| entry.model.as_str()).collect();
        match self.format.format {
            Format::Human if models.is_empty() => writeln!(context.out, "nothing is pending")?,
            Format::Human => {
                let done = if decision == Decision::Accept {
                    "accepted"
                } else {
                    "rejected"
                };
                for model in models {
                    writeln!(context.out, "{done} {}", text::name(model))?;
                }
            }
            Format::Json => {
                let (accepted, rejected) = if decision == Decision::Accept {
                    (Some(models), None)
                } else {
                    (None, Some(models))
                };
                let document = Document {
                    schema_version: SCHEMA_VERSION,
                    accepted,
                    rejected,
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(Exit::Good)
    }
}
