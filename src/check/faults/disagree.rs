//! Functions that share a store of states and mean different tensors by one name, or of which one has
//! as a constant what the other writes.

use super::trial::matches;
use super::{error, Evidence, Told};
use crate::check::metrics::identical;
use crate::check::pair::{Bound, Function};
use crate::check::parity::PortParity;
use crate::check::session::narrow;
use crate::check::trace::Buffer;
use crate::check::CheckError;
use crate::contract::{Source, SourceKind};
use crate::report::Finding;
use crate::text::name;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    let functions = &evidence.pair.functions;
    for (i, a) in functions.iter().enumerate() {
        for b in &functions[i + 1..] {
            clash(evidence, a, b, told)?;
            baked(evidence, a, b, told)?;
            baked(evidence, b, a, told)?;
            apart(evidence, a, b, told)?;
            apart(evidence, b, a, told)?;
        }
    }
    Ok(())
}

/// One name, two tensors.
fn clash(
    evidence: &Evidence<'_, '_>,
    a: &Function<'_>,
    b: &Function<'_>,
    told: &mut Told,
) -> Result<(), CheckError> {
    let clashes = a.states.iter().any(|s| {
        let other = b.state(&s.port.name).and_then(|t| t.source.as_ref());
        let both = s.source.as_ref().zip(other);
        both.is_some_and(|(x, y)| another(a, x, b, y))
    });
    let Some(since) = since(evidence, a, b).filter(|_| clashes) else {
        return Ok(());
    };
    let failing: Vec<&PortParity> = evidence
        .open(told)
        .into_iter()
        .filter(|p| p.function == a.name || p.function == b.name)
        .filter(|p| evidence.failing(p) >= since)
        .collect();
    if failing.is_empty() {
        return Ok(());
    }
    let line = |f: &Function<'_>| {
        let states = f.states.iter().map(|s| match &s.source {
            Some(source) => format!("{} is {}", name(&s.port.name), source.name),
            None => name(&s.port.name).into_owned(),
        });
        format!("{}: {}", f.name, states.collect::<Vec<_>>().join(", "))
    };
    let finding = error(
        "functions-disagree",
        format!(
            "{} and {} call different buffers by the same name",
            a.name, b.name
        ),
    )
    .with_evidence(line(a))
    .with_evidence(line(b));
    let finding = shown(evidence, &failing, finding, told)?;
    told.disagreeing.extend([a.name.clone(), b.name.clone()]);
    told.findings.push(finding.with_fix(
        "export every entry point in the same mode, and give state_names in that order for each",
    ));
    Ok(())
}

/// Whether a source of one function is another tensor than one of the other: both know both of them.
fn another(f: &Function<'_>, a: &Source, g: &Function<'_>, b: &Source) -> bool {
    if a.kind != SourceKind::Buffer || b.kind != SourceKind::Buffer || a.same_tensor(b) {
        return false;
    }
    // The functions may hold one module under different names; then the ends of the names tell.
    let end = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
    let same_end = end(&a.name) == end(&b.name);
    let knows = |f: &Function<'_>, s: &Source| {
        let of = |b: &Buffer| b.names().any(|n| n == s.name || end(n) == end(&s.name));
        f.traced.buffers.iter().any(of)
    };
    !same_end && knows(f, b) && knows(g, a)
}

/// One name, and each function has a tensor of its own: the second does not find what the first left, and
/// from its own tensors the asset gives PyTorch's values.
fn apart(
    evidence: &Evidence<'_, '_>,
    first: &Function<'_>,
    second: &Function<'_>,
    told: &mut Told,
) -> Result<(), CheckError> {
    let (pair, run) = (evidence.pair, evidence.outcome.run);
    let calls = &run.calls[..evidence.outcome.done];
    let call_of = |f: &Function<'_>| calls.iter().position(|c| c.function == f.traced.name);
    let (Some(one), Some(at)) = (call_of(first), call_of(second)) else {
        return Ok(());
    };
    let begins = one < at
        && evidence
            .open_of(second, told)
            .iter()
            .any(|p| evidence.failing(p) == at + 1);
    if !begins {
        return Ok(());
    }
    let buffer = |s: &Bound| {
        let source = s.source.as_ref();
        source.is_some_and(|s| s.kind == SourceKind::Buffer)
    };
    let mut session = pair.start(run)?;
    let mut parted = false;
    for state in second.states.iter().filter(|s| buffer(s)) {
        let Some(own) = pair.initial(run, second, state) else {
            return Ok(());
        };
        let shared = first.state(&state.port.name).is_some_and(buffer);
        let held = pair.held(run, at, second, state);
        parted |= shared && held.is_some_and(|h| !pair.trace.same(h, own));
        let own = narrow(&pair.trace.tensor(own)?, state.port.dtype)?.0;
        session.states.insert(state.port.name.clone(), own);
    }
    if !parted {
        return Ok(());
    }
    let before = session.states.clone();
    let mut moved = false;
    for call in calls.iter().filter(|c| c.function == second.traced.name) {
        let ran = match pair.step(&mut session, call) {
            Ok(Some(ran)) => ran,
            Ok(None) | Err(CheckError::Run(_)) => return Ok(()),
            Err(other) => return Err(other),
        };
        if !matches(evidence, second, call, &session, &ran.outputs)? {
            return Ok(());
        }
        // What never writes agrees with a write that was lost, too.
        moved |= second.states.iter().any(|s| {
            let both = before
                .get(&s.port.name)
                .zip(session.states.get(&s.port.name));
            both.is_some_and(|(a, b)| !identical(a, b))
        });
    }
    if !moved {
        return Ok(());
    }
    let failing: Vec<&PortParity> = evidence
        .open(told)
        .into_iter()
        .filter(|p| p.function == first.name || p.function == second.name)
        .filter(|p| evidence.failing(p) > at)
        .collect();
    let names = |a: &Function<'_>, b: &Function<'_>| format!("{} and {}", a.name, b.name);
    let place = |f: &Function<'_>| pair.functions.iter().position(|g| g.name == f.name);
    let finding = error(
        "functions-disagree",
        format!(
            "{} have states of one name that are two different tensors",
            match place(first) < place(second) {
                true => names(first, second),
                false => names(second, first),
            }
        ),
    )
    .with_evidence(format!(
        "from where its own tensors start, {} gives PyTorch's values in every step; what {} left does not reach it",
        second.name, first.name
    ));
    let finding = shown(evidence, &failing, finding, told)?;
    told.disagreeing
        .extend([first.name.clone(), second.name.clone()]);
    told.findings
        .push(finding.with_fix("build the entry points on one shared module"));
    Ok(())
}

