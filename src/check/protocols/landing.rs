//! Where the writes landed.

use super::fill::{fill, is_whole, Fill};
use super::rewind::shifts;
use super::{Bench, Found, Halt, Session, Verdict};
use crate::check::graph;
use crate::check::numbers::rows as row_list;
use crate::check::rows::{changed, partial_axis};
use crate::check::trace::Call;
use crate::ir::{positional_axis, How};
use crate::text::{count, name};

pub(super) const PROVES: &str = "which rows of which axis each step writes";

/// What the steps write of one state.
pub struct Timeline {
    /// The state.
    pub state: String,
    /// The axis along which only part is written; `None` where it is written as a whole or not at all.
    pub axis: Option<usize>,
    /// Its extent.
    pub extent: usize,
    /// The rows along it that each step wrote.
    pub steps: Vec<Vec<usize>>,
    /// Whether any step wrote anything.
    pub written: bool,
}

impl Timeline {
    /// `rows, axis 1: step 1 row 0; step 2 row 1`
    pub fn shown(&self) -> Option<String> {
        let axis = self.axis?;
        let lines: Vec<String> = self
            .steps
            .iter()
            .take(8)
            .enumerate()
            .map(|(s, r)| format!("step {} {}", s + 1, row_list(r)))
            .collect();
        Some(format!(
            "{}, axis {axis}: {}",
            name(&self.state),
            lines.join("; ")
        ))
    }
}

/// What the recorded calls write. A row counts as written when it changes, or when a mark that was
/// laid down before the step is gone after it: writing what is there already changes nothing.
pub fn timelines(bench: &Bench<'_, '_>) -> Result<Vec<Timeline>, Halt> {
    let names = bench.state_names();
    let mut session = bench.start()?;
    let mut steps: Vec<Vec<Vec<Vec<usize>>>> = vec![Vec::new(); names.len()];
    // Integers are marked where they are contents; what is a position or counts on stays.
    let contents: Vec<bool> = names.iter().map(|n| is_contents(bench, n)).collect();
    let mut shifted = vec![false; names.len()];
    let mut known: Vec<&str> = Vec::new();
    for call in bench.calls {
        if !known.contains(&call.function.as_str()) {
            known.push(&call.function);
            shifting(bench, call, &session, &names, &contents, &mut shifted)?;
        }
        let before = session.states.clone();
        let mark = |integers: bool| -> Result<_, Halt> {
            let mut marked = session.clone();
            for (own, contents) in names.iter().zip(&contents) {
                if let Some(t) = marked.states.get_mut(own) {
                    if !is_whole(t.dtype()) || (integers && *contents) {
                        fill(t, Fill::Mark, None)?;
                    }
                }
            }
            let laid = marked.states.clone();
            let shadow = bench.step(&mut marked, call).is_ok();
            Ok((marked, laid, shadow))
        };
        let (mut marked, mut laid, mut shadow) = mark(true)?;
        if !shadow {
            // A mark may be no index.
            (marked, laid, shadow) = mark(false)?;
        }
        bench.step(&mut session, call)?;
        for (i, own) in names.iter().enumerate() {
            let rows = |a: Option<&crate::runtime::Tensor>, b: Option<&crate::runtime::Tensor>| {
                a.zip(b).and_then(|(a, b)| changed(a, b))
            };
            let Some(mut seen) = rows(before.get(own), session.states.get(own)) else {
                // Of another shape: no rows, but a step all the same.
                let rank = session.states.get(own).map_or(0, |t| t.shape().len());
                steps[i].push(vec![Vec::new(); rank]);
                continue;
            };
            if let Some(gone) = rows(laid.get(own), marked.states.get(own)).filter(|_| shadow) {
                for (axis, more) in gone.into_iter().enumerate() {
                    seen[axis].extend(more);
                    seen[axis].sort_unstable();
                    seen[axis].dedup();
                }
            }
            steps[i].push(seen);
        }
    }
    let mut lines = Vec::new();
    for ((own, mut steps), shifted) in names.into_iter().zip(steps).zip(shifted) {
        let Some(t) = session.states.get(&own) else {
            continue;
        };
        // A shift moves every row, and a sum adds to every one; where the values happen to be equal
        // it only looks like less.
        let by_rows = by_rows(bench, &own) && !shifted;
        let axis = partial_axis(t.shape(), &steps).filter(|_| by_rows);
        let written = steps
            .iter()
            .any(|s| s.is_empty() || s.iter().any(|a| !a.is_empty()));
        let along = |a: usize| {
            steps
                .iter_mut()
                .map(|s| std::mem::take(&mut s[a]))
                .collect()
        };
        lines.push(Timeline {
            state: own,
            extent: axis.map_or(0, |a| t.shape()[a]),
            steps: axis.map_or_else(Vec::new, along),
            axis,
            written,
        });
    }
    Ok(lines)
}

