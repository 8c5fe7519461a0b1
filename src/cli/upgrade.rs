//! `coreai-audit upgrade`: the same models under several toolchains.

mod envs;
mod watch;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::level::LevelName;
use super::workers::{Defaults, LimitArgs};
use super::{matrix, selection, Context, Exit, Failure, FormatArg};
use crate::convert::Interpreter;
use crate::manifest::Manifest;
use crate::upgrade::{self, EnvSpec, Executor, Interrupt, Plan, Shard};

/// Tell whether an upgrade of PyTorch or the converter moves anything
///
/// Every model is converted in a worker of every environment, read, and compared with the first
/// environment: the contract with what is behind each state, the program's fingerprint, the findings,
/// and PyTorch's graph signatures. An environment is a set of versions, which is resolved and installed
/// with uv, or a Python that exists. Both are kept, and so are the results: what is the same as in an
/// earlier run is not converted again.
///
/// SPEC is requirements ("torch==2.15.0 coreai-torch==0.4.3", with python==3.12 among them for another
/// Python, and local folders, wheels and URLs), a requirements file, a virtual environment, or an interpreter. torch, coreai-torch and
/// what the manifest says the models need are added. Without --from and --to the environments are the
/// manifest's [[upgrade.env]].
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Examples:\n  \
    coreai-audit upgrade --from torch==2.13.0 --to torch==2.15.0\n  \
    coreai-audit upgrade decoder --from .venv --to \"torch==2.15.0 coreai-torch==0.4.3\"\n  \
    coreai-audit upgrade --to torch==2.14.0 --to torch==2.15.0     from the Python in use, two steps\n  \
    coreai-audit upgrade --shard 1/2 --format json > 1.json        half of the manifest's matrix\n\n\
    Exit codes: 0 no contract moved; 1 something moved; 2 something could not be judged."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Models of the manifest, or recipes as path.py:function [default: every model of the manifest]
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    /// The environment to compare with [default: the Python that `gate` would use]
    #[arg(long, value_name = "SPEC", requires = "to")]
    from: Option<String>,

    /// An environment to move to; repeat it for a chain of versions, oldest first
    #[arg(long, value_name = "SPEC")]
    to: Vec<String>,

    /// A requirement of every environment that is made, such as transformers==4.57.1; may be repeated
    #[arg(long = "with", value_name = "REQUIREMENT")]
    with: Vec<String>,

    /// The manifest [default: coreai-audit.toml or pyproject.toml, here or above]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// Which changes of a contract count [default: the manifest's, then binding]
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<LevelName>,

    /// The Python that environments are made with: an interpreter or virtual environment
    /// [default: the one that `gate` would use]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    #[command(flatten)]
    env_dir: EnvDirArg,

    /// Leave the network alone: only what is in uv's cache, and Pythons that exist
    #[arg(long)]
    offline: bool,

    /// Resolve requirements again; a set that was resolved before is kept otherwise, unless a local folder
    /// or file of it was changed or it follows a branch
    #[arg(long)]
    refresh: bool,

    /// Convert everything again, also what an earlier run has converted
    #[arg(long)]
    fresh: bool,

    /// Most workers at a time [default: one a core, as many as fit into memory by what the largest has
    /// needed so far; 4 GB before any has been measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Where models are converted
    #[arg(long, value_enum, value_name = "WHERE", default_value = "local")]
    executor: ExecutorName,

    /// Address of the Ray cluster [default: RAY_ADDRESS, then one that runs here, then a new one]
    #[arg(long, value_name = "ADDRESS")]
    ray_address: Option<String>,

    /// Only part k of n of the matrix; `report merge` joins the parts
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,

    #[command(flatten)]
    limits: LimitArgs,

    #[command(flatten)]
    format: FormatArg,
}

/// Where models are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExecutorName {
    /// In worker processes on this machine
    Local,
    /// As tasks of a Ray cluster, each with its environment; needs coreai-audit[ray]
    Ray,
}

#[derive(clap::Subcommand)]
enum Command {
    Envs(envs::Args),
}

/// Where environments are.
#[derive(Clone, Debug, clap::Args)]
struct EnvDirArg {
    /// Folder of the environments that were made [default: coreai-audit/envs in the user's cache folder]
    #[arg(
        long,
        value_name = "DIR",
        env = "COREAI_AUDIT_ENV_DIR",
        hide_env_values = true
    )]
    env_dir: Option<PathBuf>,
}

impl EnvDirArg {
    fn folder(&self) -> Result<PathBuf, Failure> {
        match &self.env_dir {
            Some(folder) => Ok(folder.clone()),
            None => Ok(cache_folder()?.join("envs")),
        }
    }
}

