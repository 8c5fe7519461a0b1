//! The cells of the matrix, in parallel as far as memory allows.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use super::cache::{Cache, CellKey};
use super::envs::{Envs, Promised};
use super::interrupt::Interrupt;
use super::job;
use super::matrix::{Environment, Matrix, Row};
use super::probe::tool_key;
use super::ray::{self, Executor};
use super::record::Record;
use super::resolve::{self, Column, Place, Resolved, Resolver};
use super::shard::Shard;
use super::spec::EnvSpec;
use crate::convert::{Interpreter, Limits, Progress, Step, Supervisor};
use crate::manifest::Model;

/// Taken for the memory of a worker until one has been measured, in bytes.
const ASSUMED_MEMORY: u64 = 4_000_000_000;
/// A worker may need more than the largest so far.
const HEADROOM: f64 = 1.2;

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
        tool: tool_key(),
        watcher,
        interrupt,
    };
    let (mut records, groups) = work.known();
    let todo = groups.iter().map(|g| g.cells.len()).sum();
    let known = records.iter().flatten().flatten().count();
    watcher.cells(todo, known);
    match &plan.executor {
        Executor::Local => work.convert(groups, made.as_ref().ok(), &mut records),
        Executor::Ray(address) => work.send(groups, address.as_deref(), &mut records),
    }
    let environments: Vec<Environment> = columns.iter().map(Column::shown).collect();
    let rows = plan.models.iter().zip(records);
    let rows = rows.map(|(model, records)| row(model, records)).collect();
    Matrix::new(plan.shard.map(|s| s.to_string()), environments, rows)
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

/// Cells that one worker can do one after the other: those of one environment.
struct Group {
    environment: usize,
    set: usize,
    cells: Vec<usize>,
    python: Option<PathBuf>,
    /// Lanes at work on it.
    lanes: usize,
}

struct Work<'a> {
    plan: &'a Plan,
    columns: &'a [Column],
    set_of: &'a [usize],
    cache: &'a Cache,
    tool: String,
    watcher: &'a dyn Watcher,
    interrupt: &'a Interrupt,
}

/// What the lanes share.
struct Shared<'r> {
    groups: Vec<Group>,
    records: &'r mut Records,
    /// More groups may become ready.
    preparing: bool,
    active: usize,
    /// The most memory of a worker so far.
    peak: Option<u64>,
}

