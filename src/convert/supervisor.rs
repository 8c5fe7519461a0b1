//! Starts a worker, watches it, and survives it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::interpreter::Interpreter;
use super::outcome::{Failure, FailureKind, Outcome, StageTime, Toolchain};
use super::protocol::{functions, Descriptor, Event, Request, Step};

/// How often limits are looked at while the worker is silent.
const TICK: Duration = Duration::from_millis(50);
/// Memory is read less often: it costs a system call per process.
const MEMORY_EVERY: u32 = 4;
/// Last lines of the worker's log shown with a failure, and how far back they are looked for.
const LOG_LINES: usize = 20;
const LOG_BYTES: u64 = 64 * 1024;

/// What one model may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest time for one model, the worker's start included.
    pub timeout: Duration,
    /// Most resident memory of the worker and its children, in bytes.
    pub max_memory: Option<u64>,
}

/// Told what goes on while a model is converted.
pub trait Progress {
    /// A stage begins.
    fn step(&mut self, step: Step);
    /// Time passes.
    fn tick(&mut self) {}
}

/// Why no worker could be started.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The process could not be created.
    #[error("cannot start a worker with {interpreter}")]
    Spawn {
        /// The Python or program that was run.
        interpreter: String,
        /// Why.
        source: io::Error,
    },
    /// The log file could not be created.
    #[error("cannot create the worker's log file in the temporary folder")]
    Log(#[source] io::Error),
    /// A memory limit was asked for and memory cannot be measured.
    #[error("--max-memory cannot be watched on this system: {0}")]
    Memory(String),
}

/// Runs conversions one after the other in a warm worker, with a fresh one after a death.
pub struct Supervisor {
    interpreter: Interpreter,
    limits: Limits,
    running: Option<Running>,
    current: CurrentWorker,
}

/// The process group of the live worker, for whoever must end it from elsewhere (Ctrl-C).
pub type CurrentWorker = Arc<Mutex<Option<u32>>>;

struct Running {
    child: Child,
    requests: ChildStdin,
    events: Receiver<io::Result<String>>,
    log: File,
    versions: Option<Toolchain>,
    warnings: Vec<String>,
    served: u32,
}

impl Supervisor {
    /// A supervisor without a worker yet.
    pub fn new(interpreter: Interpreter, limits: Limits) -> Self {
        Supervisor {
            interpreter,
            limits,
            running: None,
            current: CurrentWorker::default(),
        }
    }

    /// A handle on the live worker's process group.
    pub fn current_worker(&self) -> CurrentWorker {
        self.current.clone()
    }

    /// How many requests the live worker has taken.
    pub fn served(&self) -> u32 {
        self.running.as_ref().map_or(0, |r| r.served)
    }

