//! A state that holds what PyTorch has in another one.

use super::{error, Evidence, Told};
use crate::check::metrics::close;
use crate::check::parity::PortParity;
use crate::check::CheckError;
use crate::contract::{names, Role};
use crate::report::Finding;
use crate::runtime::Tensor;
use crate::text::{list, name};

/// More ports of one shape than this are not searched.
const MOST: usize = 256;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    for role in [Role::State, Role::Output] {
        for function in &evidence.pair.functions {
            let open: Vec<&PortParity> = evidence
                .open(told)
                .into_iter()
                .filter(|p| p.role == role && p.function == function.name)
                .take(MOST)
                .collect();
            for group in exchanged(evidence, &open)? {
                report(evidence, role, &group, told)?;
            }
        }
    }
    Ok(())
}

/// Groups of ports each of which holds what PyTorch has in the next, and the last in the first.
fn exchanged<'p>(
    evidence: &Evidence<'_, '_>,
    open: &[&'p PortParity],
) -> Result<Vec<Vec<&'p PortParity>>, CheckError> {
    // What each holds: the only other port whose reference it agrees with at every step.
    let mut holds: Vec<Option<usize>> = vec![None; open.len()];
    for (i, a) in open.iter().enumerate() {
        let mut found = Vec::new();
        for (j, b) in open.iter().enumerate().filter(|(j, _)| *j != i) {
            if agrees(evidence, a, b)? {
                found.push(j);
            }
        }
        if let [only] = found.as_slice() {
            holds[i] = Some(*only);
        }
    }
    let mut groups = Vec::new();
    let mut seen = vec![false; open.len()];
    for start in 0..open.len() {
        let mut cycle = Vec::new();
        let mut at = start;
        while !seen[at] && !cycle.contains(&at) {
            cycle.push(at);
            match holds[at] {
                Some(next) => at = next,
                None => break,
            }
        }
        if cycle.len() > 1 && at == start && holds[cycle[cycle.len() - 1]] == Some(start) {
            cycle.iter().for_each(|i| seen[*i] = true);
            groups.push(cycle.into_iter().map(|i| open[i]).collect());
        }
    }
    Ok(groups)
}

/// Whether `a` of ours agrees with the reference of `b` at every step from the first failing one, and
/// the two references are not the same there.
fn agrees(evidence: &Evidence<'_, '_>, a: &PortParity, b: &PortParity) -> Result<bool, CheckError> {
    let from = evidence.failing(a);
    let mut told_apart = false;
    for step in a.steps.iter().map(|s| s.step).filter(|s| *s >= from) {
        let Some(ours) = evidence.ours(a, step) else {
            break;
        };
        let (Some(other), Some(own)) = (evidence.theirs(b, step)?, evidence.theirs(a, step)?)
        else {
            return Ok(false);
        };
        if !close(ours, &other, b.tolerance) {
            return Ok(false);
        }
        told_apart |= own.shape() == other.shape() && !close(&own, &other, a.tolerance);
    }
    Ok(told_apart)
}

fn report(
    evidence: &Evidence<'_, '_>,
    role: Role,
    group: &[&PortParity],
    told: &mut Told,
) -> Result<(), CheckError> {
    let label = |p: &PortParity| match (&p.source, role) {
        (Some(source), Role::State) => source.clone(),
        _ => format!("{role} {}", name(&p.port)),
    };
    let names: Vec<_> = group.iter().map(|p| name(&p.port).into_owned()).collect();
    let step = group.iter().map(|p| evidence.failing(p)).min().unwrap_or(1);
    let mut finding = error(
        "swapped-binding",
        match group {
            [a, b] => format!(
                "{role}s {} and {} are exchanged: {} holds what PyTorch has in {}, and {} what it has in {}",
                names[0], names[1], names[0], label(b), names[1], label(a)
            ),
            _ => format!("{role}s {} change places among each other", list(&names)),
        },
    )
    .in_function(&group[0].function)
    .about(&group[0].port);
    for (i, port) in group.iter().enumerate() {
        let next = group[(i + 1) % group.len()];
        finding = finding.with_evidence(format!(
            "after step {step}: {} agrees with {} and not with {}",
            names[i],
            label(next),
            label(port)
        ));
    }
    finding = finding.with_evidence(
        "names, shapes and dtypes are right: only running it shows that a consumer keeps the wrong contents",
    );
    for port in group {
        told.explain(port);
    }
    told.findings.push(finding.with_fix(match role {
        Role::State => "give state_names in the order in which the buffers come (gate shows it), and convert again",
        _ => "give output_names in the order in which forward returns the values, and convert again",
    }));
    Ok(())
}

/// States that hold what their source has, under the name of another one's source: whoever binds by
/// name keeps the wrong contents.
pub fn misnamed(evidence: &Evidence<'_, '_>, told: &Told) -> Result<Vec<Finding>, CheckError> {
    let mut findings = Vec::new();
    for function in &evidence.pair.functions {
        // Names that two functions use differently are exchanged in one of them.
        if told.disagreeing.contains(&function.name) {
            continue;
        }
        let told: Vec<_> = function
            .states
            .iter()
            .filter_map(|s| Some((s.port.name.as_str(), s.source.as_ref()?.name.as_str())))
            .collect();
        if told.len() != function.states.len() {
            continue;
        }
        let (names, sources): (Vec<&str>, Vec<&str>) = told.into_iter().unzip();
        let moved = names::misplaced(&names, &sources);
        let same_shape = |i: usize, j: usize| {
            let (a, b) = (&function.states[i].port, &function.states[j].port);
            a.shape == b.shape && a.dtype == b.dtype
        };
        if moved.is_empty() || !moved.iter().all(|(i, j)| same_shape(*i, *j)) {
            continue;
        }
        let mut finding = error(
            "swapped-binding",
            match moved.as_slice() {
                [(a, _), (b, _)] => format!(
                    "states {} and {} are exchanged: {} holds what PyTorch has in {}, and {} what it has in {}",
                    name(names[*a]), name(names[*b]), name(names[*a]), sources[*a], name(names[*b]), sources[*b]
                ),
                _ => format!("{} states hold what PyTorch has in another one", moved.len()),
            },
        )
        .in_function(&function.name)
        .about(names[moved[0].0]);
        let mut shown = false;
        for (i, _) in &moved {
            let port = evidence.port(&function.name, Role::State, names[*i]);
            let agrees = port.is_some_and(|p| p.first_beyond().is_none() && !p.steps.is_empty());
            if agrees && moves(evidence, port)? {
                shown = true;
                finding = finding.with_evidence(format!(
                    "in every step state {} agrees with {} of PyTorch",
                    name(names[*i]),
                    sources[*i]
                ));
            }
        }
        if shown {
            findings.push(finding.with_fix(
                "give state_names in the order in which the buffers come (gate shows it), and convert again",
            ));
        }
    }
    Ok(findings)
}

/// Whether a port ever changes: only then its contents say who it is.
fn moves(evidence: &Evidence<'_, '_>, port: Option<&PortParity>) -> Result<bool, CheckError> {
    let Some(port) = port else {
        return Ok(false);
    };
    let any = |t: &Tensor| t.bytes().iter().any(|b| *b != 0);
    for step in &port.steps {
        if evidence.theirs(port, step.step)?.is_some_and(|t| any(&t)) {
            return Ok(true);
        }
    }
    Ok(false)
}