impl Work<'_> {
    fn label(&self, environment: usize) -> &str {
        &self.columns[environment].spec.label
    }

    fn resolved(&self, model: usize, environment: usize) -> &Result<Resolved, String> {
        &self.columns[environment].by_set[self.set_of[model]]
    }

    fn key<'k>(&'k self, model: usize, environment: &'k Resolved) -> CellKey<'k> {
        CellKey {
            environment: &environment.key,
            reference: "",
            tool: &self.tool,
            recipe: &self.plan.models[model].file,
            function: &self.plan.models[model].function,
            debug_info: self.plan.debug_info,
        }
    }

    /// What is known without converting, and the rest by environment.
    fn known(&self) -> (Records, Vec<Group>) {
        let (models, environments) = (self.plan.models.len(), self.columns.len());
        let mut records: Records = vec![vec![None; environments]; models];
        let mut groups: Vec<Group> = Vec::new();
        let total = environments * models;
        for cell in (0..total).filter(|&c| self.plan.shard.is_none_or(|s| s.has(c, total))) {
            let (environment, model) = (cell / models, cell % models);
            let resolved = match self.resolved(model, environment) {
                Ok(resolved) => resolved,
                Err(error) => {
                    records[model][environment] = Some(Record::not_begun(error.clone()));
                    continue;
                }
            };
            let known = match self.plan.fresh {
                true => None,
                false => self.cache.find(self.key(model, resolved)),
            };
            if known.is_some() {
                records[model][environment] = known;
                continue;
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
        (records, groups)
    }

    /// Makes environments one after the other while lanes work on those that stand.
    fn convert(&self, groups: Vec<Group>, envs: Option<&Envs>, records: &mut Records) {
        let todo: usize = groups.iter().map(|g| g.cells.len()).sum();
        if todo == 0 {
            return;
        }
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        let lanes = self.plan.jobs.unwrap_or(cores).clamp(1, todo);
        let available = available_memory();
        let shared = Mutex::new(Shared {
            groups,
            records,
            preparing: true,
            active: 0,
            peak: None,
        });
        let changed = Condvar::new();
        thread::scope(|scope| {
            for lane in 0..lanes {
                let (shared, changed) = (&shared, &changed);
                scope.spawn(move || self.lane(lane, available, shared, changed));
            }
            self.prepare(envs, &shared, &changed);
        });
    }

    fn prepare(&self, envs: Option<&Envs>, shared: &Mutex<Shared<'_>>, changed: &Condvar) {
        let count = lock(shared).groups.len();
        let mut promised = Promised::default();
        // First what stands, so that lanes begin at once; then the rest, for which disk is promised
        // before any of it is made.
        let mut to_make = Vec::new();
        for at in 0..count {
            let (environment, set) = {
                let shared = lock(shared);
                (shared.groups[at].environment, shared.groups[at].set)
            };
            let Ok(resolved) = &self.columns[environment].by_set[set] else {
                continue;
            };
            let python = match (&resolved.place, envs) {
                (Place::Existing(python), _) => Ok(python.clone()),
                (Place::Locked { lock, python }, Some(envs)) => match envs.find(lock) {
                    Some(python) => Ok(python),
                    None => match envs.promise(lock, python, &mut promised) {
                        Ok(()) => {
                            to_make.push((at, lock, python));
                            continue;
                        }
                        Err(error) => Err(error.to_string()),
                    },
                },
                (Place::Locked { .. }, None) => Err("uv is gone".to_owned()),
            };
            self.ready(at, python, shared, changed);
        }
        for (at, wanted, python) in to_make {
            let environment = lock(shared).groups[at].environment;
            self.watcher.making(self.label(environment));
            let made = match envs {
                Some(envs) => envs.make(wanted, python).map_err(|e| e.to_string()),
                None => Err("uv is gone".to_owned()),
            };
            let error = made.as_ref().err().map(String::as_str);
            self.watcher.made(self.label(environment), error);
            self.ready(at, made, shared, changed);
        }
        lock(shared).preparing = false;
        changed.notify_all();
    }

    fn ready(
        &self,
        at: usize,
        python: Result<PathBuf, String>,
        shared: &Mutex<Shared<'_>>,
        changed: &Condvar,
    ) {
        let mut shared = lock(shared);
        match python {
            Ok(python) => shared.groups[at].python = Some(python),
            Err(error) => {
                let environment = shared.groups[at].environment;
                for model in std::mem::take(&mut shared.groups[at].cells) {
                    shared.records[model][environment] = Some(Record::not_begun(error.clone()));
                }
            }
        }
        changed.notify_all();
    }

    /// One worker at a time, of the group that needs hands most; stays with it while it has cells.
    fn lane(
        &self,
        lane: usize,
        available: Option<u64>,
        shared: &Mutex<Shared<'_>>,
        changed: &Condvar,
    ) {
        let scratch = self.plan.scratch.join(format!("lane-{lane}"));
        let mut current: Option<(usize, Supervisor)> = None;
        loop {
            let next = self.take(current.as_ref().map(|c| c.0), available, shared, changed);
            let Some((at, model, python)) = next else {
                return;
            };
            if current.as_ref().is_none_or(|c| c.0 != at) {
                // The old worker's memory first.
                drop(current.take());
            }
            let environment = lock(shared).groups[at].environment;
            let record = match self.worker(&mut current, at, &python) {
                Ok(supervisor) => self.cell(model, environment, &python, &scratch, supervisor),
                Err(error) => Record::not_begun(error),
            };
            let mut shared = lock(shared);
            shared.peak = shared.peak.max(record.run.peak_memory);
            shared.records[model][environment] = Some(record);
            shared.groups[at].lanes -= 1;
            shared.active -= 1;
            changed.notify_all();
        }
    }

    /// The next cell, `current`'s group first; waits for memory and for environments that are made.
    fn take(
        &self,
        current: Option<usize>,
        available: Option<u64>,
        shared: &Mutex<Shared<'_>>,
        changed: &Condvar,
    ) -> Option<(usize, usize, PathBuf)> {
        let mut guard = lock(shared);
        loop {
            let room = guard.active == 0 || guard.active < self.allowed(available, guard.peak);
            let ready = |g: &Group| g.python.is_some() && !g.cells.is_empty();
            let best = guard
                .groups
                .iter()
                .enumerate()
                .filter(|(_, g)| ready(g))
                .min_by_key(|(i, g)| (Some(*i) != current, g.lanes, *i))
                .map(|(i, _)| i);
            match best {
                Some(at) if room => {
                    let group = &mut guard.groups[at];
                    let (model, python) = (group.cells.pop()?, group.python.clone()?);
                    group.lanes += 1;
                    guard.active += 1;
                    return Some((at, model, python));
                }
                None if !guard.preparing => return None,
                _ => {}
            }
            guard = changed.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
    }

    fn allowed(&self, available: Option<u64>, peak: Option<u64>) -> usize {
        match (self.plan.jobs, available) {
            (Some(jobs), _) => jobs,
            (None, Some(available)) => {
                let one = peak.map_or(ASSUMED_MEMORY, |p| (p as f64 * HEADROOM) as u64);
                (available / one.max(1)).max(1) as usize
            }
            (None, None) => 1,
        }
    }

    fn worker<'c>(
        &self,
        current: &'c mut Option<(usize, Supervisor)>,
        at: usize,
        python: &Path,
    ) -> Result<&'c mut Supervisor, String> {
        if current.is_none() {
            let interpreter = Interpreter::find(Some(python)).map_err(|_| deleted(python))?;
            let supervisor = Supervisor::new(interpreter, self.plan.limits);
            self.interrupt.add_worker(supervisor.current_worker());
            *current = Some((at, supervisor));
        }
        match current {
            Some((_, supervisor)) => Ok(supervisor),
            None => Err("no worker".to_owned()),
        }
    }

    fn cell(
        &self,
        model: usize,
        environment: usize,
        python: &Path,
        scratch: &Path,
        supervisor: &mut Supervisor,
    ) -> Record {
        let (name, label) = (&self.plan.models[model].name, self.label(environment));
        self.watcher.begin(name, label);
        let mut progress = Told {
            watcher: self.watcher,
            model: name,
            environment: label,
        };
        let result = std::fs::create_dir_all(scratch)
            .map_err(|e| format!("{}: {e}", scratch.display()))
            .and_then(|()| {
                let model = &self.plan.models[model];
                job::run(
                    model,
                    self.plan.debug_info,
                    scratch,
                    supervisor,
                    &mut progress,
                )
                .map_err(|e| crate::upgrade::with_causes(&e))
            });
        let mut record = result.unwrap_or_else(Record::not_begun);
        if record.failure.is_some() && !python.exists() {
            record = Record::not_begun(deleted(python));
            supervisor.renew();
        }
        self.done(model, environment, &record);
        record
    }

    /// Keeps a record for the next run, and tells of it.
    fn done(&self, model: usize, environment: usize, record: &Record) {
        let (name, label) = (&self.plan.models[model].name, self.label(environment));
        if job::is_lasting(record) {
            if let Ok(resolved) = self.resolved(model, environment) {
                if let Err(error) = self.cache.keep(self.key(model, resolved), record) {
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

    /// Every cell as a task of a Ray cluster, which makes the environments where they are needed.
    fn send(&self, groups: Vec<Group>, address: Option<&str>, records: &mut Records) {
        let mut cells = Vec::new();
        let mut tasks = Vec::new();
        for group in groups {
            let Ok(resolved) = &self.columns[group.environment].by_set[group.set] else {
                continue;
            };
            for model in group.cells.into_iter().rev() {
                tasks.push(self.task(tasks.len(), model, resolved));
                cells.push((model, group.environment));
            }
        }
        if tasks.is_empty() {
            return;
        }
        for (model, environment) in &cells {
            let name = &self.plan.models[*model].name;
            self.watcher.begin(name, self.label(*environment));
        }
        let mut take = |id: usize, record: Record| {
            let (model, environment) = cells[id];
            self.done(model, environment, &record);
            records[model][environment] = Some(record);
        };
        let ended = ray::run(&tasks, &self.plan.python, address, |id, answer| {
            take(id, answer.unwrap_or_else(Record::not_begun));
        });
        if let Err(error) = ended {
            for (model, environment) in cells {
                let slot = &mut records[model][environment];
                slot.get_or_insert_with(|| Record::not_begun(error.clone()));
            }
        }
    }

    fn task(&self, id: usize, model: usize, resolved: &Resolved) -> ray::Task {
        let (packages, python) = match &resolved.place {
            Place::Existing(python) => (Vec::new(), Some(python.clone())),
            Place::Locked { lock, .. } => (lock.lines().lines().map(str::to_owned).collect(), None),
        };
        let model = &self.plan.models[model];
        ray::Task {
            id,
            packages,
            memory: self.plan.limits.max_memory,
            cell: ray::Cell {
                recipe: std::path::absolute(&model.file).unwrap_or_else(|_| model.file.clone()),
                function: model.function.clone(),
                python,
                debug_info: self.plan.debug_info,
                timeout: self.plan.limits.timeout.as_secs_f64(),
                max_memory: self.plan.limits.max_memory,
            },
        }
    }
}

fn deleted(python: &Path) -> String {
    let folder = python.parent().and_then(Path::parent).unwrap_or(python);
    format!(
        "the environment {} was deleted during the run; run again",
        folder.display()
    )
}

fn lock<'m, T>(mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
    // A lane that panicked leaves its cell empty; the others go on.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    Some(system.available_memory()).filter(|n| *n > 0)
}

struct Told<'a> {
    watcher: &'a dyn Watcher,
    model: &'a str,
    environment: &'a str,
}

impl Progress for Told<'_> {
    fn step(&mut self, step: Step) {
        self.watcher.step(self.model, self.environment, step);
    }
}
