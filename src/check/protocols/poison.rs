//! States filled with NaN, then with garbage, instead of what they start from.

use std::ops::Range;

use super::fill::{fill, fillable, is_whole, Fill};
use super::landing::{self, Timeline};
use super::{finding, parted, Bench, Found, Halt, Outputs, Verdict};
use crate::check::faults::describe;
use crate::check::graph::partial_writes;
use crate::check::numbers::indices;
use crate::check::rows::changed;
use crate::check::CheckError;
use crate::report::{Finding, Severity};
use crate::runtime::DType;
use crate::text::{count, list, name};

pub(super) const PROVES: &str = "what states hold before they are written never reaches an output";

/// More states than this are poisoned together only.
const MOST: usize = 48;

/// Rows along an axis that are filled.
type Rows = Option<(usize, Range<usize>)>;

/// What filling states came to.
enum Seen {
    /// No output shows it.
    Nothing,
    /// Outputs show it.
    Leak(Leak),
    /// A call fails: its number, and what it says.
    Fails(usize, String),
}

/// The steps at which an output shows the poison, and which output.
struct Leak {
    steps: Vec<usize>,
    output: String,
}

/// What a consumer must do, by state.
#[derive(Default)]
struct Duties {
    zeroed: Vec<String>,
    finite: Vec<String>,
    /// With the value to start at.
    start: Vec<(String, String)>,
    valid: Vec<String>,
    sentences: Vec<String>,
}

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let mut session = bench.start()?;
    let names: Vec<String> = session
        .states
        .iter()
        .filter(|(_, t)| fillable(t.dtype()) && !t.is_empty())
        .map(|(n, _)| n.clone())
        .collect();
    if names.is_empty() || bench.calls.is_empty() {
        return Ok(Found::nothing("there are no states, or no calls"));
    }
    let start = session.states.clone();
    let usual = bench.steps(&mut session, bench.calls)?;
    let poison = Poison { bench, usual };
    let all: Vec<&String> = names.iter().collect();
    let nan = poison.tried(&all, Fill::Nan, None)?;
    let garbage = poison.tried(&all, Fill::Garbage, None)?;
    if let (Seen::Nothing, Seen::Nothing) = (nan, garbage) {
        return Ok(Found::new(
            Verdict::Good,
            format!(
                "neither NaN nor garbage in {} reaches an output",
                count(names.len(), "state")
            ),
        )
        .must("nothing: states need not be zeroed"));
    }
    let lines = landing::timelines(bench)?;
    let mut found = Found::new(Verdict::Duty, String::new());
    let mut duties = Duties::default();
    if names.len() > MOST {
        poison.group(&all, &mut found, &mut duties)?;
    } else {
        let mut silent = Vec::new();
        for own in &names {
            let line = lines.iter().find(|l| l.state == *own);
            let begins = start.get(own).map(describe).unwrap_or_default();
            if !poison.one(own, line, &begins, &mut found, &mut duties)? {
                silent.push(own);
            }
        }
        poison.together(&silent, &lines, &mut found, &mut duties)?;
    }
    duties.told(found)
}

struct Poison<'p, 'b, 't> {
    bench: &'p Bench<'b, 't>,
    usual: Vec<Outputs>,
}

