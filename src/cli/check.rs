//! `coreai-audit check`: an asset against what PyTorch computed.

mod human;

use super::{Context, Exit, Failure, Format, FormatArg};
use crate::check::trace::Start;
use crate::check::{check_with, Options, Progress, ProtocolKind, Report, Tolerances, Trace};
use crate::convert::Interpreter;
use crate::load::load;
use crate::report::fails;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Run an asset against a recorded trace of PyTorch
///
/// Every call of the trace is run on this machine, without Python and PyTorch, and each output and
/// each state is compared after each call; a state is compared with the buffer or argument that it is. A difference is searched for its cause:
/// exchanged states, lost writes and initial values, saturated or narrowed integers, folded casts, rows
/// written elsewhere.
///
/// Then protocols try what a consumer may do with the states: leave them unzeroed, exchange them, set
/// them back, rewind, enlarge or withhold them. Each says what it proves, what it found, and what a
/// consumer must therefore do.
///
/// An asset does not carry the sources of its states. They are taken from --contract, then from the
/// contract in the trace, then from equal names, then from what running shows.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit convert model.py:recipe -o model.aimodel --trace model.trace.safetensors\n  \
    coreai-audit check model.aimodel --reference model.trace.safetensors\n  \
    coreai-audit check model.aimodel --reference t.safetensors --protocols poison,rewind\n  \
    coreai-audit check model.aimodel --reference t.safetensors --oracle --python .venv\n  \
    coreai-audit check model.aimodel --reference t.safetensors --rtol 0.01 --format json | jq .protocols\n\n\
    A value agrees if it lies within ATOL + RTOL * largest magnitude of its tensor in PyTorch. Without\n\
    --atol and --rtol the narrowest float on the way decides: 1e-5 and 5e-4 for float32, 1e-3 and 1e-2\n\
    for float16, 1e-2 and 4e-2 for bfloat16. Integers must be equal.\n\n\
    Exit codes: 0 it computes what PyTorch computes; 1 something was found; 2 it could not be run.")]
pub struct Args {
    /// The directory of an asset
    #[arg(value_name = "ASSET")]
    asset: PathBuf,

    /// The trace, as `convert --trace` and `gate` write it
    #[arg(long, value_name = "TRACE")]
    reference: PathBuf,

    /// What the states are: a contract in JSON, a snapshot, or another asset
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,

    /// Which protocols to run, or `all` or `none`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", value_parser = protocol)]
    protocols: Vec<Selection>,

    /// Allowed absolute difference of floats
    #[arg(long, value_name = "ATOL", allow_hyphen_values = true, value_parser = distance)]
    atol: Option<f64>,

    /// Allowed difference of floats, relative to the largest magnitude of the tensor
    #[arg(long, value_name = "RTOL", allow_hyphen_values = true, value_parser = distance)]
    rtol: Option<f64>,

    #[command(flatten)]
    format: FormatArg,

    /// Run coreai-core's interpreter on the calls as well, in a process of its own, and compare three ways
    #[arg(long, display_order = 98)]
    oracle: bool,

    /// The Python with coreai-core for --oracle: an interpreter or a virtual environment
    #[arg(long, value_name = "PATH", requires = "oracle", display_order = 99)]
    python: Option<PathBuf>,

    /// Seconds after which protocols that have not begun are left out
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 120,
        display_order = 100
    )]
    budget: u32,

    /// Threads for large products
    #[arg(long, value_name = "N", default_value_t = 1, display_order = 101,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

/// One word of `--protocols`.
#[derive(Clone, Copy)]
enum Selection {
    All,
    None,
    One(ProtocolKind),
}

fn protocol(word: &str) -> Result<Selection, String> {
    match word {
        "all" => Ok(Selection::All),
        "none" => Ok(Selection::None),
        _ => ProtocolKind::from_word(word)
            .map(Selection::One)
            .ok_or_else(|| {
                let known: Vec<&str> = ProtocolKind::ALL.iter().map(|k| k.as_str()).collect();
                format!(
                    "no such protocol; there are all, none, {}",
                    known.join(", ")
                )
            }),
    }
}

fn distance(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(v) if v >= 0.0 && v.is_finite() => Ok(v),
        _ => Err("expected a number that is not negative".into()),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    asset: String,
    reference: String,
    /// Whether every compared value is within its tolerance.
    parity_holds: bool,
    exit: i32,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let trace = Trace::open(&self.reference)?;
        let contract = load(self.contract.as_deref().unwrap_or(&self.asset))?.contract;
        let options = self.options()?;
        let mut progress = Bar::new();
        let report = check_with(&self.asset, &contract, &trace, &options, &mut progress)?;
        drop(progress);
        let exit = match fails(&report.findings) {
            true => Exit::Found,
            false => Exit::Good,
        };
        match self.format.format {
            Format::Human => {
                let shown = human::render(&self.asset, &report, context.out.paint)?;
                write!(context.out, "{shown}")?;
            }
            Format::Json => {
                let document = Document {
                    report: &report,
                    asset: self.asset.display().to_string(),
                    reference: self.reference.display().to_string(),
                    parity_holds: report.parity_holds(),
                    exit: exit as i32,
                };
                writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
            }
        }
        Ok(exit)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut protocols = Vec::new();
        let none = |word: &Selection| matches!(word, Selection::None);
        if self.protocols.len() > 1 && self.protocols.iter().any(none) {
            return Err("--protocols none goes with no other word".into());
        }
        for word in &self.protocols {
            match word {
                Selection::All => protocols.extend(ProtocolKind::ALL),
                Selection::None => {}
                Selection::One(kind) => protocols.push(*kind),
            }
        }
        let oracle = match self.oracle {
            true => Some(Interpreter::find(self.python.as_deref())?.path().to_owned()),
            false => None,
        };
        Ok(Options {
            oracle,
            tolerances: Tolerances {
                atol: self.atol,
                rtol: self.rtol,
            },
            protocols,
            threads: usize::from(self.threads),
            budget: Duration::from_secs(u64::from(self.budget)),
            ..Options::default()
        })
    }
}

/// A moving line on a terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new() -> Bar {
        Bar(std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        }))
    }

    fn say(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
        }
    }
}

impl Progress for Bar {
    fn call(&mut self, run: Start, call: usize, calls: usize) {
        self.say(format!("from {run} values: call {} of {calls}", call + 1));
    }

    fn protocol(&mut self, kind: ProtocolKind) {
        self.say(format!("protocol {kind}"));
    }

    fn oracle(&mut self) {
        self.say("the vendor's interpreter".into());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
