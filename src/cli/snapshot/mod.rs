//! `coreai-audit snapshot`: accepted and pending contracts.

mod check;
mod decide;
mod list;
mod review;

use super::{Context, Exit, Failure};
use crate::contract::snapshot::{Entry, Store};
use crate::manifest::{Manifest, ManifestError};
use crate::text;
use std::path::{Path, PathBuf};

/// Look at, accept and reject the contracts of models
///
/// The accepted contract of a model is snapshots/MODEL.snap, to be committed with the model. When a
/// conversion gives another contract, or the first one, it waits as snapshots/MODEL.snap.new to be accepted
/// or rejected. The files are in insta's format: `cargo insta review` works on them too.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot check                 fail if anything waits for review\n  \
    coreai-audit snapshot review                decide one by one, on a terminal\n  \
    coreai-audit snapshot accept decoder        accept what waits for one model")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Review(review::Args),
    Accept(decide::AcceptArgs),
    Reject(decide::RejectArgs),
    List(list::Args),
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        match self.command {
            Command::Check(args) => args.run(context),
            Command::Review(args) => args.run(context),
            Command::Accept(args) => args.run(context),
            Command::Reject(args) => args.run(context),
            Command::List(args) => args.run(context),
        }
    }
}

/// Where the snapshots are, and which models there should be.
#[derive(clap::Args)]
struct FolderArgs {
    /// Folder of the snapshots [default: the manifest's, then snapshots]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// The manifest that lists the models [default: coreai-audit.toml or pyproject.toml, here or above]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

/// The folder with the models that are known to have snapshots in it.
struct Folder {
    store: Store,
    /// The manifest's models; `None` without a manifest for this folder.
    known: Option<Vec<String>>,
}

impl FolderArgs {
    fn open(&self, context: &Context<'_>) -> Result<Folder, Failure> {
        let manifest = match Manifest::find(self.manifest.as_deref(), &std::env::current_dir()?) {
            Ok(manifest) => Some(manifest),
            Err(ManifestError::NotFound) if self.manifest.is_none() => None,
            Err(error) => return Err(error.into()),
        };
        let dir = match (&self.dir, &manifest) {
            (Some(dir), _) => dir.clone(),
            (None, Some(manifest)) => manifest.snapshots.clone(),
            (None, None) => PathBuf::from("snapshots"),
        };
        // A manifest that was merely found says nothing about a folder it does not name.
        let about_this_folder =
            |m: &Manifest| self.manifest.is_some() || same_folder(&m.snapshots, &dir);
        let known = manifest
            .filter(about_this_folder)
            .map(|m| m.models.into_iter().map(|model| model.name).collect());
        Ok(Folder {
            store: Store::new(&dir, context.ci),
            known,
        })
    }
}

fn same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

impl Folder {
    /// What the folder has of the models asked for; of all models where none is.
    fn entries(&self, models: &[String]) -> Result<Vec<Entry>, Failure> {
        let known: Option<Vec<&str>> = self
            .known
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        let entries = self.store.list(known.as_deref())?;
        if models.is_empty() {
            return Ok(entries);
        }
        let mut chosen: Vec<Entry> = Vec::new();
        for model in models {
            let entry = entries.iter().find(|entry| entry.model == *model);
            let entry = entry.ok_or_else(|| self.no_snapshot(model, &entries))?;
            if !chosen.contains(entry) {
                chosen.push(entry.clone());
            }
        }
        Ok(chosen)
    }

    fn no_snapshot(&self, model: &str, entries: &[Entry]) -> Failure {
        let dir = self.store.dir().display();
        let nearest = entries
            .iter()
            .map(|entry| {
                (
                    strsim::damerau_levenshtein(model, &entry.model),
                    &entry.model,
                )
            })
            .filter(|(distance, other)| *distance <= other.chars().count().max(3) / 3)
            .min();
        let hint = match nearest {
            Some((_, other)) => format!("did you mean {}?", text::name(other)),
            None => "`coreai-audit snapshot list` shows what there is".to_owned(),
        };
        format!(
            "no snapshot of model {} in {dir}: {hint}",
            text::name(model)
        )
        .into()
    }
}

/// Lines of cells, the columns as wide as their widest cell.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |cell: &str| console::measure_text_width(cell);
    let widest = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| width(cell))
            .max()
            .unwrap_or(0)
    };
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            line.push_str(&" ".repeat(widest(column) - width(cell) + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