impl Poison<'_, '_, '_> {
    /// Many states together.
    fn group(
        &self,
        states: &[&String],
        found: &mut Found,
        duties: &mut Duties,
    ) -> Result<(), Halt> {
        let label = count(states.len(), "state");
        match self.tried(states, Fill::Garbage, None)? {
            Seen::Leak(leak) => self.zero(&label, &leak, found, duties),
            Seen::Fails(step, error) => fails(&label, step, &error, found, duties),
            Seen::Nothing => {
                if let Seen::Leak(leak) = self.tried(states, Fill::Nan, None)? {
                    self.nan(&label, &leak, found, duties);
                }
            }
        }
        Ok(())
    }

    /// One state alone; whether its garbage shows.
    fn one(
        &self,
        state: &String,
        line: Option<&Timeline>,
        begins: &str,
        found: &mut Found,
        duties: &mut Duties,
    ) -> Result<bool, Halt> {
        let label = name(state).into_owned();
        let mut what = Fill::Garbage;
        let mut seen = self.tried(&[state], what, None)?;
        let whole = self.is_whole(state);
        if let (Seen::Fails(step, error), true) = (&seen, whole) {
            // What is out of range as a position or an index says little: one off is another one.
            what = Fill::Near;
            match self.tried(&[state], what, None)? {
                Seen::Nothing => {
                    fails(&label, *step, error, found, duties);
                    return Ok(true);
                }
                other => seen = other,
            }
        }
        match seen {
            Seen::Fails(step, error) => fails(&label, step, &error, found, duties),
            Seen::Leak(leak) => match self.counts(state, line)? {
                Some(why) => self.start_at(&label, why, begins, &leak, found, duties),
                None => {
                    self.zero(&label, &leak, found, duties);
                    if let Some(line) = line {
                        let told = self.unwritten(&[(state, line)], &leak, what)?;
                        found.findings.extend(told);
                    }
                }
            },
            Seen::Nothing => {
                if let Seen::Leak(leak) = self.tried(&[state], Fill::Nan, None)? {
                    self.nan(&label, &leak, found, duties);
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// States of which none shows alone: contents and their scales multiply each other to nothing.
    fn together(
        &self,
        states: &[&String],
        lines: &[Timeline],
        found: &mut Found,
        duties: &mut Duties,
    ) -> Result<(), Halt> {
        let Seen::Leak(mut leak) = self.tried(states, Fill::Garbage, None)? else {
            return Ok(());
        };
        let mut few: Vec<&String> = states.to_vec();
        for state in states {
            let without: Vec<&String> = few.iter().copied().filter(|s| s != state).collect();
            if let Seen::Leak(still) = self.tried(&without, Fill::Garbage, None)? {
                (few, leak) = (without, still);
            }
        }
        let names: Vec<String> = few.iter().map(|s| name(s).into_owned()).collect();
        self.zero(&format!("{} together", list(&names)), &leak, found, duties);
        let with_lines: Vec<(&String, &Timeline)> = few
            .iter()
            .filter_map(|s| Some((*s, lines.iter().find(|l| l.state == **s)?)))
            .collect();
        if with_lines.len() == few.len() {
            let told = self.unwritten(&with_lines, &leak, Fill::Garbage)?;
            found.findings.extend(told);
        }
        Ok(())
    }

    fn dtype(&self, state: &str) -> Option<DType> {
        let all = self.bench.pair.states();
        let own = all.iter().find(|(_, s)| s.port.name == state);
        own.map(|(_, s)| s.port.dtype)
    }

    fn is_whole(&self, state: &str) -> bool {
        self.dtype(state).is_some_and(is_whole)
    }

    /// Why a state rightly goes on from what it holds, so that it has to start where the model starts;
    /// `None` where its contents should not matter before they are written.
    fn counts(&self, state: &str, line: Option<&Timeline>) -> Result<Option<&'static str>, Halt> {
        let whole = self.is_whole(state);
        if self.dtype(state) == Some(DType::Bool) {
            return Ok(Some("its flags say what has been"));
        }
        let places = self.bench.pair.functions.iter().any(|f| {
            let writes = partial_writes(f.graph);
            let mut origins = writes.iter().flat_map(|w| &w.contents);
            origins.any(|o| o.state && o.name == state)
        });
        if places && whole {
            return Ok(Some("it is the place of a write"));
        }
        let Some((line, axis)) = line.and_then(|l| Some((l, l.axis?))) else {
            return Ok(whole.then_some("each step goes on from what it holds"));
        };
        // A row that still shows what it held when it has been written is added to.
        let Some(first) = line.steps.iter().position(|rows| !rows.is_empty()) else {
            return Ok(None);
        };
        let row = line.steps[first][0];
        let calls = &self.bench.calls[..(first + 1).min(self.bench.calls.len())];
        let (Some((last, before)), mut usual) = (calls.split_last(), self.bench.start()?) else {
            return Ok(None);
        };
        self.bench.steps(&mut usual, before)?;
        let mut other = usual.clone();
        if let Some(t) = other.states.get_mut(state) {
            fill(t, Fill::Garbage, Some((axis, row..row + 1)))?;
        }
        self.bench.step(&mut usual, last)?;
        match self.bench.step(&mut other, last) {
            Ok(_) => {}
            Err(Halt::Failed(CheckError::Run(_))) => return Ok(None),
            Err(halt) => return Err(halt),
        }
        let after = usual.states.get(state).zip(other.states.get(state));
        let differ = after.and_then(|(a, b)| changed(a, b));
        let shows = differ.is_some_and(|rows| rows[axis].contains(&row));
        Ok(shows.then_some("its rows are added to"))
    }

    fn zero(&self, label: &str, leak: &Leak, found: &mut Found, duties: &mut Duties) {
        duties.zeroed.push(label.into());
        duties.sentences.push(format!(
            "garbage in {label} reaches {} at step {}",
            name(&leak.output),
            leak.steps[0]
        ));
        found.details.push(format!(
            "{label}: garbage reaches {} at {}",
            name(&leak.output),
            steps(leak, self.usual.len())
        ));
    }

    fn start_at(
        &self,
        label: &str,
        why: &str,
        begins: &str,
        leak: &Leak,
        found: &mut Found,
        duties: &mut Duties,
    ) {
        let at = begins.strip_prefix("at ").unwrap_or("its initial value");
        duties.start.push((label.into(), at.into()));
        duties.sentences.push(format!("{label} must start at {at}"));
        found.details.push(format!(
            "{label}: must start at {at}: {why}; another value reaches {} at {}",
            name(&leak.output),
            steps(leak, self.usual.len())
        ));
    }

    fn nan(&self, label: &str, leak: &Leak, found: &mut Found, duties: &mut Duties) {
        duties.finite.push(label.into());
        found.details.push(format!(
            "{label}: NaN reaches {} at {}; finite garbage does not",
            name(&leak.output),
            steps(leak, self.usual.len())
        ));
    }

    /// Runs the calls with states filled; where do outputs show it.
    fn tried(&self, states: &[&String], what: Fill, rows: Rows) -> Result<Seen, Halt> {
        let mut session = self.bench.start()?;
        for state in states {
            if let Some(t) = session.states.get_mut(*state) {
                fill(t, what, rows.clone())?;
            }
        }
        let mut leak = Leak {
            steps: Vec::new(),
            output: String::new(),
        };
        for (i, call) in self.bench.calls.iter().enumerate() {
            let got = match self.bench.step(&mut session, call) {
                Ok(got) => got,
                // Without the garbage the same call runs.
                Err(Halt::Failed(CheckError::Run(error))) => {
                    return Ok(Seen::Fails(i + 1, error.to_string()));
                }
                Err(halt) => return Err(halt),
            };
            if let Some(output) = parted(&self.usual[i], &got) {
                if leak.steps.is_empty() {
                    leak.output = output;
                }
                leak.steps.push(i + 1);
            }
        }
        Ok(match leak.steps.is_empty() {
            true => Seen::Nothing,
            false => Seen::Leak(leak),
        })
    }

    /// States written by rows whose unwritten rows reach an output, together.
    fn unwritten(
        &self,
        states: &[(&String, &Timeline)],
        leaked: &Leak,
        what: Fill,
    ) -> Result<Option<Finding>, Halt> {
        let Some((state, line)) = states.first() else {
            return Ok(None);
        };
        let (Some(axis), extent) = (line.axis, line.extent) else {
            return Ok(None);
        };
        if states
            .iter()
            .any(|(_, l)| (l.axis, l.extent) != (Some(axis), extent))
        {
            return Ok(None);
        }
        let own: Vec<&String> = states.iter().map(|s| s.0).collect();
        let names: Vec<String> = own.iter().map(|s| name(s).into_owned()).collect();
        let names = list(&names);
        // The last row whose garbage reaches an output, given that those from it on are garbage.
        let (mut low, mut high) = (0, extent);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match self.tried(&own, what, Some((axis, middle..extent)))? {
                Seen::Nothing => high = middle,
                _ => low = middle,
            }
        }
        let rows = match low + 1 {
            1 => "1 row is".to_string(),
            n => format!("{n} rows are"),
        };
        let output = name(&leaked.output);
        let mut told = finding(
            "reads-unwritten-rows",
            Severity::Warning,
            format!("poisoned unwritten rows of {names} reach {output} until {rows} written"),
        )
        .about((*state).clone())
        .with_evidence(format!(
            "parity rests on unwritten rows being zero, as PyTorch has them; garbage in them reaches {output} at {}",
            steps(leaked, self.usual.len())
        ));
        if let Some(shown) = line.shown() {
            told = told.with_evidence(shown);
        }
        Ok(Some(told.with_fix(format!(
            "a consumer must zero-fill {names} before the first call; or read only the rows written so far"
        ))))
    }
}

/// A state whose garbage makes a call fail.
fn fails(label: &str, step: usize, error: &str, found: &mut Found, duties: &mut Duties) {
    duties.valid.push(label.into());
    duties
        .sentences
        .push(format!("garbage in {label} makes step {step} fail"));
    found
        .details
        .push(format!("{label}: garbage makes step {step} fail: {error}"));
}

impl Duties {
    fn told(self, mut found: Found) -> Result<Found, Halt> {
        let cut = |mut all: Vec<String>| {
            if all.len() > 4 {
                let more = all.len() - 4;
                all.truncate(4);
                all.push(format!("{more} more"));
            }
            list(&all)
        };
        found.found = match self.sentences.is_empty() {
            false => cut(self.sentences),
            true => format!(
                "NaN in {} reaches an output, finite garbage does not",
                cut(self.finite.clone())
            ),
        };
        let mut duties = Vec::new();
        match (self.zeroed.is_empty(), self.finite.is_empty()) {
            (false, false) => duties.push(format!(
                "set {} to zeros or the initial value, and {} to finite values",
                cut(self.zeroed),
                cut(self.finite)
            )),
            (false, true) => duties.push(format!(
                "zero-fill {} (or set the initial value): states must be zero-filled",
                cut(self.zeroed)
            )),
            (true, false) => duties.push(format!(
                "fill {} with finite values, such as zeros: what masks also multiplies",
                cut(self.finite)
            )),
            (true, true) => {}
        }
        if !self.start.is_empty() {
            let all = self.start.into_iter().map(|(s, at)| format!("{s} at {at}"));
            duties.push(format!("start {}", cut(all.collect())));
        }
        if !self.valid.is_empty() {
            duties.push(format!(
                "fill {} with zeros or the initial value: calls fail on others",
                cut(self.valid)
            ));
        }
        Ok(match duties.is_empty() {
            // All of them together show something, each for itself does not.
            true => {
                found.found =
                    "garbage in all states together reaches an output, in none alone".into();
                found.must("zero-fill the states (or set the initial values)")
            }
            false => found.must(duties.join("; ")),
        })
    }
}

/// `step 1`, `every step`, `steps 1 and 2, then no more`
fn steps(leak: &Leak, total: usize) -> String {
    match leak.steps.as_slice() {
        all if all.len() == total && total > 1 => "every step".into(),
        [only] => format!("step {only}"),
        some => format!("steps {}", indices(some)),
    }
}
