//! Two states exchanged between steps.

use super::{parted, Bench, Found, Halt, Verdict};
use crate::text::{count, name};

pub(super) const PROVES: &str = "whether a consumer that exchanges two states would notice";

/// More pairs than this are not tried.
const MOST: usize = 48;

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let names = bench.state_names();
    let Some(first) = bench.calls.first() else {
        return Ok(Found::nothing("there are no calls"));
    };
    let mut session = bench.start()?;
    bench.step(&mut session, first)?;
    let rest: Vec<_> = match &bench.calls[1..] {
        [] => vec![first.clone()],
        more => more.to_vec(),
    };
    let mut usual_session = session.clone();
    let usual = bench.steps(&mut usual_session, &rest)?;
    // Neighbours first: those are what is taken for each other.
    let mut pairs: Vec<(usize, usize)> = (0..names.len())
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter(|(a, b)| {
            match (
                session.states.get(&names[*a]),
                session.states.get(&names[*b]),
            ) {
                (Some(a), Some(b)) => a.shape() == b.shape() && a.dtype() == b.dtype(),
                _ => false,
            }
        })
        .collect();
    pairs.sort_by_key(|(a, b)| b - a);
    let total = pairs.len();
    pairs.truncate(MOST);
    if pairs.is_empty() {
        return Ok(Found::nothing("no two states have one shape and dtype"));
    }
    let (mut noticed, mut silent) = (Vec::new(), Vec::new());
    for (a, b) in pairs {
        let label = format!("{} and {}", name(&names[a]), name(&names[b]));
        let equal = match (session.states.get(&names[a]), session.states.get(&names[b])) {
            (Some(a), Some(b)) => a.bytes() == b.bytes(),
            _ => true,
        };
        if equal {
            silent.push(format!(
                "{label} hold the same after step 1: exchanging them says nothing"
            ));
            continue;
        }
        let mut other = session.clone();
        let (x, y) = (
            other.states.remove(&names[a]),
            other.states.remove(&names[b]),
        );
        if let (Some(x), Some(y)) = (x, y) {
            other.states.insert(names[a].clone(), y);
            other.states.insert(names[b].clone(), x);
        }
        let got = bench.steps(&mut other, &rest)?;
        let at = usual
            .iter()
            .zip(&got)
            .position(|(a, b)| parted(a, b).is_some());
        match at {
            Some(step) => noticed.push(format!(
                "{label} exchanged after step 1: outputs differ from step {}, without an error",
                step + 2
            )),
            None => silent.push(format!(
                "{label} exchanged after step 1: no output shows it, without an error"
            )),
        }
    }
    let tried = noticed.len() + silent.len();
    let mut found = Found::new(
        Verdict::Duty,
        format!(
            "{} of one shape and dtype can be exchanged without an error; in {} of them the outputs show it",
            count(tried, "pair"), noticed.len()
        ),
    )
    .must("bind states by name, or check their order against the contract: the runtime cannot tell them apart");
    found.details = silent.into_iter().chain(noticed).take(12).collect();
    if total > tried {
        found = found.detail(format!("{} more pairs were not tried", total - tried));
    }
    Ok(found)
}