/// The first step at which both have been called.
fn since(evidence: &Evidence<'_, '_>, a: &Function<'_>, b: &Function<'_>) -> Option<usize> {
    let calls = &evidence.outcome.run.calls;
    let first = |f: &Function<'_>| calls.iter().position(|c| c.function == f.traced.name);
    Some(first(a)?.max(first(b)?) + 1)
}

/// A buffer that is a state in `writer` and that `reader` has without a state for it.
fn baked(
    evidence: &Evidence<'_, '_>,
    writer: &Function<'_>,
    reader: &Function<'_>,
    told: &mut Told,
) -> Result<(), CheckError> {
    let Some(since) = since(evidence, writer, reader) else {
        return Ok(());
    };
    let named = |source: &Option<Source>, buffer: &Buffer| {
        let buffer_names = |s: &Source| buffer.names().any(|n| s.names().any(|m| m == n));
        let source = source.as_ref();
        source.is_some_and(|s| s.kind == SourceKind::Buffer && buffer_names(s))
    };
    let is = |state: &Bound, buffer: &Buffer| {
        // A reader that knows the state's tensor has another one here, whatever it holds.
        let known = || {
            let mut all = reader.traced.buffers.iter();
            all.any(|b| named(&state.source, b))
        };
        named(&state.source, buffer)
            || (!known() && same_contents(evidence, writer, state, reader, buffer))
    };
    let lacks = |buffer: &&Buffer| !reader.states.iter().any(|s| named(&s.source, buffer));
    let constants: Vec<(&str, &Buffer)> = reader
        .traced
        .buffers
        .iter()
        .filter(lacks)
        .filter_map(|buffer| {
            let state = writer.states.iter().find(|s| is(s, buffer))?;
            Some((state.port.name.as_str(), buffer))
        })
        .collect();
    let failing: Vec<&PortParity> = evidence
        .open(told)
        .into_iter()
        .filter(|p| p.function == reader.name && evidence.failing(p) >= since)
        .collect();
    let (Some((state, buffer)), false) = (constants.first(), failing.is_empty()) else {
        return Ok(());
    };
    let mut finding = error(
        "functions-disagree",
        format!(
            "{} is a state of {} and a constant in {}",
            name(state),
            writer.name,
            reader.name
        ),
    )
    .in_function(&reader.name)
    .about(*state)
    .with_evidence(format!(
        "{} only reads buffer {}: its value at export is baked in",
        reader.name,
        name(&buffer.name)
    ));
    for (state, _) in constants.iter().skip(1).take(4) {
        finding = finding.with_evidence(format!("the same holds of {}", name(state)));
    }
    let finding = shown(evidence, &failing, finding, told)?;
    told.findings.push(finding.with_fix("pass the value as an argument, or write it back (buffer.copy_(buffer * 1.0)) so that it is a state there too"));
    Ok(())
}

/// Whether a reader finds in a buffer what a writer left in its state, and that is not what either
/// began with: one tensor under two names.
fn same_contents(
    evidence: &Evidence<'_, '_>,
    writer: &Function<'_>,
    state: &Bound,
    reader: &Function<'_>,
    buffer: &Buffer,
) -> bool {
    let (pair, run) = (evidence.pair, evidence.outcome.run);
    let calls = run.calls.iter().enumerate();
    let mut reads = calls.filter(|(_, c)| c.function == reader.traced.name);
    let found = reads.find_map(|(i, c)| {
        let left = run.calls[..i]
            .iter()
            .rev()
            .find(|c| c.function == writer.traced.name)?;
        Some((
            pair.after(left, state)?,
            c.buffer(&buffer.name)?,
            pair.initial(run, writer, state)?,
        ))
    });
    found.is_some_and(|(left, read, start)| {
        pair.trace.same(left, read) && !pair.trace.same(left, start)
    })
}

/// What differs for it, as evidence; explains it.
fn shown(
    evidence: &Evidence<'_, '_>,
    failing: &[&PortParity],
    mut finding: Finding,
    told: &mut Told,
) -> Result<Finding, CheckError> {
    for port in failing.iter().take(4) {
        finding = finding.with_evidence(format!(
            "{}, {} {}",
            port.function,
            port.role,
            evidence.shown(port)?
        ));
    }
    if failing.len() > 4 {
        finding = finding.with_evidence(format!("and {} more", failing.len() - 4));
    }
    for port in failing {
        told.explain(port);
    }
    Ok(finding)
}
