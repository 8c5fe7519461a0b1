//! `coreai-audit snapshot check`: whether anything waits for review.

use super::{columns, Folder, FolderArgs};
use crate::cli::{Context, Exit, Failure, Format, FormatArg};
use crate::contract::snapshot::{Entry, SnapshotError, Status, Store};
use crate::contract::{Change, Level};
use crate::report::{count_changes, render_changes};
use crate::text;
use serde::Serialize;
use std::io::Write;

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// Tell what waits for review, and fail if anything does
///
/// Compares pending contracts with accepted ones, change by change. Pending snapshots fail the check, and so
/// do orphaned ones, whose model is not in the manifest. Nothing is converted here: that is
/// `coreai-audit gate`.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot check\n  \
    coreai-audit snapshot check decoder --format json\n\n\
    Exit codes: 0 nothing waits; 1 something is pending or orphaned; 2 a snapshot is unreadable.")]
pub struct Args {
    /// Only these models [default: all]
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    dir: String,
    snapshots: Vec<Row>,
}

/// One snapshot, as the check sees it.
#[derive(Serialize)]
struct Row {
    model: String,
    state: State,
    orphaned: bool,
    /// From the accepted to the pending contract.
    changes: Vec<Change>,
}

/// Whether a model's contract waits for review.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Nothing waits.
    Accepted,
    /// A first contract waits.
    New,
    /// Another contract waits.
    Changed,
    /// The contract that waits equals the accepted one.
    PendingSame,
}

impl Row {
    fn of(store: &Store, entry: &Entry) -> Result<Row, SnapshotError> {
        let model = &entry.model;
        let (state, changes) = match store.load_pending(model)? {
            None if store.load(model)?.is_none() && entry.pending => (State::New, vec![]),
            None => (State::Accepted, vec![]),
            Some(pending) => match store.check(model, &pending.contract)? {
                Status::New => (State::New, vec![]),
                Status::Same => (State::PendingSame, vec![]),
                Status::Changed(changes) => (State::Changed, changes),
            },
        };
        Ok(Row {
            model: model.clone(),
            state,
            orphaned: entry.orphaned,
            changes,
        })
    }

    fn needs_attention(&self) -> bool {
        self.orphaned || self.state != State::Accepted
    }

    fn cells(&self) -> Vec<String> {
        let state = match self.state {
            State::Accepted => "accepted".to_owned(),
            State::New => "new, waits for review".to_owned(),
            State::Changed => format!(
                "changed, waits for review: {}",
                count_changes(&self.changes)
            ),
            State::PendingSame => "pending, but equal to the accepted contract".to_owned(),
        };
        let orphaned = if self.orphaned {
            "; orphaned: no model has this snapshot"
        } else {
            ""
        };
        vec![
            text::name(&self.model).into_owned(),
            format!("{state}{orphaned}"),
        ]
    }
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let folder = self.folder.open(context)?;
        let entries = folder.entries(&self.models)?;
        let rows: Vec<Row> = entries
            .iter()
            .map(|entry| Row::of(&folder.store, entry))
            .collect::<Result<_, _>>()?;
        let found = rows.iter().any(Row::needs_attention);
        match self.format.format {
            Format::Human => show(context, &folder, &rows)?,
            Format::Json => {
                let document = Document {
                    schema_version: SCHEMA_VERSION,
                    dir: folder.store.dir().display().to_string(),
                    snapshots: rows,
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(if found { Exit::Found } else { Exit::Good })
    }
}

fn show(context: &mut Context<'_>, folder: &Folder, rows: &[Row]) -> Result<(), Failure> {
    let paint = context.out.paint;
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    write!(context.out, "{}", columns(&cells))?;
    for row in rows.iter().filter(|row| !row.changes.is_empty()) {
        let mut shown = String::new();
        render_changes(&mut shown, &row.changes, Level::Strict, paint)?;
        writeln!(context.out, "\n{}", paint.bold(text::name(&row.model)))?;
        for line in shown.lines() {
            writeln!(context.out, "  {line}")?;
        }
    }
    if rows.is_empty() {
        writeln!(
            context.out,
            "no snapshots in {}",
            folder.store.dir().display()
        )?;
    }
    if rows.iter().any(|row| row.state != State::Accepted) {
        let review = paint.cyan("coreai-audit snapshot review");
        writeln!(
            context.err,
            "look at what waits with {review}, or accept and reject it by name"
        )?;
    }
    if rows.iter().any(|row| row.orphaned) {
        writeln!(
            context.err,
            "orphaned snapshots pin nothing: delete them, or list their models in the manifest (a model's \
             file has `_` for what a file name should not have)"
        )?;
    }
    Ok(())
}
