//! Protocols: what is tried with the states of an asset, beyond running the recorded calls.
//!
//! Each says what it proves, what it found, and what a consumer must therefore do. To add one: write
//! its file, declare it, and add its line to [`protocols!`] below.

mod copies;
mod empty;
pub(super) mod fill;
mod growth;
mod index;
pub(super) mod landing;
mod length;
mod missing;
mod poison;
mod reset;
mod resets;
mod rewind;
mod swap;

use std::time::Instant;

use serde::Serialize;

use super::metrics::{agree, is_float, reals, scale};
use super::pair::{Function, Pair};
use super::session::Session;
use super::trace::{Call, Run};
use super::CheckError;
use crate::report::{Finding, Severity, Stage};
use crate::runtime::Tensor;

/// Declares the protocols: `Variant "word" => module` for a module with `PROVES` and `run`.
macro_rules! protocols {
    ($($(#[doc = $doc:literal])* $variant:ident $word:literal => $module:ident),* $(,)?) => {
        /// A protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Kind {
            $($(#[doc = $doc])* $variant),*
        }

        impl Kind {
            /// Every protocol, in the order in which they run.
            pub const ALL: &[Kind] = &[$(Kind::$variant),*];

            /// The word on the command line and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Kind::$variant => $word),* }
            }

            fn proves(self) -> &'static str {
                match self { $(Kind::$variant => $module::PROVES),* }
            }

            fn run(self, bench: &Bench<'_, '_>) -> Result<Found, Halt> {
                match self { $(Kind::$variant => $module::run(bench)),* }
            }
        }
    };
}

protocols! {
    /// Which rows each step writes.
    Landing "landing" => landing,
    /// Writes whose place is the length of an input.
    Length "length" => length,
    /// Writes whose place is run-time data.
    Index "index" => index,
    /// Reductions over nothing.
    Empty "empty" => empty,
    /// States withheld or misshapen.
    Missing "missing" => missing,
    /// States zeroed.
    Reset "reset" => reset,
    /// States filled with garbage.
    Poison "poison" => poison,
    /// States exchanged.
    Swap "swap" => swap,
    /// Going back to an earlier position.
    Rewind "rewind" => rewind,
    /// Dynamic axes enlarged between steps.
    Growth "growth" => growth,
    /// Whole caches rewritten by a step.
    Copies "copies" => copies,
}

impl Kind {
    /// The protocol with this word.
    pub fn from_word(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.as_str() == word)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a protocol ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All is well, whatever the consumer does.
    Good,
    /// All is well if the consumer does its part.
    Duty,
    /// It is not well.
    Bad,
    /// There is nothing to try it on.
    NotApplicable,
    /// Time ran out, or a call failed.
    Unfinished,
}

impl Verdict {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Duty => "duty",
            Verdict::Bad => "bad",
            Verdict::NotApplicable => "not applicable",
            Verdict::Unfinished => "unfinished",
        }
    }
}

/// What a protocol has to say.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// Which.
    pub name: Kind,
    /// What it proves where it is good.
    pub proves: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What it found, in a sentence.
    pub found: String,
    /// What a consumer must do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duty: Option<String>,
    /// What was seen: one observation a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// What one protocol found.
pub struct Found {
    verdict: Verdict,
    found: String,
    duty: Option<String>,
    details: Vec<String>,
    findings: Vec<Finding>,
}

impl Found {
    fn new(verdict: Verdict, found: impl Into<String>) -> Found {
        Found {
            verdict,
            found: found.into(),
            duty: None,
            details: Vec::new(),
            findings: Vec::new(),
        }
    }

    fn nothing(why: impl Into<String>) -> Found {
        Found::new(Verdict::NotApplicable, why)
    }

    fn must(mut self, duty: impl Into<String>) -> Found {
        self.duty = Some(duty.into());
        self
    }

    fn detail(mut self, line: impl Into<String>) -> Found {
        self.details.push(line.into());
        self
    }
}

/// Why a protocol stopped.
pub enum Halt {
    /// The budget of time is used up.
    Time,
    /// Something failed.
    Failed(CheckError),
}

impl<E: Into<CheckError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        Halt::Failed(error.into())
    }
}

/// What protocols work on: the first run of the trace, as far as it goes.
pub struct Bench<'b, 't> {
    /// Asset and trace.
    pub pair: &'b Pair<'t>,
    /// The run.
    pub run: &'t Run,
    /// Its calls, up to the first that fails.
    pub calls: &'b [Call],
    /// When to stop.
    pub deadline: Instant,
}

