//! Writes whose place is run-time data.

use super::{finding, Bench, Found, Halt, Verdict};
use crate::check::graph::{partial_writes, Origin, PartialWrite};
use crate::check::numbers::rows as row_list;
use crate::check::rows::{changed, partial_axis};
use crate::report::Severity;
use crate::text::{count, list, name};

pub(super) const PROVES: &str = "where the place of each write into a state comes from";

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let (mut details, mut findings) = (Vec::new(), Vec::new());
    let mut any_slice = false;
    for function in &bench.pair.functions {
        let mut writes: Vec<PartialWrite> = partial_writes(function.graph);
        writes.retain(|w| !w.contents.is_empty());
        writes.dedup();
        if writes.is_empty() {
            continue;
        }
        let mut states: Vec<String> = writes.iter().map(|w| name(&w.state).into_owned()).collect();
        states.sort();
        states.dedup();
        let mut origins: Vec<String> = writes
            .iter()
            .flat_map(|w| w.contents.iter().map(ToString::to_string))
            .collect();
        origins.sort();
        origins.dedup();
        let from = list(&origins);
        let shown = match states.len() {
            0..=4 => list(&states),
            n => format!("{} and {} more", states[..3].join(", "), n - 3),
        };
        let mut told = finding(
            "runtime-index-write",
            Severity::Advice,
            format!("write position comes from {from}: only the call decides where a step writes in {shown}"),
        )
        .in_function(&function.name)
        .about(writes[0].state.clone());
        for line in where_written(bench, &writes[0].state)? {
            told = told.with_evidence(line);
        }
        let scalar = |o: &Origin| {
            let bound = function.state(&o.name);
            o.state && bound.is_some_and(|b| b.port.shape.is_empty())
        };
        if let Some(origin) = writes.iter().flat_map(|w| &w.contents).find(|o| scalar(o)) {
            told = told.with_evidence(format!(
                "{origin} has no dimensions: shape [1] is refused by name; the vendor's interpreter dies of it"
            ));
        }
        let slices = writes.iter().any(|w| w.op == "slice_update");
        any_slice |= slices;
        if slices {
            told = told.with_evidence(
                "written as a slice: export needs torch._check bounds on the position; without the checks sym_storage_offset is unsupported",
            );
        }
        let deadly = writes.iter().filter(|w| w.deadly).count();
        if writes.iter().any(|w| w.op != "slice_update") {
            told = told.with_evidence(match deadly {
                0 => "written by index; the interpreter dies only when the static number of rows is 1 and rows have more than one element, written by advanced indexing: not so here".to_string(),
                n => format!(
                    "{} of one row by advanced indexing, whose rows have more than one element: the vendor's interpreter dies of it with signal 4; this runtime gives PyTorch's values",
                    count(n, "write")
                ),
            });
        }
        if deadly > 0 {
            told = told
                .with_fix("use index_copy_, which the interpreter runs: k.index_copy_(1, pos, x)");
        } else {
            let fix = match slices {
                true => "a position beyond the state writes nothing and raises nothing: a consumer must keep it in range",
                false => "a position beyond the state stops the call, and a negative one counts from the end: a consumer must keep it in range",
            };
            told = told.with_fix(fix);
        }
        details.push(format!(
            "{}: {shown} at a place from {from}",
            name(&function.name)
        ));
        findings.push(told);
    }
    if findings.is_empty() {
        return Ok(Found::nothing(
            "no state is written at a place from run-time data",
        ));
    }
    let duty = match any_slice {
        true => "keep positions within the state: a write beyond it is dropped without an error",
        false => "keep positions within the state: a write beyond it stops the call, and a negative position counts from the end",
    };
    let mut found = Found::new(Verdict::Duty, details.join("; ")).must(duty);
    found.findings = findings;
    Ok(found)
}

/// The rows that the recorded calls wrote, and whether that is as in PyTorch.
fn where_written(bench: &Bench<'_, '_>, state: &str) -> Result<Vec<String>, Halt> {
    let mut session = bench.start()?;
    let mut steps = Vec::new();
    let mut agree = true;
    for call in bench.calls {
        let before = session.states.get(state).cloned();
        bench.step(&mut session, call)?;
        let Some(after) = session.states.get(state) else {
            continue;
        };
        steps.extend(before.and_then(|b| changed(&b, after)));
        let function = bench.function(call);
        let bound = function.and_then(|f| Some((f, f.state(state)?)));
        if let Some((f, bound)) = bound {
            if let Some(value) = bench.pair.after(call, bound) {
                let theirs = bench.pair.trace.tensor(value)?;
                let tolerance = f.tolerance(bench.pair.options, after.dtype(), &value.dtype);
                agree &= crate::check::metrics::close(after, &theirs, tolerance);
            }
        }
    }
    let shape = session
        .states
        .get(state)
        .map(|t| t.shape().to_vec())
        .unwrap_or_default();
    let Some(axis) = partial_axis(&shape, &steps) else {
        return Ok(Vec::new());
    };
    let mut rows: Vec<usize> = steps.iter().flat_map(|s| s[axis].clone()).collect();
    rows.sort_unstable();
    rows.dedup();
    Ok(match (agree, rows.is_empty()) {
        (_, true) => Vec::new(),
        (true, _) => vec![format!(
            "parity at {} of axis {axis}: this runtime gives PyTorch's values",
            row_list(&rows)
        )],
        (false, _) => vec![format!("{} of axis {axis} are written", row_list(&rows))],
    })
}
