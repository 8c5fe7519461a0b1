//! `coreai-audit convert`: one recipe to one asset.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::progress::Reporter;
use super::workers::{Cleanup, Defaults, WorkerArgs};
use super::{Context, Exit, Failure, Format, FormatArg};
use crate::contract::{self, SCHEMA_VERSION};
use crate::convert::{Request, Step};
use crate::gate;
use crate::manifest::{is_recipe, Manifest, Model};
use crate::report::{fails, render_findings};

/// Convert one model to an asset
///
/// The same conversion and the same checks as `gate`, without comparing the contract with anything.
/// The asset is written under a temporary name and renamed when it is whole.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit convert model.py:recipe -o model.aimodel\n  \
    coreai-audit convert decoder -o decoder.aimodel --contract decoder.json\n\n\
    Exit codes: 0 converted; 1 converted, and something was found; 2 could not convert.")]
pub struct Args {
    /// A recipe as path.py:function, or a model of the manifest
    #[arg(value_name = "RECIPE")]
    recipe: String,

    /// Where the asset is written; ends in .aimodel
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,

    /// Also write the contract, sources included, as JSON
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,

    /// Also write the reference trace: what PyTorch computes, for `coreai-audit check`; the asset is
    /// run against it. Where nothing is converted, no trace is left
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// How often the example is called for the trace, where the recipe gives no calls [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "trace")]
    steps: Option<u32>,