/// `coreai-audit` in the user's cache folder.
fn cache_folder() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let home = || {
        let home = absolute("HOME")?;
        Some(match cfg!(target_os = "macos") {
            true => home.join("Library/Caches"),
            false => home.join(".cache"),
        })
    };
    match absolute("XDG_CACHE_HOME").or_else(home) {
        Some(folder) => Ok(folder.join("coreai-audit")),
        None => Err("no cache folder: set XDG_CACHE_HOME or HOME, or give --env-dir".into()),
    }
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        match self.command {
            Some(Command::Envs(args)) => args.run(context),
            None => self.compare(context),
        }
    }

    fn compare(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let manifest = selection::manifest(self.manifest.as_deref(), &self.models)?;
        let mut models = selection::models(manifest.as_ref(), &self.models)?;
        if let Some(level) = self.level.map(LevelName::level) {
            models.iter_mut().for_each(|m| m.level = level);
        }
        let defaults = manifest
            .as_ref()
            .map_or_else(Defaults::default, |m| Defaults {
                python: m.python.as_deref(),
                timeout: m.timeout,
                max_memory: m.max_memory,
            });
        let python = Interpreter::find(self.python.as_deref().or(defaults.python))?;
        let scratch = tempfile::tempdir().map_err(|e| {
            let place = std::env::temp_dir();
            format!(
                "{}: no folder for temporary files: {e}; name one with TMPDIR",
                place.display()
            )
        })?;
        let mut requirements = manifest
            .as_ref()
            .map_or_else(Vec::new, |m| m.upgrade.requirements.clone());
        requirements.extend(self.with.iter().cloned());
        let plan = Plan {
            environments: self.environments(manifest.as_ref(), python.path())?,
            models,
            requirements,
            python: python.path().to_owned(),
            env_dir: self.env_dir.folder()?,
            results: cache_folder()?.join("upgrade"),
            scratch: scratch.path().to_owned(),
            offline: self.offline,
            refresh: self.refresh,
            fresh: self.fresh,
            shard: self.shard,
            executor: match self.executor {
                ExecutorName::Local => Executor::Local,
                ExecutorName::Ray => Executor::Ray(self.ray_address.clone()),
            },
            jobs: self.jobs.map(usize::from),
            limits: self.limits.limits(&defaults),
            debug_info: self.limits.debug_info,
        };
        let interrupt = Interrupt::default();
        interrupt.add_folder(scratch.path());
        let handler = interrupt.clone();
        ctrlc::set_handler(move || {
            handler.run();
            // 128 + SIGINT, as shells report it.
            std::process::exit(130);
        })?;
        let watcher = watch::Watch::new(std::io::stderr().is_terminal());
        let matrix = upgrade::run(&plan, &interrupt, &watcher);
        drop(watcher);
        matrix::show(&matrix, self.format.format, context)
    }

    fn environments(
        &self,
        manifest: Option<&Manifest>,
        python: &Path,
    ) -> Result<Vec<EnvSpec>, Failure> {
        let from_manifest = manifest.map_or(&[][..], |m| &m.upgrade.environments);
        let mut all = match self.to.is_empty() {
            true => from_manifest.to_vec(),
            false => {
                let from = match &self.from {
                    Some(text) => spec(text)?,
                    None => EnvSpec::existing("the Python in use", python),
                };
                let mut all = vec![from];
                for text in &self.to {
                    all.push(spec(text)?);
                }
                all
            }
        };
        if all.len() < 2 {
            return Err("two environments are needed to compare: give --from and --to, or list them as [[upgrade.env]] in the manifest".into());
        }
        for i in 1..all.len() {
            let name = |e: &EnvSpec| e.label.trim_end_matches('/').to_owned();
            if all[..i].iter().any(|e| name(e) == name(&all[i])) {
                return Err(format!("environment {:?} is asked for twice", all[i].label).into());
            }
        }
        let wrong = |spec: &EnvSpec| match &spec.source {
            upgrade::Source::Nothing(error) => Some(error.clone()),
            _ => None,
        };
        // One wrong path is its own column's; where it leaves nothing to compare, it ends the run.
        let nothing_new = all[1..].iter().all(|spec| wrong(spec).is_some());
        let fatal =
            wrong(&all[0]).or_else(|| all[1..].iter().find_map(wrong).filter(|_| nothing_new));
        if let Some(error) = fatal {
            return Err(error.into());
        }
        // A manifest elsewhere may name environments relative to itself; results must not depend on it.
        for spec in &mut all {
            if let upgrade::Source::Existing(path) = &mut spec.source {
                *path = std::path::absolute(&*path)?;
            }
        }
        Ok(all)
    }
}

/// An environment as it was written; where its place is wrong, one that says so.
fn spec(text: &str) -> Result<EnvSpec, Failure> {
    Ok(EnvSpec::parse(text).or_else(|error| EnvSpec::misplaced(text, error))?)
}
