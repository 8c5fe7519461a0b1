//! What became of one conversion.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::protocol::{Descriptor, PythonError, Step};
use crate::contract::FunctionSignature;

/// Versions of what made an asset; carried beside the contract, never compared as part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// CPython.
    pub python: Option<String>,
    /// PyTorch.
    pub torch: Option<String>,
    /// The converter.
    #[serde(rename = "coreai-torch")]
    pub coreai_torch: Option<String>,
    /// Apple's asset library.
    #[serde(rename = "coreai-core")]
    pub coreai_core: Option<String>,
}

/// One finished or interrupted stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Step,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Everything a worker said about one model.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Versions, once the worker was ready.
    pub toolchain: Toolchain,
    /// What the packages said when the worker imported them.
    pub warnings: Vec<String>,
    /// The files that the recipe was made from, installed packages left out; as far as they are known.
    pub files: Vec<PathBuf>,
    /// The graph signature and what else is known of each entry point, as far as it came.
    pub functions: Vec<FunctionSignature>,
    /// The emitted IR, MLIR generic form, large constants elided.
    pub ir: Option<String>,
    /// coreai-core's own reading of the saved asset.
    pub descriptor: Option<Descriptor>,
    /// Whether the asset stands at the requested path.
    pub saved: bool,
    /// Whether the reference trace stands at the requested path.
    pub reference: bool,
    /// Wall time of each stage, in order.
    pub stages: Vec<StageTime>,
    /// Why it did not get to the end.
    pub failure: Option<Failure>,
}

/// A conversion that did not get to the end.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The stage that was running.
    pub stage: Step,
    /// What happened.
    pub kind: FailureKind,
    /// Last lines of what the worker wrote for this model, oldest first.
    pub log: Vec<String>,
}

/// How a conversion ended early.
#[derive(Clone, Debug)]
pub enum FailureKind {
    /// Python raised; the worker lives on.
    Python(PythonError),
    /// The worker died of a signal.
    Signal(i32),
    /// The worker exited by itself.
    Exited(Option<i32>),
    /// The worker was ended after this long.
    Timeout(Duration),
    /// The worker was ended for using more than `limit` bytes of memory.
    Memory {
        /// The limit, in bytes.
        limit: u64,
        /// What it used, in bytes.
        used: u64,
    },
    /// The worker said something that is not of the protocol.
    Protocol(String),
}

impl Failure {
    /// What happened, in one sentence without the stage.
    pub fn headline(&self) -> String {
        match &self.kind {
            FailureKind::Python(error) => {
                let first = error.message.lines().next().unwrap_or_default();
                match error.kind.as_str() {
                    "usage" => first.to_owned(),
                    _ => format!("{}: {first}", error.class),
                }
            }
            FailureKind::Signal(signal) => match signal_name(*signal) {
                Some(name) => format!("the worker process died of {name} (signal {signal})"),
                None => format!("the worker process died of signal {signal}"),
            },
            FailureKind::Exited(Some(code)) => {
                format!("the worker process exited with status {code}")
            }
            FailureKind::Exited(None) => "the worker process ended".to_owned(),
            FailureKind::Timeout(limit) => {
                format!(
                    "ran longer than --timeout {}s and was ended",
                    limit.as_secs_f64()
                )
            }
            FailureKind::Memory { limit, used } => format!(
                "used {} of memory, more than --max-memory {}, and was ended",
                bytes(*used),
                bytes(*limit)
            ),
            FailureKind::Protocol(what) => {
                format!("the worker process answered out of turn: {what}")
            }
        }
    }
}

/// `1.5 GB`, in powers of 1000.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} {}", UNITS[0]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// POSIX names of the signals a converter is known to die of, and the common rest.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}
