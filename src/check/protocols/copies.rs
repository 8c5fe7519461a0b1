//! Steps that write part of a state and move the whole of it.

use super::landing::timelines;
use super::{finding, Bench, Found, Halt, Verdict};
use crate::check::graph::{rebuilt, Rebuilt};
use crate::report::Severity;
use crate::text::{count, name};

pub(super) const PROVES: &str =
    "a step writes its rows into the caller's memory and copies no cache";

/// Smaller states cost nothing to copy.
const SMALL: usize = 2;

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let names = bench.state_names();
    if names.is_empty() || bench.calls.is_empty() {
        return Ok(Found::nothing("there are no states, or no calls"));
    }
    // Finding out which rows are written copies states; where they lie is looked at in a run of its own.
    let lines = timelines(bench)?;
    let mut session = bench.start()?;
    let mut moved = vec![0usize; names.len()];
    let mut written = vec![0usize; names.len()];
    for (s, call) in bench.calls.iter().enumerate() {
        let place =
            |session: &super::Session, own: &String| session.states.get(own).map(|t| t.place());
        let before: Vec<_> = names.iter().map(|n| place(&session, n)).collect();
        bench.step(&mut session, call)?;
        for (i, own) in names.iter().enumerate() {
            let line = lines.iter().find(|l| l.state == *own);
            let wrote = line.is_some_and(|l| l.steps.get(s).is_some_and(|r| !r.is_empty()));
            written[i] += usize::from(wrote);
            moved[i] += usize::from(wrote && place(&session, own) != before[i]);
        }
    }
    let (mut copied, mut in_place) = (Vec::new(), 0);
    for (i, own) in names.iter().enumerate() {
        let Some(t) = session.states.get(own) else {
            continue;
        };
        let axis = lines.iter().find(|l| l.state == *own).and_then(|l| l.axis);
        let Some(axis) = axis.filter(|a| t.shape()[*a] > SMALL && written[i] > 0) else {
            continue;
        };
        match moved[i] {
            0 => in_place += 1,
            n => copied.push((own.clone(), n, written[i], axis, t.len() * t.dtype().size())),
        }
    }
    if copied.is_empty() {
        return Ok(match in_place {
            0 => Found::nothing("no state is written in part"),
            n => Found::new(
                Verdict::Good,
                format!("{} written in place", count(n, "state")),
            ),
        });
    }
    let total: usize = copied.iter().map(|c| c.4).sum();
    let mut found = Found::new(
        Verdict::Duty,
        format!(
            "{} copied as a whole by a step: {total} bytes, whatever the step writes",
            count(copied.len(), "state")
        ),
    )
    .must("expect the cost of a step to grow with the capacity of the cache");
    for (own, moved, written, axis, bytes) in copied.iter().take(12) {
        found = found.detail(match how(bench, own) {
            Some(Rebuilt::Reordered) => format!(
                "{}: {moved} of {written} writes take its rows in another order, which moves all {bytes} bytes",
                name(own)
            ),
            _ => format!(
                "{}: {moved} of {written} writes change some rows of axis {axis} and move all {bytes} bytes",
                name(own)
            ),
        });
    }
    // Taking rows in another order is what the model asks for, and moves all of them.
    copied.retain(|c| how(bench, &c.0) != Some(Rebuilt::Reordered));
    let Some(first) = copied.first() else {
        return Ok(found);
    };
    let names: Vec<_> = copied.iter().map(|c| name(&c.0).into_owned()).collect();
    let mut told = finding(
        "cache-copied-per-step",
        Severity::Warning,
        format!(
            "{} copied as a whole in {} step, although only some rows change",
            match names.as_slice() {
                [only] => format!("{only} is"),
                [first, .., last] if names.len() > 4 =>
                    format!("{first} … {last} ({} states) are", names.len()),
                _ => format!("{} are", crate::text::list(&names)),
            },
            match copied.iter().all(|c| c.1 == c.2) {
                true => "every",
                false => "some",
            }
        ),
    )
    .about(first.0.clone());
    told.evidence.clone_from(&found.details);
    let fix = match how(bench, &first.0) {
        Some(Rebuilt::Layer) => "the layer is taken out, written and selected back in: give layer and rows in one write, such as cache[layer, :, :, pos] = rows",
        Some(Rebuilt::Joined) => "the cache is joined anew from parts: write only the new rows, with index_copy_ or a slice assignment",
        Some(Rebuilt::Blended) => "the mask selects over the whole cache: write only the new rows, with index_copy_ or a slice assignment",
        _ => "write the new rows into the state with index_copy_ or a slice assignment, and read the state after the write, not before",
    };
    found.findings.push(told.with_fix(fix));
    Ok(found)
}

/// How a state is put together anew, by the first function that does.
fn how(bench: &Bench<'_, '_>, state: &str) -> Option<Rebuilt> {
    let mut functions = bench.pair.functions.iter();
    functions.find_map(|f| rebuilt(f.graph, state))
}
