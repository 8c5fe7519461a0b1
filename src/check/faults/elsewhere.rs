//! What one entry point lacks because another one lost it.
//!
//! Entry points of one model reach the same tensors. What a call of one leaves in something that is no
//! state of the asset, the calls of the others find in PyTorch and not in the asset: that follows from
//! the loss and is told with it.

use super::lost::{hints, memory, remembered, REGISTER};
use super::{Evidence, Told};
use crate::check::pair::Function;
use crate::check::CheckError;

/// Puts what nothing else accounts for, in functions that lose nothing themselves, beside the loss in a
/// function that was called before.
pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    for function in &evidence.pair.functions {
        let open = evidence.open_of(function, told);
        let Some(first) = open.first() else {
            continue;
        };
        let Some(loser) = loser(evidence, function, evidence.failing(first), told)? else {
            continue;
        };
        let place = match told.loss(&loser.name) {
            Some(place) => place,
            None => {
                let lost = hints(evidence, loser);
                let finding = remembered(evidence, loser, &lost)?.in_function(&loser.name);
                let finding = match lost.first() {
                    Some((_, what)) => finding.about(what),
                    None => finding,
                };
                told.lose(finding.with_fix(REGISTER))
            }
        };
        for port in open.iter().take(4) {
            let line = format!(
                "{} is called after {}, and nothing else accounts for {} {}",
                function.name,
                loser.name,
                port.role,
                evidence.shown(port)?
            );
            told.findings[place].evidence.push(line);
        }
        open.iter().for_each(|p| told.explain(p));
    }
    Ok(())
}

/// The function that loses something and is called before a step of another one, which loses nothing
/// itself as far as is known.
pub(super) fn loser<'e>(
    evidence: &'e Evidence<'_, '_>,
    function: &Function<'_>,
    step: usize,
    told: &Told,
) -> Result<Option<&'e Function<'e>>, CheckError> {
    if told.loss(&function.name).is_some() || !hints(evidence, function).is_empty() {
        return Ok(None);
    }
    let calls = &evidence.outcome.run.calls;
    let called = |f: &Function<'_>, calls: &[crate::check::trace::Call]| {
        calls.iter().any(|c| c.function == f.traced.name)
    };
    let before = calls.get(..step.saturating_sub(1)).unwrap_or(calls);
    let loser = evidence.pair.functions.iter().find(|f| {
        let loses = told.loss(&f.name).is_some() || !hints(evidence, f).is_empty();
        f.name != function.name && loses && called(f, before)
    });
    let Some(loser) = loser else {
        return Ok(None);
    };
    // Two calls that differ although nobody else was called in between show a memory of its own.
    let own = memory(evidence, function)?.is_some_and(|(a, b)| {
        let between = calls.get(a - 1..b).unwrap_or_default();
        !called(loser, between)
    });
    Ok((!own).then_some(loser))
}
