//! Entry points that only put states back to their start.
//!
//! What such a call does says nothing about how the others use a state: a cache that one of them empties
//! is still written by rows.

use super::fill::{fill, Fill};
use super::rewind::otherwise;
use super::{Bench, Halt};
use crate::check::numbers::Values;
use crate::check::pair::Function;
use crate::check::session::execute;
use crate::check::trace::Call;
use crate::runtime::Tensor;
use crate::text::{list, name};

/// The calls without those of entry points that only reset, and a note that names these; `None` where there
/// are none, nothing else is left, or what is left does not run by itself.
///
/// # Errors
/// When the trace cannot be read, or the time is used up.
pub fn without(bench: &Bench<'_, '_>) -> Result<Option<(Vec<Call>, String)>, Halt> {
    let mut resets: Vec<&Function<'_>> = Vec::new();
    for function in &bench.pair.functions {
        let mut calls = bench.calls.iter();
        let own = calls.find(|c| c.function == function.traced.name);
        if let Some(call) = own {
            if only_resets(bench, function, call)? {
                resets.push(function);
            }
        }
    }
    let is_reset = |c: &&Call| resets.iter().any(|f| f.traced.name == c.function);
    let left: Vec<Call> = bench
        .calls
        .iter()
        .filter(|c| !is_reset(c))
        .cloned()
        .collect();
    if resets.is_empty() || left.is_empty() {
        return Ok(None);
    }
    // A position that counts on past the end without it.
    let mut session = bench.start()?;
    match bench.steps(&mut session, &left) {
        Ok(_) => {}
        Err(Halt::Time) => return Err(Halt::Time),
        Err(Halt::Failed(_)) => return Ok(None),
    }
    let names: Vec<String> = resets.iter().map(|f| name(&f.name).into_owned()).collect();
    let note = format!(
        "protocols leave out the calls of {}, which only {} states back to their start; steps are counted without them",
        list(&names),
        if names.len() == 1 { "puts" } else { "put" },
    );
    Ok(Some((left, note)))
}

/// Whether a call leaves every state of its function as it was at the start, or zero, whatever states and
/// inputs hold.
fn only_resets(bench: &Bench<'_, '_>, function: &Function<'_>, call: &Call) -> Result<bool, Halt> {
    let start = bench.start()?;
    let own = |state: &str| function.state(state).is_some();
    let mut filled = start.clone();
    for (state, t) in &mut filled.states {
        if own(state) {
            fill(t, Fill::Garbage, None)?;
        }
    }
    let mut inputs = Vec::new();
    for (port, t, _) in bench.pair.inputs(function, call)? {
        inputs.push((port, otherwise(&t)?));
    }
    let laid = filled.states.clone();
    if execute(function, &mut filled, &inputs).is_err() {
        return Ok(false);
    }
    let back = |(state, now): (&String, &Tensor)| {
        let began = start.states.get(state);
        let same = |a: &Tensor| a.shape() == now.shape() && a.bytes() == now.bytes();
        // What could not be filled shows nothing.
        let moved = laid.get(state).is_some_and(|l| !same(l));
        moved && (began.is_some_and(same) || zero(now))
    };
    let mut states = filled.states.iter().filter(|(s, _)| own(s)).peekable();
    let any = filled.states.iter().any(|(s, t)| own(s) && t.len() > 1);
    Ok(any && states.peek().is_some() && states.all(back))
}

fn zero(t: &Tensor) -> bool {
    Values::of(t).is_some_and(|v| v.reals.iter().all(|r| *r == 0.0))
}
