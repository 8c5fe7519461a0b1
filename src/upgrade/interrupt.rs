//! What must end and what must go when the user interrupts.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use crate::convert::{kill_group, CurrentWorker};

/// Live processes and unfinished folders of a run; shared with whoever handles Ctrl-C.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    workers: Vec<CurrentWorker>,
    groups: BTreeSet<u32>,
    folders: BTreeSet<PathBuf>,
}

impl Interrupt {
    /// The live worker of a supervisor ends with the run.
    pub fn add_worker(&self, worker: CurrentWorker) {
        self.with(|inner| inner.workers.push(worker));
    }

    /// Starts a process in a group of its own, which ends with the run for as long as the guard lives.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<(Child, Watched<'_>)> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        // Under the lock: no process may start while others are being ended.
        let mut inner = self.0.lock().map_err(|_| io::Error::other("interrupted"))?;
        let child = command.spawn()?;
        let leader = child.id();
        inner.groups.insert(leader);
        let guard = Watched {
            interrupt: self,
            leader,
        };
        Ok((child, guard))
    }

    /// The folder goes if the run ends early.
    pub fn add_folder(&self, folder: &Path) {
        self.with(|inner| inner.folders.insert(folder.to_owned()));
    }

    /// The folder is finished, or gone.
    pub fn keep_folder(&self, folder: &Path) {
        self.with(|inner| inner.folders.remove(folder));
    }

    /// Goes on at once, or never again where the run is being ended: called before new work begins.
    pub fn pass(&self) {
        self.with(|_| ());
    }

    /// Ends every process and removes every unfinished folder; the process must end next, since
    /// whoever else wants to start or finish something now waits for ever.
    pub fn run(&self) {
        if let Ok(inner) = self.0.lock() {
            for worker in &inner.workers {
                if let Ok(Some(leader)) = worker.lock().map(|w| *w) {
                    kill_group(leader);
                }
            }
            inner.groups.iter().copied().for_each(kill_group);
            for folder in &inner.folders {
                // A process that is just dying may write once more.
                for _ in 0..10 {
                    match std::fs::remove_dir_all(folder) {
                        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                            std::thread::sleep(std::time::Duration::from_millis(20));
                        }
                        _ => break,
                    }
                }
            }
            std::mem::forget(inner);
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> Option<T> {
        self.0.lock().ok().map(|mut inner| f(&mut inner))
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

/// A process group that ends with the run until this is dropped.
pub struct Watched<'a> {
    interrupt: &'a Interrupt,
    leader: u32,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.interrupt
            .with(|inner| inner.groups.remove(&self.leader));
    }
}
