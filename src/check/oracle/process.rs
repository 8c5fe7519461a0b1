//! The process that runs the interpreter.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::check::pair::Function;
use crate::check::session::{Loss, Session};
use crate::runtime::files::{write, FileError};
use crate::runtime::Tensor;

/// The script; it is handed over as a file, so that the interpreter's environment needs nothing of ours.
const SCRIPT: &str = include_str!("../../../python/coreai_audit/oracle.py");
/// The longest one step may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How far back its last words are looked for.
const LOG_BYTES: u64 = 16 << 10;

/// Why the interpreter could not be consulted.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The process.
    #[error("{}: cannot be started", python.display())]
    Start {
        /// The Python.
        python: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No interpreter there.
    #[error("{}: has no {package} ({what}), which --oracle runs on; install it there (pip install {package}), or give --python an environment with coreai-core", python.display())]
    Missing {
        /// The Python.
        python: PathBuf,
        /// The package to install.
        package: String,
        /// What it said.
        what: String,
    },
    /// It ended before the interpreter was there.
    #[error("{}: ends with exit code {code} before the first step{}; give --python a Python with coreai-core (pip install coreai-core)", python.display(), said(what))]
    Early {
        /// The Python.
        python: PathBuf,
        /// Its exit code.
        code: i32,
        /// What it said.
        what: String,
    },
    /// The files exchanged with it.
    #[error("the files for the interpreter cannot be written or read")]
    Files(#[from] FileError),
    /// The folder of these files.
    #[error("no folder for the files of the interpreter")]
    Folder(#[from] std::io::Error),
    /// The job.
    #[error("the job for the interpreter")]
    Json(#[from] serde_json::Error),
}

fn said(what: &str) -> String {
    if what.is_empty() {
        return String::new();
    }
    format!(" ({})", crate::text::line(what))
}

/// How the process ended.
pub enum Ended {
    /// Every call ran.
    Done,
    /// By a signal.
    Signal(i32),
    /// With an exception.
    Refused(String),
    /// With an exit code, and nothing said.
    Exit(i32),
    /// Not at all, within so many seconds.
    Time(u64),
}

#[derive(Serialize)]
struct Call {
    function: String,
    inputs: BTreeMap<String, String>,
    states: Vec<String>,
    set: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Document {
    asset: PathBuf,
    states: BTreeMap<String, String>,
    calls: Vec<Call>,
}

/// A line of the process.
#[derive(Deserialize)]
struct Line {
    step: Option<usize>,
    error: Option<String>,
    missing: Option<String>,
    package: Option<String>,
    ready: Option<bool>,
}

/// Calls for the interpreter, and the folder in which they and the results lie.
pub struct Job {
    folder: tempfile::TempDir,
    document: Document,
    tensors: Vec<(String, Tensor)>,
}

impl Job {
    /// A job that starts from these states.
    pub fn new(asset: &Path, session: &Session) -> Result<Job, OracleError> {
        let mut job = Job {
            folder: tempfile::tempdir()?,
            document: Document {
                asset: std::path::absolute(asset)?,
                states: BTreeMap::new(),
                calls: Vec::new(),
            },
            tensors: Vec::new(),
        };
        for (name, tensor) in &session.states {
            let key = job.add(tensor);
            job.document.states.insert(name.clone(), key);
        }
        Ok(job)
    }

    fn add(&mut self, tensor: &Tensor) -> String {
        let key = self.tensors.len().to_string();
        self.tensors.push((key.clone(), tensor.clone()));
        key
    }

    /// Adds a call; `set` names the states that are set to what the session holds before it.
    pub fn call(
        &mut self,
        function: &Function<'_>,
        inputs: &[(String, Tensor, Option<Loss>)],
        set: &[String],
        session: &Session,
    ) {
        let mut call = Call {
            function: function.name.clone(),
            inputs: BTreeMap::new(),
            states: function
                .states
                .iter()
                .map(|s| s.port.name.clone())
                .collect(),
            set: BTreeMap::new(),
        };
        for (name, tensor, _) in inputs {
            let key = self.add(tensor);
            call.inputs.insert(name.clone(), key);
        }
        for name in set {
            if let Some(tensor) = session.states.get(name) {
                let tensor = tensor.clone();
                let key = self.add(&tensor);
                call.set.insert(name.clone(), key);
            }
        }
        self.document.calls.push(call);
    }

    /// The file with what a step gave, if it came to that.
    pub fn result(&self, step: usize) -> Option<PathBuf> {
        let path = self.folder.path().join(format!("{step}.safetensors"));
        path.is_file().then_some(path)
    }

    /// Runs the job; in any case the process is gone afterwards.
    pub fn run(&self, python: &Path) -> Result<Ended, OracleError> {
        let at = |name: &str| self.folder.path().join(name);
        let tensors: Vec<(String, &Tensor)> =
            self.tensors.iter().map(|(n, t)| (n.clone(), t)).collect();
        write(&at("job.safetensors"), &tensors)?;
        std::fs::write(at("job.json"), serde_json::to_vec(&self.document)?)?;
        std::fs::write(at("oracle.py"), SCRIPT)?;
        let log = File::create(at("log"))?;
        let start = |source| OracleError::Start {
            python: python.into(),
            source,
        };
        let mut child = Command::new(python)
            .arg(at("oracle.py"))
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(start)?;
        let ended = self.watch(&mut child, python);
        // Whatever happened, it does not outlive this function.
        let _ = child.kill();
        let _ = child.wait();
        ended
    }

    fn watch(&self, child: &mut Child, python: &Path) -> Result<Ended, OracleError> {
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut refused = None;
        // Whether it came as far as the interpreter; what ends before says nothing of the asset.
        let mut begun = false;
        let mut since = Instant::now();
        loop {
            match lines.recv_timeout(Duration::from_millis(200)) {
                Ok(text) => {
                    since = Instant::now();
                    // What the interpreter itself prints is no line of ours.
                    let Ok(line) = serde_json::from_str::<Line>(&text) else {
                        continue;
                    };
                    if let Some(what) = line.missing {
                        return Err(OracleError::Missing {
                            python: python.into(),
                            package: line.package.unwrap_or_else(|| "coreai-core".into()),
                            what,
                        });
                    }
                    begun |= line.ready.is_some() || line.step.is_some() || line.error.is_some();
                    refused = line.error.or(refused);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) if since.elapsed() > PATIENCE => {
                    return Ok(Ended::Time(PATIENCE.as_secs()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        let status = child.wait()?;
        Ok(match (signal(status), refused, status.code()) {
            (Some(signal), ..) => Ended::Signal(signal),
            (None, Some(why), _) => Ended::Refused(why),
            (None, None, Some(code)) if code != 0 && begun => Ended::Exit(code),
            (None, None, Some(code)) if !begun => {
                return Err(OracleError::Early {
                    python: python.into(),
                    code,
                    what: self.last_words(),
                });
            }
            _ => Ended::Done,
        })
    }

    /// The last line of its log that says something.
    pub fn last_words(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut log = File::open(self.folder.path().join("log"))?;
            let size = log.metadata()?.len();
            log.seek(SeekFrom::Start(size.saturating_sub(LOG_BYTES)))?;
            let mut bytes = Vec::new();
            log.take(LOG_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_default();
        // What it logs on the way is no cause; a fatal error is.
        let said = || {
            text.lines()
                .map(str::trim)
                .filter(|l| !l.is_empty() && !l.starts_with("ODIE"))
        };
        let fatal = said().rfind(|l| l.contains("atal error"));
        fatal
            .or_else(|| said().next_back())
            .unwrap_or_default()
            .to_string()
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}
