//! States filled with NaN, then with garbage, instead of what they start from.

use super::fill::{fill, fillable, Fill};
use super::landing::{self, Timeline};
use super::{finding, parted, Bench, Found, Halt, Outputs, Verdict};
use crate::check::numbers::indices;
use crate::report::Severity;
use crate::text::{count, list, name};

pub(super) const PROVES: &str = "what states hold before they are written never reaches an output";

/// More states than this are poisoned together only.
const MOST: usize = 48;

/// The steps at which an output shows the poison, and which output.
struct Leak {
    steps: Vec<usize>,
    output: String,
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
        return Ok(Found::nothing("there are no states of floats, or no calls"));
    }
    let usual = bench.steps(&mut session, bench.calls)?;
    let all: Vec<&String> = names.iter().collect();
    let nan = leak(bench, &usual, &all, Fill::Nan, None)?;
    let garbage = leak(bench, &usual, &all, Fill::Garbage, None)?;
    if nan.is_none() && garbage.is_none() {
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
    let (mut zeroed, mut finite, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    let each: Vec<Vec<&String>> = match names.len() {
        n if n <= MOST => names.iter().map(|n| vec![n]).collect(),
        _ => vec![all],
    };
    for group in each {
        let label = match group.as_slice() {
            [only] => name(only).into_owned(),
            many => count(many.len(), "state"),
        };
        let line = lines.iter().find(|l| group.contains(&&l.state));
        match leak(bench, &usual, &group, Fill::Garbage, None)? {
            Some(leak) => {
                zeroed.push(label.clone());
                sentences.push(format!(
                    "garbage in {label} reaches {} at step {}",
                    name(&leak.output),
                    leak.steps[0]
                ));
                found = found.detail(format!(
                    "{label}: garbage reaches {} at {}",
                    name(&leak.output),
                    steps(&leak, usual.len())
                ));
                if let (Some(line), [state]) = (line, group.as_slice()) {
                    found
                        .findings
                        .extend(unwritten(bench, &usual, state, line, &leak)?);
                }
            }
            None => {
                if let Some(leak) = leak_of(bench, &usual, &group)? {
                    finite.push(label.clone());
                    found = found.detail(format!(
                        "{label}: NaN reaches {} at {}; finite garbage does not",
                        name(&leak.output),
                        steps(&leak, usual.len())
                    ));
                }
            }
        }
    }
    let cut = |mut all: Vec<String>| {
        if all.len() > 4 {
            let more = all.len() - 4;
            all.truncate(4);
            all.push(format!("{more} more"));
        }
        list(&all)
    };
    let (needs_zero, needs_finite) = (!zeroed.is_empty(), !finite.is_empty());
    found.found = match (needs_zero, needs_finite) {
        (true, _) => cut(sentences),
        (false, _) => format!(
            "NaN in {} reaches an output, finite garbage does not",
            cut(finite.clone())
        ),
    };
    let duty = match (needs_zero, needs_finite) {
        (true, true) => format!(
            "set {} to zeros or the initial value, and {} to finite values",
            cut(zeroed),
            cut(finite)
        ),
        (true, false) => format!(
            "zero-fill {} (or set the initial value): states must be zero-filled",
            cut(zeroed)
        ),
        (false, _) => format!(
            "fill {} with finite values, such as zeros: what masks also multiplies",
            cut(finite)
        ),
    };
    Ok(found.must(duty))
}

fn leak_of(
    bench: &Bench<'_, '_>,
    usual: &[Outputs],
    group: &[&String],
) -> Result<Option<Leak>, Halt> {
    leak(bench, usual, group, Fill::Nan, None)
}

/// `step 1`, `every step`, `steps 1 and 2, then no more`
fn steps(leak: &Leak, total: usize) -> String {
    match leak.steps.as_slice() {
        all if all.len() == total && total > 1 => "every step".into(),
        [only] => format!("step {only}"),
        some => format!("steps {}", indices(some)),
    }
}

/// Runs the calls with states filled; where do outputs show it.
fn leak(
    bench: &Bench<'_, '_>,
    usual: &[Outputs],
    states: &[&String],
    what: Fill,
    rows: Option<(usize, usize)>,
) -> Result<Option<Leak>, Halt> {
    let mut session = bench.start()?;
    for state in states {
        if let Some(t) = session.states.get_mut(*state) {
            fill(t, what, rows)?;
        }
    }
    let mut leak = Leak {
        steps: Vec::new(),
        output: String::new(),
    };
    for (i, call) in bench.calls.iter().enumerate() {
        let got = bench.step(&mut session, call)?;
        if let Some(output) = parted(&usual[i], &got) {
            if leak.steps.is_empty() {
                leak.output = output;
            }
            leak.steps.push(i + 1);
        }
    }
    Ok((!leak.steps.is_empty()).then_some(leak))
}

/// A state written by rows whose unwritten rows reach an output.
fn unwritten(
    bench: &Bench<'_, '_>,
    usual: &[Outputs],
    state: &String,
    line: &Timeline,
    leaked: &Leak,
) -> Result<Option<crate::report::Finding>, Halt> {
    let Some(axis) = line.axis else {
        return Ok(None);
    };
    let extent = line.extent;
    // The last row whose garbage reaches an output, given that those from it on are garbage.
    let reaches = |from: usize| -> Result<bool, Halt> {
        Ok(leak(bench, usual, &[state], Fill::Garbage, Some((axis, from)))?.is_some())
    };
    let (mut low, mut high) = (0, extent);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match reaches(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    let needed = low + 1;
    let rows = match needed {
        1 => "1 row is".to_string(),
        n => format!("{n} rows are"),
    };
    let output = name(&leaked.output);
    let mut told = finding(
        "reads-unwritten-rows",
        Severity::Warning,
        format!("poisoned unwritten rows of {} reach {output} until {rows} written", name(state)),
    )
    .about(state.clone())
    .with_evidence(format!(
        "parity rests on unwritten rows being zero, as PyTorch has them; garbage in them reaches {output} at {}",
        steps(leaked, usual.len())
    ));
    if let Some(shown) = line.shown() {
        told = told.with_evidence(shown);
    }
    Ok(Some(told.with_fix(format!(
        "a consumer must zero-fill {} before the first call; or read only the rows written so far",
        name(state)
    ))))
}
