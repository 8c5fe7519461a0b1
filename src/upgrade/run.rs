//! What is asked for, what is known of it, and who converts the rest: lanes here, or a cluster.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::cache::{request, Cache, CellKey};
use super::interrupt::Interrupt;
use super::job;
use super::matrix::{Environment, Matrix, Row};
use super::probe::tool_key;
use super::ray::Executor;
use super::record::Record;
use super::resolve::{self, Column, Resolved, Resolver};
use super::shard::Shard;
use super::spec::EnvSpec;
use crate::convert::{Limits, Step};
use crate::manifest::Model;

mod cluster;
mod lanes;

/// Beginnings of the names of variables that Python and PyTorch go by.
const REACHES_WORKERS: &[&str] = &["PYTHON", "TORCH", "PYTORCH"];
/// Those that change nothing of a conversion.
const CHANGES_NOTHING: &[&str] = &[
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "PYTHONPYCACHEPREFIX",
    "PYTHONIOENCODING",
];

/// What to do.
#[derive(Debug)]
pub struct Plan {
    /// The models, by distinct names.
    pub models: Vec<Model>,
    /// The environments, by distinct labels; the first is the reference.
    pub environments: Vec<EnvSpec>,
    /// Requirements of every environment that is made.
    pub requirements: Vec<String>,
    /// The Python that environments are made with where nothing else is said.
    pub python: PathBuf,
    /// Folder of environments.
    pub env_dir: PathBuf,
    /// Folder of results.
    pub results: PathBuf,
    /// Folder for assets; gone after the run.
    pub scratch: PathBuf,
    /// Leave the network alone.
    pub offline: bool,
    /// Resolve again what was resolved before.
    pub refresh: bool,
    /// Convert again what was converted before.
    pub fresh: bool,
    /// Only this part.
    pub shard: Option<Shard>,
    /// Where cells are converted.
    pub executor: Executor,
    /// Most workers at a time.
    pub jobs: Option<usize>,
    /// What one model may cost.
    pub limits: Limits,
    /// Keep stack traces of the author's code in the asset.
    pub debug_info: bool,
}

/// Told what goes on; several cells at a time.
pub trait Watcher: Sync {
    /// An environment is being made.
    fn making(&self, environment: &str);
    /// It stands, or could not be made.
    fn made(&self, environment: &str, error: Option<&str>);
    /// So many cells are to be converted; the others were known.
    fn cells(&self, todo: usize, known: usize);
    /// A cell begins.
    fn begin(&self, model: &str, environment: &str);
    /// A stage of it begins.
    fn step(&self, model: &str, environment: &str, step: Step);
    /// It is done; `word` says how.
    fn end(&self, model: &str, environment: &str, word: &str, seconds: f64);
    /// A result could not be kept for the next run.
    fn not_kept(&self, error: &std::io::Error);
}

/// Converts every cell that is not known and judges the whole.
pub fn run(plan: &Plan, interrupt: &Interrupt, watcher: &dyn Watcher) -> Matrix {
    let cache = Cache::new(plan.results.clone());
    let made = resolve::envs(plan.env_dir.clone(), &plan.python, plan.offline, interrupt);
    let resolver = Resolver {
        envs: made.as_ref().map_err(String::clone),
        cache: &cache,
        python: &plan.python,
        common: &plan.requirements,
        refresh: plan.refresh,
        interrupt,
    };
    let (sets, set_of) = resolve::sets(&plan.models);
    let columns = resolver.columns(&plan.environments, &sets);
    let work = Work {
        plan,
        columns: &columns,
        set_of: &set_of,
        cache: &cache,
        tool: format!("{}\n{}", tool_key(), variables(std::env::vars_os())),
        requests: plan
            .models
            .iter()
            .map(|m| request(m, plan.debug_info))
            .collect(),
        watcher,
        interrupt,
    };
    let Known {
        mut records,
        groups,
        traces,
    } = work.known();
    let todo = groups.iter().map(|g| g.cells.len()).sum();
    let known = records.iter().flatten().flatten().count();
    watcher.cells(todo, known);
    match &plan.executor {
        Executor::Local => work.convert(groups, traces, made.as_ref().ok(), &mut records),
        Executor::Ray(address) => work.send(groups, &traces, address.as_deref(), &mut records),
    }
    let environments: Vec<Environment> = columns.iter().map(Column::shown).collect();
    let rows = plan.models.iter().zip(records);
    let rows = rows.map(|(model, records)| row(model, records)).collect();
    Matrix::new(plan.shard.map(|s| s.to_string()), environments, rows)
}

/// Variables of the environment that change what a worker does; those of the recipe's own are not known.
fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> String {
    let mut kept: Vec<String> = all
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| REACHES_WORKERS.iter().any(|p| name.starts_with(p)))
        .filter(|(name, _)| !CHANGES_NOTHING.contains(&name.as_str()))
        .map(|(name, value)| match name == "PYTHONPATH" {
            // Relative to where the tool runs.
            true => {
                let paths = std::env::split_paths(&value);
                let paths = paths.map(|p| std::path::absolute(&p).unwrap_or(p));
                format!("{name}={:?}\n", paths.collect::<Vec<_>>())
            }
            false => format!("{name}={value:?}\n"),
        })
        .collect();
    kept.sort();
    kept.concat()
}

fn row(model: &Model, records: Vec<Option<Record>>) -> Row {
    Row {
        name: model.name.clone(),
        recipe: format!("{}:{}", model.file.display(), model.function),
        level: model.level,
        accepted: model.allow.clone(),
        records: records
            .into_iter()
            .map(|record| {
                record.map(|mut record| {
                    // Paths are for the cache, and differ from machine to machine.
                    record.run.files.clear();
                    record
                })
            })
            .collect(),
    }
}

