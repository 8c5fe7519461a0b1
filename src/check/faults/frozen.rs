//! Writes that land in other rows than PyTorch's.

use std::time::Duration;

use super::{error, Evidence, Told};
use crate::check::graph;
use crate::check::numbers::{indices, rows};
use crate::check::parity::PortParity;
use crate::check::protocols::landing::timelines as timelines_of;
use crate::check::protocols::Bench;
use crate::check::rows::{changed, partial_axis};
use crate::check::CheckError;
use crate::contract::Role;
use crate::text::{list, name};

/// Time for finding out which rows are written.
const TIME: Duration = Duration::from_secs(60);

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    loop {
        let mut found = None;
        for port in evidence.open(told) {
            if port.role == Role::State {
                if let Some(lines) = timelines(evidence, port)? {
                    found = Some((port, lines));
                    break;
                }
            }
        }
        let Some((port, lines)) = found else {
            return Ok(());
        };
        report(evidence, port, &lines, told)?;
    }
}

/// Which rows each side wrote in each step.
struct Lines {
    axis: usize,
    ours: Vec<Vec<usize>>,
    theirs: Vec<Vec<usize>>,
}

fn timelines(evidence: &Evidence<'_, '_>, port: &PortParity) -> Result<Option<Lines>, CheckError> {
    let mut theirs = Vec::new();
    let mut shape = Vec::new();
    for step in port.steps.iter().map(|s| s.step) {
        let (Some(b), Some(before)) = (evidence.theirs(port, step)?, evidence.before(port, step)?)
        else {
            break;
        };
        let Some(other) = changed(&before, &b) else {
            return Ok(None);
        };
        // Rows are counted only where the state keeps its shape.
        if !theirs.is_empty() && shape != b.shape() {
            return Ok(None);
        }
        shape = b.shape().to_vec();
        theirs.push(other);
    }
    let Some(axis) = partial_axis(&shape, &theirs) else {
        return Ok(None);
    };
    let outcome = evidence.outcome;
    let bench = Bench::new(evidence.pair, outcome.run, outcome.done, TIME);
    // What cannot be run again says nothing about rows.
    let Ok(lines) = timelines_of(&bench) else {
        return Ok(None);
    };
    let ours = lines
        .into_iter()
        .find(|l| l.state == port.port && l.axis == Some(axis));
    let Some(ours) = ours else {
        return Ok(None);
    };
    let theirs: Vec<Vec<usize>> = theirs
        .into_iter()
        .map(|mut s| std::mem::take(&mut s[axis]))
        .collect();
    // Of the calls, those of this function.
    let own = port.steps.iter().take(theirs.len());
    let ours: Vec<Vec<usize>> = own
        .map(|s| ours.steps.get(s.step - 1).cloned().unwrap_or_default())
        .collect();
    // Rewriting what is there already changes nothing, so PyTorch may write more than is seen.
    let differ = ours
        .iter()
        .zip(&theirs)
        .any(|(a, b)| b.iter().any(|r| !a.contains(r)));
    Ok(differ.then_some(Lines { axis, ours, theirs }))
}

fn report(
    evidence: &Evidence<'_, '_>,
    port: &PortParity,
    lines: &Lines,
    told: &mut Told,
) -> Result<(), CheckError> {
    let step = (0..lines.ours.len())
        .find(|i| lines.ours[*i] != lines.theirs[*i])
        .map_or(1, |i| port.steps[i].step);
    let all = |list: &[Vec<usize>]| {
        let all: Vec<String> = list.iter().map(|r| indices(r)).collect();
        all.join(", ")
    };
    let always = lines.ours.windows(2).all(|w| w[0] == w[1]);
    let asset = match always {
        true => format!("the asset {} each time", rows(&lines.ours[0])),
        false => format!("the asset rows {}", all(&lines.ours)),
    };
    let timeline = format!("PyTorch writes rows {}; {asset}", all(&lines.theirs));
    let python: Vec<String> = evidence
        .pair
        .options
        .hints
        .lost
        .iter()
        .filter(|l| l.function == port.function && l.kind == "python")
        .map(|l| l.name.clone())
        .collect();
    let constant = evidence.function(port).is_some_and(|f| {
        let writes = graph::partial_writes(f.graph);
        let mut own = writes.iter().filter(|w| w.state == port.port).peekable();
        own.peek().is_some() && own.all(|w| w.contents.is_empty() && w.lengths.is_empty())
    });
    let state = name(&port.port);
    let finding = match (python.is_empty(), constant && always) {
        (false, _) => error(
            "python-state-frozen",
            format!(
                "{} is a Python attribute changed by forward and frozen at its export-time value: {timeline}",
                list(&python)
            ),
        ),
        (true, true) => error(
            "python-state-frozen",
            format!(
                "the position at which {state} is written is a Python value frozen at export: {timeline}"
            ),
        ),
        (true, false) => error(
            "write-in-unexpected-row",
            format!("{state} is written in another row than in PyTorch from step {step} on: {timeline}"),
        ),
    };
    let finding = finding
        .in_function(&port.function)
        .about(&port.port)
        .with_evidence(format!(
            "rows are counted along axis {} of {state}",
            lines.axis
        ))
        .with_evidence(format!("state {}", evidence.shown(port)?));
    let fix = match finding.id.as_ref() {
        "python-state-frozen" => "keep the position in a registered buffer that forward writes in place, or pass it as an argument",
        _ => "check where the position comes from: an input, a state, or the length of an input",
    };
    let mut finding = evidence.consequences(port, finding, told)?;
    let later: Vec<String> = finding
        .evidence
        .iter()
        .filter(|l| l.starts_with("output "))
        .map(|l| l.split(' ').nth(1).unwrap_or_default().to_string())
        .collect();
    if let Some(output) = later.first() {
        let at = evidence.outcome.ports.iter().find(|p| {
            p.role == Role::Output
                && p.function == port.function
                && name(&p.port) == *output
                && p.first_beyond().is_some()
        });
        if let Some(at) = at {
            finding = finding.with_evidence(format!(
                "{output} differs from step {}; the same under strict",
                evidence.failing(at)
            ));
        }
    }
    told.findings.push(finding.with_fix(fix));
    Ok(())
}
