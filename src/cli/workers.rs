//! Flags and set-up shared by the commands that convert.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Failure;
use crate::convert::{kill_group, Interpreter, Limits, Supervisor};
use crate::manifest::parse_bytes;

/// Longest time for one model when nobody says.
const TIMEOUT_SECONDS: f64 = 3600.0;

/// How the worker that converts is run.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WorkerArgs {
    /// Python that converts: an interpreter or the folder of a virtual environment
    ///
    /// Default: `python` in the manifest, then the Python this program is installed in, then an active
    /// virtual environment, `.venv`, and `python3`.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    #[command(flatten)]
    limits: LimitArgs,
}

/// What a worker may cost, and what it keeps.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Longest time for one model, in seconds [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    timeout: Option<f64>,

    /// Most memory the worker may use, such as 8GB or 512MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_memory: Option<u64>,

    /// Keep the author's file names and stack traces in the asset, for debugging
    #[arg(long)]
    pub(super) debug_info: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 && n < 1e9 => Ok(n),
        _ => Err(format!("{text:?}: expected a positive number of seconds")),
    }
}

/// What the manifest says about workers.
#[derive(Default)]
pub(super) struct Defaults<'a> {
    pub(super) python: Option<&'a Path>,
    pub(super) timeout: Option<f64>,
    pub(super) max_memory: Option<u64>,
}

impl WorkerArgs {
    /// A supervisor; `cleanup` is removed when the user interrupts.
    pub(super) fn supervisor(
        &self,
        defaults: &Defaults<'_>,
        cleanup: &Cleanup,
    ) -> Result<Supervisor, Failure> {
        let interpreter = Interpreter::find(self.python.as_deref().or(defaults.python))?;
        let supervisor = Supervisor::new(interpreter, self.limits.limits(defaults));
        let (worker, cleanup) = (supervisor.current_worker(), cleanup.clone());
        ctrlc::set_handler(move || {
            if let Ok(Some(leader)) = worker.lock().map(|w| *w) {
                kill_group(leader);
            }
            cleanup.run();
            // 128 + SIGINT, as shells report it.
            std::process::exit(130);
        })?;
        Ok(supervisor)
    }

    /// Whether to keep stack traces of the author's code.
    pub(super) fn debug_info(&self) -> bool {
        self.limits.debug_info
    }
}

impl LimitArgs {
    /// The limits, with the manifest's where none are given.
    pub(super) fn limits(&self, defaults: &Defaults<'_>) -> Limits {
        let seconds = self.timeout.or(defaults.timeout).unwrap_or(TIMEOUT_SECONDS);
        Limits {
            timeout: Duration::from_secs_f64(seconds),
            max_memory: self.max_memory.or(defaults.max_memory),
        }
    }
}

/// Paths to remove when the user interrupts.
#[derive(Clone, Default)]
pub(super) struct Cleanup(Arc<Mutex<Vec<PathBuf>>>);

impl Cleanup {
    pub(super) fn add(&self, path: PathBuf) {
        if let Ok(mut paths) = self.0.lock() {
            paths.push(path);
        }
    }

    fn run(&self) {
        let Ok(paths) = self.0.lock() else { return };
        for path in paths.iter() {
            let _ = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
        }
    }
}