    /// The manifest, when RECIPE is a model of one
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    worker: WorkerArgs,

    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if self.output.extension().is_none_or(|e| e != "aimodel") {
            return Err(format!(
                "{}: expected a path that ends in .aimodel",
                self.output.display()
            )
            .into());
        }
        self.check_targets()?;
        let here = std::env::current_dir()?;
        let found = Manifest::find(self.manifest.as_deref(), &here);
        let (model, manifest) = if is_recipe(&self.recipe) {
            (Model::from_recipe(&self.recipe)?, found.ok())
        } else {
            let manifest = found?;
            (manifest.model(&self.recipe)?.clone(), Some(manifest))
        };
        if let Some(folder) = self.output.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let temporary = gate::temporary_beside(&self.output);
        let cleanup = Cleanup::default();
        cleanup.add(temporary.clone());
        let defaults = manifest
            .as_ref()
            .map_or_else(Defaults::default, |m| Defaults {
                python: m.python.as_deref(),
                timeout: m.timeout,
                max_memory: m.max_memory,
            });
        let mut supervisor = self.worker.supervisor(&defaults, &cleanup)?;
        let mut progress = Reporter::new(1, std::io::stderr().is_terminal());
        progress.begin(0, &model.name);
        let mut request = Request::new(&model, &temporary, self.worker.debug_info());
        // A trace stands beside the asset it is of: it gets its name when the asset does.
        let trace = self.trace.as_deref().map(unfinished);
        if let Some(path) = &trace {
            cleanup.add(path.clone());
            request = request.with_reference(path);
            request.steps = self.steps.or(request.steps);
        }
        let mut check = None;
        let mut outcome = supervisor.convert(&request, &mut progress)?;
        let mut reading = gate::read(&outcome, &temporary);
        if let (Some(trace), Some(contract)) = (&trace, &reading.contract) {
            let checked = gate::run(&model, &outcome, contract, &temporary, trace, &mut progress);
            gate::merge(
                &mut reading.findings,
                checked.findings,
                checked.report.as_ref(),
            );
            reading.could_not |= checked.could_not;
            outcome.stages.extend(checked.time);
            check = checked.report;
        }
        let whole = outcome.saved
            && outcome
                .failure
                .as_ref()
                .is_none_or(|f| f.stage == Step::Describe);
        let recorded = trace.as_deref().filter(|t| t.exists());
        if whole {
            if let Err(error) = gate::replace(&temporary, &self.output) {
                fs::remove_dir_all(&temporary)?;
                recorded.map(fs::remove_file).transpose()?;
                return Err(format!("{}: {error}", self.output.display()).into());
            }
            if let (Some(from), Some(to)) = (recorded, &self.trace) {
                fs::rename(from, to).map_err(|e| format!("--trace {}: {e}", to.display()))?;
            }
        } else {
            if temporary.exists() {
                fs::remove_dir_all(&temporary)?;
            }
            recorded.map(fs::remove_file).transpose()?;
        }
        let kept = recorded.is_some() && whole;
        progress.end(if whole { "converted" } else { "not converted" });
        drop(progress);
        if let (Some(path), Some(contract)) = (&self.contract, &reading.contract) {
            crate::files::write_atomically(path, contract::json(contract).as_bytes())?;
        }
        self.show(context, &outcome, &reading, check.as_ref(), (whole, kept))?;
        Ok(if !whole || reading.could_not {
            Exit::Failed
        } else if fails(&reading.findings) {
            Exit::Found
        } else {
            Exit::Good
        })
    }

    /// What cannot be written is said before minutes of conversion, not after.
    fn check_targets(&self) -> Result<(), Failure> {
        let files = [("--contract", &self.contract), ("--trace", &self.trace)];
        for (flag, path) in files {
            let Some(path) = path else { continue };
            let shown = path.display();
            if *path == self.output {
                return Err(format!(
                    "{flag} {shown}: that is where the asset goes; give another path"
                )
                .into());
            }
            let there = fs::metadata(path).ok();
            if there.as_ref().is_some_and(fs::Metadata::is_dir) {
                return Err(
                    format!("{flag} {shown}: is a directory; give the path of a file").into(),
                );
            }
            // The trace is read again when the asset is run against it.
            if flag == "--trace" && there.is_some_and(|m| !m.is_file()) {
                return Err(format!("{flag} {shown}: is no file; give the path of a file").into());
            }
            if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                fs::create_dir_all(folder)
                    .map_err(|e| format!("{flag} {shown}: {}: {e}", folder.display()))?;
            }
        }
        if self.contract.is_some() && self.contract == self.trace {
            return Err("--contract and --trace are one file; give two".into());
        }
        Ok(())
    }

    fn show(
        &self,
        context: &mut Context<'_>,
        outcome: &crate::convert::Outcome,
        reading: &gate::Reading,
        check: Option<&crate::check::Report>,
        (whole, kept): (bool, bool),
    ) -> Result<(), Failure> {
        if self.format.format == Format::Json {
            let document = json!({
                "schema_version": SCHEMA_VERSION,
                "command": "convert",
                "asset": whole.then(|| self.output.display().to_string()),
                "trace": self.trace.as_ref().filter(|_| kept).map(|t| t.display().to_string()),
                "contract": reading.contract,
                "findings": reading.findings,
                "check": check,
                "stages": outcome.stages,
                "toolchain": outcome.toolchain,
            });
            writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            return Ok(());
        }
        if let Some(contract) = &reading.contract {
            write!(context.out, "{}", contract::human(contract))?;
        }
        let mut findings = reading.findings.clone();
        findings.sort();
        let mut text = String::new();
        render_findings(&mut text, &findings, context.out.paint)?;
        write!(context.out, "{text}")?;
        if whole {
            writeln!(context.out, "{}", self.output.display())?;
        }
        if let Some(trace) = self.trace.as_ref().filter(|_| !kept) {
            let why = match whole {
                true => "there is no reference",
                false => "nothing was converted",
            };
            let paint = context.err.paint;
            let note = paint.cyan("note:");
            writeln!(
                context.err,
                "{note} no trace is left in {}: {why}",
                trace.display()
            )?;
        }
        Ok(())
    }
}

/// Where a trace is written until its asset is whole: in the same folder.
fn unfinished(trace: &Path) -> PathBuf {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    trace.with_file_name(format!(".{name}.tmp-{}", std::process::id()))
}
