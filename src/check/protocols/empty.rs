//! Reductions over an extent of 0.

use super::{finding, Bench, Found, Halt, Verdict};
use crate::check::graph::{empty_reductions, EmptyReduction};
use crate::contract::shape as extents;
use crate::report::Severity;
use crate::text::name;

pub(super) const PROVES: &str = "no reduction runs over nothing";

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let mut findings = Vec::new();
    for function in &bench.pair.functions {
        let mut reductions: Vec<EmptyReduction> =
            empty_reductions(bench.pair.module, function.graph);
        reductions.dedup();
        for reduction in reductions {
            let shape = extents(&reduction.shape);
            let what = match &reduction.of {
                Some(origin) => format!("{origin} has shape {shape}"),
                None => format!("a value of shape {shape}"),
            };
            let mut told = finding(
                "empty-reduction",
                Severity::Warning,
                format!(
                    "{what}: {} runs over nothing, and the interpreter's output is undefined",
                    reduction.op
                ),
            )
            .in_function(&function.name);
            if let Some(origin) = &reduction.of {
                told = told.about(origin.name.clone());
            }
            let (gives, first) = gives(bench, &function.name)?;
            told = told.with_evidence(match gives {
                Some((output, input)) => format!(
                    "our runtime gives {} for {} (the neutral element of the reduction); the interpreter's output is undefined and varies from run to run",
                    name(&input), name(&output)
                ),
                None if !first.is_empty() => format!("our runtime gives {first}; the interpreter's output is undefined and varies from run to run"),
                None => "our runtime gives the neutral element; the interpreter's output is undefined and varies from run to run".into(),
            });
            findings.push(told.with_fix("register the cache with the rows it needs, zero-filled, and reduce over the written ones"));
        }
    }
    if findings.is_empty() {
        return Ok(Found::new(Verdict::Good, "no reduction runs over nothing"));
    }
    let mut found = Found::new(
        Verdict::Duty,
        format!(
            "{} over nothing: its value is undefined in the vendor's interpreter",
            crate::text::count(findings.len(), "reduction")
        ),
    );
    found.findings = findings;
    Ok(found)
}

/// An output and the input that it is unchanged in the first call.
type Same = Option<(String, String)>;

/// An output that is an input unchanged in the first call; and how the outputs begin.
fn gives(bench: &Bench<'_, '_>, function: &str) -> Result<(Same, String), Halt> {
    let Some(f) = bench.pair.functions.iter().find(|f| f.name == function) else {
        return Ok((None, String::new()));
    };
    let Some(call) = bench.calls.iter().find(|c| c.function == f.traced.name) else {
        return Ok((None, String::new()));
    };
    let mut session = bench.start()?;
    let outputs = bench.step(&mut session, call)?;
    let inputs = bench.pair.inputs(f, call)?;
    let same = outputs.iter().find_map(|(output, a)| {
        let same = |b: &crate::runtime::Tensor| {
            a.dtype() == b.dtype() && a.len() == b.len() && a.bytes() == b.bytes()
        };
        let input = inputs.iter().find(|(_, b, _)| same(b))?;
        Some((output.clone(), input.0.clone()))
    });
    let first: Vec<String> = outputs
        .iter()
        .filter_map(|(output, t)| {
            let value = crate::check::numbers::Values::of(t)?.at(0)?;
            Some(format!(
                "{} for {}",
                crate::check::number(value),
                name(output)
            ))
        })
        .take(3)
        .collect();
    Ok((same, first.join(", ")))
}