    /// The most memory that the live worker has had resident, in bytes; where the system tells.
    pub fn peak_memory(&self) -> Option<u64> {
        let pid = self.running.as_ref()?.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1024)
    }

    /// Ends the worker; the next request gets a fresh one.
    pub fn renew(&mut self) {
        self.end();
        self.running = None;
    }

    /// Starts the worker ahead of the first request, so that its imports overlap other work.
    pub fn prepare(&mut self) -> Result<(), SupervisorError> {
        if self.running.is_none() {
            self.running = Some(self.start()?);
        }
        Ok(())
    }

    /// Converts one model. A failed conversion is an [`Outcome`] with a failure, not an error.
    pub fn convert(
        &mut self,
        request: &Request,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, SupervisorError> {
        self.prepare()?;
        let Some(running) = &mut self.running else {
            return Ok(Outcome::default());
        };
        running.served += 1;
        let mut outcome = Outcome {
            toolchain: running.versions.clone().unwrap_or_default(),
            warnings: running.warnings.clone(),
            ..Outcome::default()
        };
        let log_from = running.log.seek(SeekFrom::End(0)).unwrap_or(0);
        let mut watch = Watch::new(self.limits, running.versions.is_none());
        let mut line = serde_json::to_string(request).unwrap_or_default();
        line.push('\n');
        // A worker that is already dead shows as the end of its events below.
        let _ = running
            .requests
            .write_all(line.as_bytes())
            .and_then(|()| running.requests.flush());

        let memory = match self.limits.max_memory {
            Some(limit) => Some((limit, Memory::new(running.child.id())?)),
            None => None,
        };
        let kind = watch.run(running, memory, &mut outcome, progress);
        outcome.stages = watch.finish();
        if let Some(kind) = kind {
            let survives = matches!(kind, FailureKind::Python(_));
            let stage = outcome.stages.last().map_or(Step::Start, |s| s.stage);
            let kind = match kind {
                FailureKind::Exited(_) => self.reap(),
                other => other,
            };
            if !survives {
                self.end();
            }
            let log = self.log_tail(log_from);
            outcome.failure = Some(Failure { stage, kind, log });
            if !survives {
                self.running = None;
            }
        }
        Ok(outcome)
    }

    fn start(&self) -> Result<Running, SupervisorError> {
        let log = tempfile::tempfile().map_err(SupervisorError::Log)?;
        let stderr = log.try_clone().map_err(SupervisorError::Log)?;
        let mut command = self.interpreter.worker_command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        // A group of its own: what the worker starts ends with it, and Ctrl-C reaches only us.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|source| SupervisorError::Spawn {
            interpreter: self.interpreter.to_string(),
            source,
        })?;
        if let Ok(mut current) = self.current.lock() {
            *current = Some(child.id());
        }
        let (Some(requests), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SupervisorError::Spawn {
                interpreter: self.interpreter.to_string(),
                source: io::Error::other("its pipes are missing"),
            });
        };
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Running {
            child,
            requests,
            events,
            log,
            versions: None,
            warnings: Vec::new(),
            served: 0,
        })
    }

    /// Waits for a worker whose events have ended and says how it died.
    fn reap(&mut self) -> FailureKind {
        let Some(running) = &mut self.running else {
            return FailureKind::Exited(None);
        };
        match running.child.wait() {
            Ok(status) => death(status),
            Err(_) => FailureKind::Exited(None),
        }
    }

    /// Ends the worker and everything it started.
    fn end(&mut self) {
        if let Some(running) = &mut self.running {
            kill_group(running.child.id());
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        if let Ok(mut current) = self.current.lock() {
            *current = None;
        }
    }

    fn log_tail(&mut self, from: u64) -> Vec<String> {
        match &mut self.running {
            Some(running) => tail(&mut running.log, from).unwrap_or_default(),
            None => Vec::new(),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

/// One request's clock and limits.
struct Watch {
    limits: Limits,
    began: Instant,
    step: Option<(Step, Instant)>,
    stages: Vec<StageTime>,
}

impl Watch {
    fn new(limits: Limits, starting: bool) -> Self {
        let now = Instant::now();
        Watch {
            limits,
            began: now,
            step: starting.then_some((Step::Start, now)),
            stages: Vec::new(),
        }
    }

    /// Follows the worker's events to the end of the request; returns why it stopped short.
    fn run(
        &mut self,
        running: &mut Running,
        mut memory: Option<(u64, Memory)>,
        outcome: &mut Outcome,
        progress: &mut dyn Progress,
    ) -> Option<FailureKind> {
        if let Some((step, _)) = self.step {
            progress.step(step);
        }
        for tick in 0u32.. {
            match running.events.recv_timeout(TICK) {
                Ok(Ok(line)) => match self.take(&line, running, outcome, progress) {
                    Next::More => {}
                    Next::Done => return None,
                    Next::Failed(kind) => return Some(kind),
                },
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return Some(FailureKind::Exited(None));
                }
                Err(RecvTimeoutError::Timeout) => progress.tick(),
            }
            if self.began.elapsed() > self.limits.timeout {
                return Some(FailureKind::Timeout(self.limits.timeout));
            }
            if let Some((limit, memory)) = memory.as_mut().filter(|_| tick % MEMORY_EVERY == 0) {
                let (limit, used) = (*limit, memory.used());
                if used > limit {
                    return Some(FailureKind::Memory { limit, used });
                }
            }
        }
        None
    }

    fn take(
        &mut self,
        line: &str,
        running: &mut Running,
        outcome: &mut Outcome,
        progress: &mut dyn Progress,
    ) -> Next {
        let event = match serde_json::from_str(line) {
            Ok(event) => event,
            Err(error) => return Next::Failed(FailureKind::Protocol(error.to_string())),
        };
        match event {
            Event::Ready { mut versions } => {
                running.warnings =
                    serde_json::from_value(versions["warnings"].take()).unwrap_or_default();
                let versions: Toolchain = serde_json::from_value(versions).unwrap_or_default();
                outcome.toolchain = versions.clone();
                outcome.warnings = running.warnings.clone();
                running.versions = Some(versions);
            }
            Event::Step { step } => {
                self.next(step);
                progress.step(step);
            }
            Event::Facts { functions: values } => match functions(values) {
                Ok(functions) => outcome.functions = functions,
                Err(error) => return Next::Failed(FailureKind::Protocol(error.to_string())),
            },
            Event::Ir { text } => outcome.ir = Some(text),
            Event::Descriptor { functions } => outcome.descriptor = Some(Descriptor { functions }),
            Event::Saved => outcome.saved = true,
            Event::Reference => outcome.reference = true,
            Event::Files { files } => outcome.files = files,
            Event::Failed { error } => return Next::Failed(FailureKind::Python(error)),
            Event::Done => return Next::Done,
        }
        Next::More
    }

    fn next(&mut self, step: Step) {
        let now = Instant::now();
        if let Some((old, since)) = self.step.replace((step, now)) {
            self.stages.push(StageTime {
                stage: old,
                seconds: (now - since).as_secs_f64(),
            });
        }
    }

    fn finish(mut self) -> Vec<StageTime> {
        if let Some((old, since)) = self.step.take() {
            self.stages.push(StageTime {
                stage: old,
                seconds: since.elapsed().as_secs_f64(),
            });
        }
        self.stages
    }
}

enum Next {
    More,
    Done,
    Failed(FailureKind),
}

/// Resident memory of a process and what it started.
struct Memory {
    system: System,
    pid: Pid,
}

impl Memory {
    fn new(pid: u32) -> Result<Self, SupervisorError> {
        let system = System::new().map_err(|e| SupervisorError::Memory(e.to_string()))?;
        Ok(Memory {
            system,
            pid: Pid::from_u32(pid),
        })
    }

    fn used(&mut self) -> u64 {
        self.system.refresh_processes_specifics(
            ProcessesToUpdate::All,
            true,
            ProcessRefreshKind::nothing().with_memory(),
        );
        let processes = self.system.processes();
        processes
            .iter()
            .filter(|(pid, process)| {
                **pid == self.pid
                    || (process.parent() == Some(self.pid) && process.thread_kind().is_none())
            })
            .map(|(_, process)| process.memory())
            .sum()
    }
}

/// The last lines written after `from`.
fn tail(log: &mut File, from: u64) -> io::Result<Vec<String>> {
    let end = log.seek(SeekFrom::End(0))?;
    let start = from.max(end.saturating_sub(LOG_BYTES));
    log.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    log.take(LOG_BYTES).read_to_end(&mut bytes)?;
    log.seek(SeekFrom::End(0))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text
        .lines()
        .map(str::to_owned)
        .filter(|l| !l.trim().is_empty())
        .collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].to_vec())
}

#[cfg(unix)]
fn death(status: ExitStatus) -> FailureKind {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) => FailureKind::Signal(signal),
        None => FailureKind::Exited(status.code()),
    }
}

#[cfg(not(unix))]
fn death(status: ExitStatus) -> FailureKind {
    FailureKind::Exited(status.code())
}

/// Sends SIGKILL to a process group; a group that is already gone is fine.
#[cfg(unix)]
pub fn kill_group(leader: u32) {
    use rustix::process::{kill_process_group, Pid, Signal};
    if let Some(pid) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
pub fn kill_group(_leader: u32) {}
