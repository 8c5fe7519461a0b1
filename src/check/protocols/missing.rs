//! Every state withheld, and given in another shape.

use super::{Bench, Found, Halt, Verdict};
use crate::runtime::{RunError, Tensor};
use crate::text::{count, list, name};

pub(super) const PROVES: &str =
    "a state that is not given, or given in another shape, is an error that names it";

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let session = bench.start()?;
    let (mut tried, mut wrong, mut shapes) = (0, Vec::new(), Vec::new());
    for function in &bench.pair.functions {
        let Some(call) = bench
            .calls
            .iter()
            .find(|c| c.function == function.traced.name)
        else {
            continue;
        };
        let inputs = bench.pair.inputs(function, call)?;
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t, _)| (n.as_str(), t)).collect();
        for state in &function.states {
            let own = &state.port.name;
            tried += 1;
            let mut without = session.states.clone();
            without.retain(|n, _| n != own && function.state(n).is_some());
            let mut states: Vec<(&str, &mut Tensor)> =
                without.iter_mut().map(|(n, t)| (n.as_str(), t)).collect();
            let named = matches!(
                function.run.run(&inputs, &mut states, &mut []),
                Err(RunError::Missing { port, .. }) if port == *own
            );
            if !named {
                wrong.push(name(own).into_owned());
            }
            // One dimension more than it has: what an array library makes of a number.
            let mut misshapen = session.states.clone();
            misshapen.retain(|n, _| function.state(n).is_some());
            if let Some(t) = misshapen.get_mut(own) {
                let shape: Vec<usize> = std::iter::once(1)
                    .chain(t.shape().iter().copied())
                    .collect();
                *t = Tensor::zeros(t.dtype(), &shape)?;
            }
            let mut states: Vec<(&str, &mut Tensor)> =
                misshapen.iter_mut().map(|(n, t)| (n.as_str(), t)).collect();
            match function.run.run(&inputs, &mut states, &mut []) {
                Err(RunError::Rank { port, .. }) if port == *own => {
                    if state.port.shape.is_empty() {
                        shapes.push(name(own).into_owned());
                    }
                }
                _ => wrong.push(name(own).into_owned()),
            }
        }
    }
    if tried == 0 {
        return Ok(Found::nothing("there are no states"));
    }
    if !wrong.is_empty() {
        return Ok(Found::new(
            Verdict::Bad,
            format!(
                "{} can be left out or misshapen without an error that names it",
                list(&wrong)
            ),
        ));
    }
    let mut found = Found::new(
        Verdict::Good,
        format!(
            "{} tried: one that is withheld or misshapen is an error that names it",
            count(tried, "state")
        ),
    );
    for state in shapes {
        found = found.detail(format!("{state} has no dimensions: shape [1] is refused by name; the vendor's interpreter dies of it"));
        found =
            found.must("give states without dimensions as scalars of shape [], never of shape [1]");
    }
    Ok(found)
}
