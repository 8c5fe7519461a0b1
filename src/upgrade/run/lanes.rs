//! Cells converted on this machine: lanes with a worker each, as many as memory allows.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::{Group, Records, Trace, Watcher, Work};
use crate::convert::{Interpreter, Progress, StageTime, Step, Supervisor};
use crate::upgrade::envs::{Envs, Promised};
use crate::upgrade::job::{self, Reference};
use crate::upgrade::record::Record;
use crate::upgrade::resolve::Place;

/// Taken for the memory of a worker until one has been measured, in bytes.
const ASSUMED_MEMORY: u64 = 4_000_000_000;
/// A worker may need more than the largest so far.
const HEADROOM: f64 = 1.2;
/// How often it is thought over whether one more worker pays.
const THINK: Duration = Duration::from_secs(1);

/// What the lanes share.
struct Shared<'r> {
    groups: Vec<Group>,
    traces: Vec<Trace>,
    records: &'r mut Records,
    /// More groups may become ready.
    preparing: bool,
    active: usize,
    /// The most memory of a worker so far.
    peak: Option<u64>,
    pace: Pace,
}

/// What workers have cost in time so far: whether one more in an environment pays.
#[derive(Default)]
struct Pace {
    /// When the first cell began, its worker's start included.
    began: Option<Instant>,
    /// The longest start of a worker, in seconds.
    start: Option<f64>,
    /// Cells that are done, and the seconds of their stages after the start.
    done: u32,
    seconds: f64,
}

impl Pace {
    /// A worker has imported PyTorch and begins with its first cell.
    fn started(&mut self, seconds: f64) {
        self.start = Some(self.start.unwrap_or(0.0).max(seconds));
    }

    fn add(&mut self, record: &Record) {
        let of_start = |s: &&StageTime| s.stage == Step::Start;
        let stages = record.run.stages.iter();
        let start: f64 = stages.filter(of_start).map(|s| s.seconds).sum();
        self.done += 1;
        self.seconds += record.seconds() - start;
    }

    /// Whether a worker that first has to import PyTorch would still find enough to do among `cells` cells
    /// that `lanes` workers share. The first cell is taken to need what it has needed so far.
    fn pays(&self, cells: usize, lanes: usize) -> bool {
        let (Some(start), Some(began)) = (self.start, self.began) else {
            // How long a start takes is not known; one that never ends is ended by the time limit.
            return false;
        };
        let each = match self.done {
            0 => began.elapsed().as_secs_f64() - start,
            done => self.seconds / f64::from(done),
        };
        cells as f64 * each > start * (lanes + 1) as f64
    }
}