/// By model, then environment.
type Records = Vec<Vec<Option<Record>>>;

/// What is known before anything is converted.
struct Known {
    records: Records,
    groups: Vec<Group>,
    /// By model.
    traces: Vec<Trace>,
}

/// The reference of a model, recorded by its cell in the first environment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trace {
    /// The cell has not begun.
    Waits,
    /// It is being converted.
    Comes,
    /// It is done, with a trace or without.
    Done(Option<PathBuf>),
}

/// Cells that one worker can do one after the other: those of one environment.
struct Group {
    environment: usize,
    set: usize,
    cells: Vec<usize>,
    python: Option<PathBuf>,
    /// Lanes with a worker in it.
    lanes: usize,
}

struct Work<'a> {
    plan: &'a Plan,
    columns: &'a [Column],
    set_of: &'a [usize],
    cache: &'a Cache,
    tool: String,
    /// What is asked of each model's cells.
    requests: Vec<String>,
    watcher: &'a dyn Watcher,
    interrupt: &'a Interrupt,
}

impl Work<'_> {
    fn label(&self, environment: usize) -> &str {
        &self.columns[environment].spec.label
    }

    fn resolved(&self, model: usize, environment: usize) -> &Result<Resolved, String> {
        &self.columns[environment].by_set[self.set_of[model]]
    }

    /// Of the environment that the reference is recorded in.
    fn reference_key(&self, model: usize) -> &str {
        self.resolved(model, 0).as_ref().map_or("", |r| &r.key)
    }

    /// Whether the cell belongs to this machine's part.
    fn is_ours(&self, model: usize, environment: usize) -> bool {
        let models = self.plan.models.len();
        let total = models * self.columns.len();
        let part = self.plan.shard;
        part.is_none_or(|s| s.has(environment * models + model, total))
    }

    fn key<'k>(&'k self, model: usize, environment: &'k Resolved) -> CellKey<'k> {
        CellKey {
            environment: &environment.key,
            reference: self.reference_key(model),
            tool: &self.tool,
            request: &self.requests[model],
        }
    }

    /// What is known without converting, and the rest by environment.
    fn known(&self) -> Known {
        let (models, environments) = (self.plan.models.len(), self.columns.len());
        let mut records: Records = vec![vec![None; environments]; models];
        let mut groups: Vec<Group> = Vec::new();
        let mut traces = vec![Trace::Done(None); models];
        for cell in 0..environments * models {
            let (environment, model) = (cell / models, cell % models);
            let is_ours = self.is_ours(model, environment);
            // Another machine's reference is recorded here too if a cell of ours is run against it.
            let is_reference =
                environment == 0 && (0..environments).any(|e| self.is_ours(model, e));
            if !is_ours && !is_reference {
                continue;
            }
            let resolved = match self.resolved(model, environment) {
                Ok(resolved) => resolved,
                Err(error) => {
                    let record = is_ours.then(|| Record::not_begun(error.clone()));
                    records[model][environment] = record;
                    continue;
                }
            };
            let known = match self.plan.fresh {
                true => None,
                false => self.cache.find(self.key(model, resolved)),
            };
            if let Some((record, trace)) = known {
                records[model][environment] = is_ours.then_some(record);
                if environment == 0 {
                    traces[model] = Trace::Done(trace);
                }
                continue;
            }
            if environment == 0 {
                traces[model] = Trace::Waits;
            }
            let set = self.set_of[model];
            let same = |g: &&mut Group| g.environment == environment && g.set == set;
            match groups.iter_mut().find(same) {
                Some(group) => group.cells.push(model),
                None => groups.push(Group {
                    environment,
                    set,
                    cells: vec![model],
                    python: None,
                    lanes: 0,
                }),
            }
        }
        // Taken from the end.
        groups.iter_mut().for_each(|g| g.cells.reverse());
        Known {
            records,
            groups,
            traces,
        }
    }

    /// Keeps a record for the next run, and tells of it.
    fn done(&self, model: usize, environment: usize, record: &Record, trace: Option<&Path>) {
        let (name, label) = (&self.plan.models[model].name, self.label(environment));
        if job::is_lasting(record) {
            if let Ok(resolved) = self.resolved(model, environment) {
                if let Err(error) = self.cache.keep(self.key(model, resolved), record, trace) {
                    self.watcher.not_kept(&error);
                }
            }
        }
        let word = match &record.failure {
            None => "converted".to_owned(),
            Some(failure) => format!("cannot convert ({})", failure.stage),
        };
        self.watcher.end(name, label, &word, record.seconds());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_reach_workers_are_part_of_what_is_known() {
        let told = |all: &[(&str, &str)]| {
            variables(
                all.iter()
                    .map(|(n, v)| (OsString::from(n), OsString::from(v))),
            )
        };
        assert_eq!(
            told(&[
                ("TORCH_LOGS", "x"),
                ("HOME", "/root"),
                ("PYTHONPATH", "/a:/b"),
                ("PYTHONUNBUFFERED", "1"),
            ]),
            "PYTHONPATH=[\"/a\", \"/b\"]\nTORCH_LOGS=\"x\"\n"
        );
        assert_ne!(told(&[("PYTHONPATH", "/a")]), told(&[("PYTHONPATH", "/b")]));
        let here = std::env::current_dir().unwrap().join("pp");
        assert_eq!(
            told(&[("PYTHONPATH", "pp")]),
            told(&[("PYTHONPATH", here.to_str().unwrap())])
        );
    }
}
