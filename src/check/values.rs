//! Binding states by what they hold, where nothing else tells.

use super::metrics::close;
use super::pair::{argument_source, buffer_source, How, Pair};
use super::CheckError;
use crate::contract::{Source, SourceKind};

/// Binds states that are still without a source: each is run as whatever is left in their order, and
/// goes to the only tensor that it agrees with after the first call.
///
/// # Errors
/// When the trace cannot be read.
pub fn bind(pair: &mut Pair<'_>) -> Result<(), CheckError> {
    for index in 0..pair.functions.len() {
        let function = &pair.functions[index];
        let open: Vec<usize> = (0..function.states.len())
            .filter(|s| function.states[*s].source.is_none())
            .collect();
        if open.is_empty() {
            continue;
        }
        let mut left = candidates(pair, index);
        // First in order, by shape, so that there is something to run.
        for place in &open {
            let port = pair.functions[index].states[*place].port.clone();
            let fits = |c: &(Source, Vec<u64>)| {
                c.1.len() == port.shape.len()
                    && c.1
                        .iter()
                        .zip(&port.shape)
                        .all(|(a, b)| b.is_none_or(|b| b == *a))
            };
            if let Some(at) = left.iter().position(fits) {
                let (source, _) = left.remove(at);
                let state = &mut pair.functions[index].states[*place];
                state.source = Some(source);
                state.how = Some(How::Position);
            }
        }
        by_values(pair, index, &open)?;
    }
    Ok(())
}

/// Written buffers and arguments that no state is yet, with their shapes.
fn candidates(pair: &Pair<'_>, index: usize) -> Vec<(Source, Vec<u64>)> {
    let function = &pair.functions[index];
    let taken = |s: &Source| {
        let own = function.states.iter().filter_map(|b| b.source.as_ref());
        own.into_iter().any(|o| o.same_tensor(s))
    };
    let buffers = function.traced.buffers.iter().filter(|b| b.written);
    let mut all: Vec<(Source, Vec<u64>)> = buffers
        .map(|b| (buffer_source(b), b.shape.clone()))
        .collect();
    let first = pair
        .trace
        .runs()
        .iter()
        .flat_map(|r| &r.calls)
        .find(|c| c.function == function.traced.name);
    for argument in function.traced.arguments.iter().filter(|a| a.written) {
        if let Some(value) = first.and_then(|c| c.inputs.get(&argument.path)) {
            let shape = value.shape.iter().map(|n| *n as u64).collect();
            all.push((argument_source(argument), shape));
        }
    }
    all.retain(|(s, _)| !taken(s));
    all
}

fn by_values(pair: &mut Pair<'_>, index: usize, open: &[usize]) -> Result<(), CheckError> {
    let Some(run) = pair.trace.runs().first() else {
        return Ok(());
    };
    let traced = pair.functions[index].traced.name.clone();
    let Some(call) = run
        .calls
        .iter()
        .find(|c| c.function == traced && c.error.is_none())
    else {
        return Ok(());
    };
    let mut session = pair.start(run)?;
    match pair.step(&mut session, call) {
        Ok(_) => {}
        // It fails again where it is told.
        Err(CheckError::Run(_)) => return Ok(()),
        Err(other) => return Err(other),
    }
    let function = &pair.functions[index];
    let sources: Vec<Source> = open
        .iter()
        .filter_map(|p| function.states[*p].source.clone())
        .collect();
    let mut found = Vec::new();
    for place in open {
        let state = &function.states[*place];
        let Some(ours) = session.states.get(&state.port.name) else {
            continue;
        };
        let mut matching = Vec::new();
        for source in &sources {
            let value = match source.kind {
                SourceKind::Buffer => call.buffer(&source.name),
                SourceKind::Argument => call.argument(&source.name),
            };
            if let Some(value) = value {
                let tolerance = function.tolerance(pair.options, ours.dtype(), &value.dtype);
                if close(ours, &pair.trace.tensor(value)?, tolerance) {
                    matching.push(source.clone());
                }
            }
        }
        if let [only] = matching.as_slice() {
            found.push((*place, only.clone()));
        }
    }
    // Only a complete answer in which nobody is taken twice is one.
    let unique = found
        .iter()
        .all(|(p, s)| found.iter().all(|(q, t)| p == q || !s.same_tensor(t)));
    if found.len() == open.len() && unique {
        for (place, source) in found {
            let state = &mut pair.functions[index].states[place];
            state.source = Some(source);
            state.how = Some(How::Values);
        }
    }
    Ok(())
}