impl Work<'_> {
    /// Makes environments one after the other while lanes work on those that stand.
    pub(super) fn convert(
        &self,
        groups: Vec<Group>,
        traces: Vec<Trace>,
        envs: Option<&Envs>,
        records: &mut Records,
    ) {
        let todo: usize = groups.iter().map(|g| g.cells.len()).sum();
        if todo == 0 {
            return;
        }
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        let lanes = self.plan.jobs.unwrap_or(cores).clamp(1, todo);
        let available = available_memory();
        let shared = Mutex::new(Shared {
            groups,
            traces,
            records,
            preparing: true,
            active: 0,
            peak: None,
            pace: Pace::default(),
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
                (
                    Place::Locked {
                        lock,
                        python,
                        credentials,
                        ..
                    },
                    Some(envs),
                ) => match envs.find(lock) {
                    Some(python) => Ok(python),
                    None => match envs.promise(lock, python, credentials, &mut promised) {
                        Ok(()) => {
                            to_make.push((at, lock, python, credentials));
                            continue;
                        }
                        Err(error) => Err(error.to_string()),
                    },
                },
                (Place::Locked { .. }, None) => Err("uv is gone".to_owned()),
            };
            self.ready(at, python, shared, changed);
        }
        for (at, wanted, python, credentials) in to_make {
            let environment = lock(shared).groups[at].environment;
            self.watcher.making(self.label(environment));
            let made = match envs {
                Some(envs) => envs
                    .make(wanted, python, credentials)
                    .map_err(|e| e.to_string()),
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
                    let ours = self.is_ours(model, environment);
                    let record = ours.then(|| Record::not_begun(error.clone()));
                    shared.records[model][environment] = record;
                    if environment == 0 {
                        shared.traces[model] = Trace::Done(None);
                    }
                }
            }
        }
        changed.notify_all();
    }

    /// One worker at a time, of the group that needs hands most; stays with it while it has cells.
    /// A second worker in an environment imports PyTorch again, so it begins only where that pays.
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
            let trace = self.plan.scratch.join(format!("{model}.trace.safetensors"));
            let find = || wait_for_trace(model, shared, changed);
            let reference = match environment {
                0 => Reference::Record(&trace),
                _ => Reference::Use(&find),
            };
            let started = |seconds| {
                lock(shared).pace.started(seconds);
                changed.notify_all();
            };
            let record = match self.worker(&mut current, at, &python) {
                Ok(supervisor) => {
                    let place = (python.as_path(), scratch.as_path());
                    self.cell(model, environment, place, &reference, supervisor, &started)
                }
                Err(error) => Record::not_begun(error),
            };
            let mut shared = lock(shared);
            shared.peak = shared.peak.max(record.run.peak_memory);
            shared.pace.add(&record);
            if environment == 0 {
                shared.traces[model] = Trace::Done(trace.is_file().then_some(trace));
            }
            if self.is_ours(model, environment) {
                shared.records[model][environment] = Some(record);
            }
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
            let traces = &guard.traces;
            // A cell that is run against a reference begins when that is at least on its way.
            let next = |g: &Group| {
                let can = |m: &usize| g.environment == 0 || traces[*m] != Trace::Waits;
                g.cells.iter().rposition(can)
            };
            let ready = |g: &Group| g.python.is_some() && next(g).is_some();
            // A worker is shared rather than doubled, unless there is work for two.
            let pace = &guard.pace;
            let wanted = |i: usize, g: &Group| {
                Some(i) == current || g.lanes == 0 || pace.pays(g.cells.len(), g.lanes)
            };
            let best = guard
                .groups
                .iter()
                .enumerate()
                .filter(|(i, g)| ready(g) && wanted(*i, g))
                .min_by_key(|(i, g)| (Some(*i) != current, g.lanes, *i))
                .and_then(|(i, g)| Some((i, next(g)?)));
            let left = guard.groups.iter().any(|g| !g.cells.is_empty());
            match best {
                Some((at, cell)) if room => {
                    let group = &mut guard.groups[at];
                    let (model, python) = (group.cells.remove(cell), group.python.clone()?);
                    if current != Some(at) {
                        group.lanes += 1;
                        if let Some(left) = current {
                            guard.groups[left].lanes -= 1;
                        }
                    }
                    if guard.groups[at].environment == 0 {
                        guard.traces[model] = Trace::Comes;
                    }
                    guard.active += 1;
                    guard.pace.began.get_or_insert_with(Instant::now);
                    return Some((at, model, python));
                }
                None if !guard.preparing && !left => return None,
                _ => {}
            }
            let woken = changed.wait_timeout(guard, THINK);
            guard = woken.unwrap_or_else(|e| e.into_inner()).0;
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
        (python, scratch): (&Path, &Path),
        reference: &Reference<'_>,
        supervisor: &mut Supervisor,
        started: &dyn Fn(f64),
    ) -> Record {
        let (name, label) = (&self.plan.models[model].name, self.label(environment));
        self.interrupt.pass();
        self.watcher.begin(name, label);
        let mut progress = Told {
            watcher: self.watcher,
            model: name,
            environment: label,
            starting: None,
            started,
        };
        let result = std::fs::create_dir_all(scratch)
            .map_err(|e| format!("{}: {e}", scratch.display()))
            .and_then(|()| {
                let model = &self.plan.models[model];
                job::run(
                    model,
                    self.plan.debug_info,
                    scratch,
                    reference,
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
        let trace = match reference {
            Reference::Record(path) => Some(*path),
            Reference::Use(_) => None,
        };
        self.done(model, environment, &record, trace);
        record
    }
}

/// The reference of a model whose cell in the first environment has at least begun.
fn wait_for_trace(model: usize, shared: &Mutex<Shared<'_>>, changed: &Condvar) -> Option<PathBuf> {
    let mut guard = lock(shared);
    loop {
        if let Trace::Done(trace) = &guard.traces[model] {
            return trace.clone();
        }
        guard = changed.wait(guard).unwrap_or_else(|e| e.into_inner());
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
    /// Since when the worker starts.
    starting: Option<Instant>,
    /// Told how many seconds the start has taken.
    started: &'a dyn Fn(f64),
}

impl Progress for Told<'_> {
    fn step(&mut self, step: Step) {
        match (step, self.starting.take()) {
            (Step::Start, _) => self.starting = Some(Instant::now()),
            (_, Some(since)) => (self.started)(since.elapsed().as_secs_f64()),
            _ => {}
        }
        self.watcher.step(self.model, self.environment, step);
    }
}
