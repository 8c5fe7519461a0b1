//! `coreai-audit snapshot list`: what is there.

use super::{columns, FolderArgs};
use crate::cli::{Context, Exit, Failure, Format, FormatArg};
use crate::contract::snapshot::{Entry, Snapshot};
use crate::text;
use serde::{Serialize, Serializer};
use std::io::Write;

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// List the snapshots: accepted, pending, orphaned
///
/// With the functions of each contract and the versions it was made with.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot list\n  \
    coreai-audit snapshot list --dir other/snapshots --format json")]
pub struct Args {
    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    dir: String,
    snapshots: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    model: &'a str,
    accepted: bool,
    pending: bool,
    orphaned: bool,
    functions: Vec<&'a str>,
    /// Versions of what made it.
    #[serde(serialize_with = "as_map")]
    info: &'a [(String, String)],
}

impl<'a> Row<'a> {
    fn of(entry: &'a Entry, snapshot: Option<&'a Snapshot>) -> Self {
        let functions = snapshot.into_iter().flat_map(|s| &s.contract.functions);
        Row {
            model: &entry.model,
            accepted: entry.accepted,
            pending: entry.pending,
            orphaned: entry.orphaned,
            functions: functions.map(|f| f.name.as_str()).collect(),
            info: snapshot.map_or(&[], |s| &s.info),
        }
    }
}

fn as_map<S: Serializer>(entries: &&[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let folder = self.folder.open(context)?;
        let mut listed: Vec<(Entry, Option<Snapshot>)> = Vec::new();
        for entry in folder.entries(&[])? {
            // What is accepted counts; what only waits is shown as it waits.
            let snapshot = match folder.store.load(&entry.model)? {
                Some(accepted) => Some(accepted),
                None => folder.store.load_pending(&entry.model)?,
            };
            listed.push((entry, snapshot));
        }
        match self.format.format {
            Format::Human if listed.is_empty() => {
                writeln!(
                    context.out,
                    "no snapshots in {}",
                    folder.store.dir().display()
                )?;
            }
            Format::Human => {
                let rows: Vec<Vec<String>> = listed
                    .iter()
                    .map(|(entry, snapshot)| cells(entry, snapshot.as_ref()))
                    .collect();
                write!(context.out, "{}", columns(&rows))?;
            }
            Format::Json => {
                let document = Document {
                    schema_version: SCHEMA_VERSION,
                    dir: folder.store.dir().display().to_string(),
                    snapshots: listed.iter().map(|(e, s)| Row::of(e, s.as_ref())).collect(),
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(Exit::Good)
    }
}

fn cells(entry: &Entry, snapshot: Option<&Snapshot>) -> Vec<String> {
    let mut state = match (entry.accepted, entry.pending) {
        (true, true) => "accepted, another pending",
        (true, false) => "accepted",
        (false, _) => "pending",
    }
    .to_owned();
    if entry.orphaned {
        state.push_str(", orphaned");
    }
    let (functions, versions) = match snapshot {
        None => (String::new(), String::new()),
        Some(snapshot) => {
            let functions = snapshot.contract.functions.iter();
            let functions: Vec<_> = functions
                .map(|f| text::name(&f.name).into_owned())
                .collect();
            let info = snapshot.info.iter();
            let info: Vec<String> = info
                .map(|(name, version)| format!("{} {}", text::line(name), text::line(version)))
                .collect();
            (functions.join(", "), info.join(", "))
        }
    };
    vec![
        text::name(&entry.model).into_owned(),
        state,
        functions,
        versions,
    ]
}
