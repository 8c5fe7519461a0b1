//! Cells as tasks of a Ray cluster: the Python side talks to Ray, this side to it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::job::{self, Reference};
use super::record::Record;
use crate::convert::{Interpreter, Limits, Progress, Step, Supervisor};
use crate::manifest::Model;

/// How much of the log is looked at when the Python side dies.
const LOG_BYTES: i64 = 8 * 1024;

/// Where cells are converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// In workers on this machine.
    #[default]
    Local,
    /// On a Ray cluster: at the address, or as Ray finds it (`RAY_ADDRESS`, a running one, a new one).
    Ray(Option<String>),
}

/// One task.
#[derive(Debug, Serialize)]
pub(super) struct Task {
    /// Comes back with the answer.
    pub(super) id: usize,
    /// Which model it is of: a reference that is recorded for one is for all its tasks.
    pub(super) model: usize,
    /// Whether it records the reference.
    pub(super) records: bool,
    /// Where the reference is, or comes to be once it is recorded; on this machine.
    pub(super) trace: Option<PathBuf>,
    /// Requirements of an environment that Ray makes; empty where one exists.
    pub(super) packages: Vec<String>,
    /// Bytes that Ray sets aside for it.
    pub(super) memory: Option<u64>,
    /// What the task does.
    pub(super) cell: Cell,
}

/// What a task does, on whichever machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    /// The recipe's file, as every machine sees it.
    pub(super) recipe: PathBuf,
    /// The function in it.
    pub(super) function: String,
    /// The interpreter that converts; `None` for the task's own.
    pub(super) python: Option<PathBuf>,
    /// How often the example is called for the reference.
    pub(super) steps: Option<u32>,
    /// Accepted absolute difference from PyTorch.
    pub(super) atol: Option<f64>,
    /// Accepted relative difference.
    pub(super) rtol: Option<f64>,
    /// Whether stack traces are kept in the asset.
    pub(super) debug_info: bool,
    /// Longest time, in seconds.
    pub(super) timeout: f64,
    /// Most memory of the worker, in bytes.
    pub(super) max_memory: Option<u64>,
}

#[derive(Deserialize)]
struct Answer {
    id: Option<usize>,
    record: Option<Record>,
    error: Option<String>,
}

const BOOTSTRAP: &str = "\
import importlib.util, os, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    'coreai_audit', os.path.join(folder, '__init__.py'), submodule_search_locations=[folder])
package = sys.modules['coreai_audit'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from coreai_audit.ray_executor import main
main()
";

/// Runs the tasks; each answer is told as soon as it is there.
///
/// # Errors
/// When the cluster cannot be used, in one line; tasks without an answer are lost.
pub(super) fn run(
    tasks: &[Task],
    python: &Path,
    address: Option<&str>,
    mut told: impl FnMut(usize, Result<Record, String>),
) -> Result<(), String> {
    let Some(package) = crate::convert::package_folder() else {
        return Err("--executor ray needs the wheel: the stand-alone binary has no Python package to send to the cluster".to_owned());
    };
    let failed = |error: std::io::Error| format!("cannot talk to Ray: {error}");
    let mut log = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new(python);
    command.args(["-c", BOOTSTRAP]).arg(&package);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().map_err(failed)?);
    // Not ended with the run but by its own hand, when its input closes: it has a cluster to tidy up.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(failed)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("cannot talk to Ray: its pipes are missing".to_owned());
    };
    let plan = serde_json::json!({"address": address, "jobs": tasks});
    let _ = writeln!(stdin, "{plan}").and_then(|()| stdin.flush());
    let mut open: HashSet<usize> = tasks.iter().map(|t| t.id).collect();
    let mut refused = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(failed)?;
        let answer: Answer = serde_json::from_str(&line).map_err(|e| failed(e.into()))?;
        match (answer.id, answer.record, answer.error) {
            (Some(id), Some(record), _) if open.remove(&id) => told(id, Ok(record)),
            (Some(id), None, Some(error)) if open.remove(&id) => told(id, Err(error)),
            (None, _, Some(error)) => refused = Some(error),
            _ => return Err("cannot talk to Ray: an answer out of turn".to_owned()),
        }
    }
    drop(stdin);
    let _ = child.wait();
    match (refused, open.is_empty()) {
        (Some(error), _) => Err(error),
        (None, true) => Ok(()),
        (None, false) => Err(format!("Ray ended early: {}", last_line(&mut log))),
    }
}

fn last_line(log: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let _ = log
        .seek(SeekFrom::End(-LOG_BYTES))
        .or_else(|_| log.seek(SeekFrom::Start(0)))
        .and_then(|_| log.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rfind(|l| !l.trim().is_empty());
    last.unwrap_or("it said nothing").trim().to_owned()
}

/// Converts one cell in this process's machine; JSON in, JSON out, and the bytes of the reference either
/// way: recorded where `records`, otherwise given. What the task of a cluster calls.
///
/// # Errors
/// When the text is no cell, or no worker can be started.
pub fn remote_cell(
    cell: &str,
    own: &Path,
    given: Option<&[u8]>,
    records: bool,
) -> Result<(String, Option<Vec<u8>>), String> {
    let cell: Cell = serde_json::from_str(cell).map_err(|e| e.to_string())?;
    let model = Model {
        name: cell.function.clone(),
        file: cell.recipe,
        function: cell.function,
        steps: cell.steps,
        atol: cell.atol,
        rtol: cell.rtol,
        ..Model::default()
    };
    let python = cell.python.as_deref().unwrap_or(own);
    let interpreter = Interpreter::find(Some(python)).map_err(|e| e.to_string())?;
    let limits = Limits {
        timeout: Duration::from_secs_f64(cell.timeout.clamp(0.001, 1e9)),
        max_memory: cell.max_memory,
    };
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let trace = scratch.path().join("reference");
    if let Some(bytes) = given {
        std::fs::write(&trace, bytes).map_err(|e| e.to_string())?;
    }
    let find = || given.map(|_| trace.clone());
    let reference = match records {
        true => Reference::Record(&trace),
        false => Reference::Use(&find),
    };
    let mut supervisor = Supervisor::new(interpreter, limits);
    let record = job::run(
        &model,
        cell.debug_info,
        scratch.path(),
        &reference,
        &mut supervisor,
        &mut Silent,
    )
    .map_err(|e| super::with_causes(&e))?;
    let recorded = match records && trace.is_file() {
        true => Some(std::fs::read(&trace).map_err(|e| e.to_string())?),
        false => None,
    };
    let record = serde_json::to_string(&record).map_err(|e| e.to_string())?;
    Ok((record, recorded))
}

struct Silent;

impl Progress for Silent {
    fn step(&mut self, _step: Step) {}
}
