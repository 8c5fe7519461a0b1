//! `coreai-audit gate`: every model of the manifest, from recipe to verdict.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use super::level::LevelName;
use super::progress::Reporter;
use super::selection;
use super::workers::{Cleanup, Defaults, WorkerArgs};
use super::{Context, Exit, Failure, Format, FormatArg};
use crate::contract::snapshot::Store;
use crate::gate::{self, ModelReport, Settings, Verdict};
use crate::manifest::{is_recipe, Manifest, ManifestError, Model};

/// Convert models, read what came out, and compare it with what was accepted
///
/// Every model is converted in a worker process, its emitted program is read, the ordered contract of
/// inputs, states and outputs is joined with the PyTorch buffers and arguments behind it, checked for
/// anything that got lost on the way, and compared with the accepted snapshot. The asset is then run for
/// several steps against what PyTorch computed: every output and every state, with what a consumer may do
/// to the states. The table says how each did; details follow for what needs reading.
///
/// A model without an accepted contract gets a pending one to review; with CI set to true nothing is
/// ever written, and a missing snapshot is a failure.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit gate                           every model of coreai-audit.toml\n  \
    coreai-audit gate decoder                   one of them\n  \
    coreai-audit gate model.py:recipe           a recipe that is in no manifest\n  \
    coreai-audit gate --python .venv213 --out assets   with another environment, keeping the assets\n\n\
    Exit codes: 0 every contract is as accepted; 1 something was found; 2 a model could not be judged.")]
pub struct Args {
    /// Models of the manifest, or recipes as path.py:function [default: every model of the manifest]
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    /// The manifest [default: coreai-audit.toml or pyproject.toml, here or above]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// Folder of the accepted contracts [default: snapshots, beside the manifest]
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,

    /// Keep the assets in this folder, as MODEL.aimodel, with their reference as MODEL.trace.safetensors
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Do not run the assets against PyTorch
    #[arg(long)]
    no_check: bool,

    /// Which changes of a contract count [default: the manifest's, then binding]
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<LevelName>,

    #[command(flatten)]
    worker: WorkerArgs,

    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let manifest = self.manifest()?;
        let models = self.models(manifest.as_ref())?;
        let scratch = tempfile::tempdir()?;
        let cleanup = Cleanup::default();
        cleanup.add(scratch.path().to_owned());
        let settings = self.settings(manifest.as_ref(), scratch.path(), context.ci)?;
        gate::check_names(&models, &settings)?;
        let defaults = manifest
            .as_ref()
            .map_or_else(Defaults::default, |m| Defaults {
                python: m.python.as_deref(),
                timeout: m.timeout,
                max_memory: m.max_memory,
            });
        for model in &models {
            cleanup.add(gate::temporary_beside(&gate::asset_path(&settings, model)));
        }
        let mut supervisor = self.worker.supervisor(&defaults, &cleanup)?;
        let mut progress = Reporter::new(models.len(), std::io::stderr().is_terminal());
        let mut reports = Vec::new();
        for (index, model) in models.iter().enumerate() {
            progress.begin(index, &model.name);
            let mut report = gate::judge(model, &settings, &mut supervisor, &mut progress)?;
            if self.out.is_none() {
                report.asset = None;
            }
            progress.end(report.verdict.as_str());
            reports.push(report);
        }
        drop(progress);
        let orphans = match (&manifest, self.models.is_empty()) {
            (Some(manifest), true) => orphans(manifest, &settings)?,
            _ => Vec::new(),
        };
        let exit = exit(&reports, &orphans, context.ci);
        match self.format.format {
            Format::Human => show(&reports, &orphans, context)?,
            Format::Json => {
                let document = gate::document(&reports, &orphans, exit as i32);
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(exit)
    }

    /// The manifest; a run on recipes alone does without.
    fn manifest(&self) -> Result<Option<Manifest>, Failure> {
        let here = std::env::current_dir()?;
        let recipes_only = !self.models.is_empty() && self.models.iter().all(|m| is_recipe(m));
        match Manifest::find(self.manifest.as_deref(), &here) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(ManifestError::NotFound) if recipes_only && self.manifest.is_none() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn models(&self, manifest: Option<&Manifest>) -> Result<Vec<Model>, Failure> {
        let mut models = selection::models(manifest, &self.models)?;
        if let Some(level) = self.level.map(LevelName::level) {
            models.iter_mut().for_each(|m| m.level = level);
        }
        Ok(models)
    }

    fn settings(
        &self,
        manifest: Option<&Manifest>,
        scratch: &std::path::Path,
        ci: bool,
    ) -> Result<Settings, Failure> {
        let snapshots = self
            .snapshots
            .clone()
            .or_else(|| manifest.map(|m| m.snapshots.clone()))
            .unwrap_or_else(|| PathBuf::from("snapshots"));
        let assets = match &self.out {
            Some(out) => {
                fs::create_dir_all(out).map_err(|e| format!("--out {}: {e}", out.display()))?;
                out.clone()
            }
            None => scratch.to_owned(),
        };
        Ok(Settings {
            snapshots,
            ci,
            debug_info: self.worker.debug_info(),
            assets,
            check: !self.no_check,
        })
    }
}

/// Accepted contracts whose model is gone from the manifest.
fn orphans(manifest: &Manifest, settings: &Settings) -> Result<Vec<String>, Failure> {
    let known: Vec<&str> = manifest.models.iter().map(|m| m.name.as_str()).collect();
    Ok(Store::new(&settings.snapshots, settings.ci).orphans(&known)?)
}

fn exit(reports: &[ModelReport], orphans: &[String], ci: bool) -> Exit {
    let worst = reports
        .iter()
        .map(|r| r.verdict)
        .max()
        .unwrap_or(Verdict::Pass);
    match worst {
        Verdict::Error => Exit::Failed,
        Verdict::Fail => Exit::Found,
        // An orphan pins nothing: in an automated build it must not go on for ever.
        Verdict::Pass | Verdict::New if ci && !orphans.is_empty() => Exit::Found,
        Verdict::Pass | Verdict::New => Exit::Good,
    }
}

fn show(
    reports: &[ModelReport],
    orphans: &[String],
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let paint = context.out.paint;
    write!(context.out, "{}", gate::table(reports, paint))?;
    for report in reports {
        let details = gate::details(report, paint)?;
        if !details.is_empty() {
            write!(context.out, "\n{details}")?;
        }
    }
    for orphan in orphans {
        writeln!(
            context.out,
            "\n{} snapshot {orphan} belongs to no model of the manifest: delete it, or list its model",
            paint.yellow("warning:")
        )?;
    }
    let pending: Vec<_> = reports
        .iter()
        .filter(|r| r.pending)
        .map(|r| crate::text::name(&r.model.name))
        .collect();
    if !pending.is_empty() {
        writeln!(
            context.out,
            "\n{} pending for {}: look at {} and accept or reject it",
            crate::text::count(pending.len(), "contract"),
            crate::text::list(&pending),
            paint.cyan("coreai-audit snapshot review")
        )?;
    }
    Ok(())
}