/// Outputs of one step.
pub type Outputs = Vec<(String, Tensor)>;

impl<'b, 't> Bench<'b, 't> {
    /// The calls of a run that ran.
    pub fn new(pair: &'b Pair<'t>, run: &'t Run, done: usize, budget: std::time::Duration) -> Self {
        Bench {
            pair,
            run,
            calls: run.calls.get(..done).unwrap_or_default(),
            deadline: Instant::now() + budget,
        }
    }
}

impl<'t> Bench<'_, 't> {
    /// The states before the first call.
    fn start(&self) -> Result<Session, Halt> {
        Ok(self.pair.start(self.run)?)
    }

    /// Whether the time is used up.
    fn late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Runs one call of the trace.
    fn step(&self, session: &mut Session, call: &Call) -> Result<Outputs, Halt> {
        if self.late() {
            return Err(Halt::Time);
        }
        let ran = self.pair.step(session, call)?;
        Ok(ran.map(|r| r.outputs).unwrap_or_default())
    }

    /// Runs calls one after the other.
    fn steps(&self, session: &mut Session, calls: &[Call]) -> Result<Vec<Outputs>, Halt> {
        calls.iter().map(|c| self.step(session, c)).collect()
    }

    /// The function of a call.
    fn function(&self, call: &Call) -> Option<&Function<'t>> {
        self.pair.function(&call.function).map(|(_, f)| f)
    }

    /// Names of the states whose contents some call can depend on, with their function.
    fn state_names(&self) -> Vec<String> {
        let all = self.pair.states();
        all.iter().map(|(_, s)| s.port.name.clone()).collect()
    }
}

/// The first output that is not what it was, beyond rounding.
fn parted(usual: &Outputs, other: &Outputs) -> Option<String> {
    let pairs = usual.iter().zip(other);
    let mut parted = pairs.filter(|((_, a), (_, b))| !alike(a, b));
    parted.next().map(|((name, _), _)| name.clone())
}

/// Whether two results of our own runtime are the same, but for the rounding of another order of sums.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    if a.shape() != b.shape() {
        return false;
    }
    if a.bytes() == b.bytes() {
        return true;
    }
    // Integers are not rounded.
    if !is_float(a.dtype()) {
        return false;
    }
    let (Some(a), Some(b)) = (reals(a), reals(b)) else {
        return false;
    };
    let allowed = 1e-6 * scale(&a);
    a.iter().zip(&b).all(|(a, b)| agree(*a, *b, allowed))
}

/// A finding of a protocol.
fn finding(id: &'static str, severity: Severity, message: impl Into<String>) -> Finding {
    Finding::new(id, Stage::Check, severity, message)
}

/// Runs the protocols asked for. `notes` gets what they leave out.
///
/// # Errors
/// When the trace cannot be read.
pub fn run(
    bench: &Bench<'_, '_>,
    told: &mut dyn FnMut(Kind),
    notes: &mut Vec<String>,
) -> Result<(Vec<Protocol>, Vec<Finding>), CheckError> {
    let (mut protocols, mut findings) = (Vec::new(), Vec::new());
    if bench.pair.options.protocols.is_empty() {
        return Ok((protocols, findings));
    }
    let left = match resets::without(bench) {
        Ok(left) => left,
        Err(Halt::Time | Halt::Failed(CheckError::Run(_))) => None,
        Err(Halt::Failed(e)) => return Err(e),
    };
    let bench = &match &left {
        Some((calls, note)) => {
            notes.push(note.clone());
            Bench { calls, ..*bench }
        }
        None => Bench { ..*bench },
    };
    for kind in Kind::ALL {
        if !bench.pair.options.protocols.contains(kind) {
            continue;
        }
        told(*kind);
        // What only reads the program needs no time.
        let reached = match bench.late() {
            true => "not begun",
            false => "not finished",
        };
        let found = match kind.run(bench) {
            Ok(found) => found,
            Err(Halt::Time) => Found::new(
                Verdict::Unfinished,
                format!("{reached}: the time for protocols is used up"),
            ),
            Err(Halt::Failed(CheckError::Run(e))) => Found::new(
                Verdict::Unfinished,
                format!("not finished: a call failed: {e}"),
            ),
            Err(Halt::Failed(e)) => return Err(e),
        };
        findings.extend(found.findings);
        protocols.push(Protocol {
            name: *kind,
            proves: kind.proves(),
            verdict: found.verdict,
            found: found.found,
            duty: found.duty,
            details: found.details,
        });
    }
    Ok((protocols, findings))
}