/// Which states a call moves by a row: seen where each element holds another value.
fn shifting(
    bench: &Bench<'_, '_>,
    call: &Call,
    session: &Session,
    names: &[String],
    contents: &[bool],
    shifted: &mut [bool],
) -> Result<(), Halt> {
    let mut moved = session.clone();
    for (own, contents) in names.iter().zip(contents) {
        if let Some(t) = moved.states.get_mut(own) {
            if !is_whole(t.dtype()) || *contents {
                fill(t, Fill::Garbage, None)?;
            }
        }
    }
    let laid = moved.states.clone();
    if bench.step(&mut moved, call).is_err() {
        return Ok(());
    }
    for (own, shifted) in names.iter().zip(shifted) {
        let both = laid.get(own).zip(moved.states.get(own));
        *shifted |= both.is_some_and(|(a, b)| shifts(a, b));
    }
    Ok(())
}

/// Whether a state is written by rows and is the place of no write.
fn is_contents(bench: &Bench<'_, '_>, state: &str) -> bool {
    let places = |f: &crate::check::pair::Function<'_>| {
        let writes = graph::partial_writes(f.graph);
        let mut origins = writes.iter().flat_map(|w| &w.contents);
        origins.any(|o| o.state && o.name == state)
    };
    by_rows(bench, state) && !bench.pair.functions.iter().any(places)
}

/// Whether the graph writes a state by rows: a slice, a scatter, a mask.
fn by_rows(bench: &Bench<'_, '_>, state: &str) -> bool {
    let placed = |f: &crate::check::pair::Function<'_>| {
        graph::partial_writes(f.graph)
            .iter()
            .any(|w| w.state == state)
    };
    match kind(bench, state) {
        Some(how) => how != How::Shift,
        None => bench.pair.functions.iter().any(placed),
    }
}

/// How a state that is written as a whole moves, where the graph shows it.
pub(super) fn kind(bench: &Bench<'_, '_>, state: &str) -> Option<How> {
    bench.pair.functions.iter().find_map(|f| {
        let arg = f.graph.args.iter().find(|a| {
            let attr = a.attrs.get("coreai.name").and_then(|n| n.as_str());
            a.ty.is_handle() && attr == Some(state)
        })?;
        positional_axis(&f.graph.body, arg.value).map(|p| p.how)
    })
}

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    if bench.state_names().is_empty() || bench.calls.is_empty() {
        return Ok(Found::nothing("there are no states, or no calls"));
    }
    let (mut partial, mut whole, mut still) = (0, 0, 0);
    let mut details = Vec::new();
    for line in timelines(bench)? {
        let own = name(&line.state).into_owned();
        match (line.shown(), line.written) {
            (Some(shown), _) => {
                partial += 1;
                details.push(shown);
            }
            (None, false) => {
                still += 1;
                details.push(format!("{own}: no step writes it"));
            }
            (None, true) => {
                whole += 1;
                details.push(match kind(bench, &line.state) {
                    Some(How::Shift) => format!("{own}: shifts"),
                    _ => format!("{own}: written as a whole"),
                });
            }
        }
    }
    details.truncate(64);
    let mut found = Found::new(
        Verdict::Good,
        format!(
            "{} written by rows, {whole} as a whole, {still} not at all",
            count(partial, "state")
        ),
    );
    found.details = details;
    Ok(found)
}
