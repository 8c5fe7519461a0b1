//! Dynamic axes of states enlarged between steps.

use super::{parted, Bench, Found, Halt, Verdict};
use crate::check::CheckError;
use crate::runtime::Tensor;
use crate::text::{count, list, name};

pub(super) const PROVES: &str =
    "a cache enlarged between steps, its contents copied, gives the same results";

/// Rows added.
const MORE: usize = 3;

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let axes: Vec<(String, usize)> = bench
        .pair
        .states()
        .into_iter()
        .filter_map(|(_, s)| {
            let mut free = (0..s.port.shape.len()).filter(|a| s.port.shape[*a].is_none());
            // Of several free axes the last is that of the rows, the others are batches.
            let last = free.next_back()?;
            Some((s.port.name.clone(), last))
        })
        .collect();
    let Some(first) = bench.calls.first().filter(|_| !axes.is_empty()) else {
        return Ok(Found::nothing(
            "no state has a dynamic axis, or there are no calls",
        ));
    };
    let rest: Vec<_> = match &bench.calls[1..] {
        [] => vec![first.clone()],
        more => more.to_vec(),
    };
    let mut session = bench.start()?;
    bench.step(&mut session, first)?;
    let mut usual_session = session.clone();
    let usual = bench.steps(&mut usual_session, &rest)?;
    for (own, axis) in &axes {
        if let Some(t) = session.states.get_mut(own) {
            *t = enlarged(t, *axis)?;
        }
    }
    let names: Vec<_> = axes.iter().map(|(n, _)| name(n).into_owned()).collect();
    let shown = match names.len() {
        0..=4 => list(&names),
        n => count(n, "state"),
    };
    let got = match bench.steps(&mut session, &rest) {
        Ok(got) => got,
        Err(Halt::Failed(CheckError::Run(error))) => {
            return Ok(Found::new(
                Verdict::Duty,
                format!("{shown} cannot be enlarged alone: {error}"),
            )
            .must(
                "enlarge together with the states what else follows their extent, such as a mask",
            ));
        }
        Err(halt) => return Err(halt),
    };
    let parting = usual
        .iter()
        .zip(&got)
        .position(|(a, b)| parted(a, b).is_some());
    Ok(match parting {
        None => Found::new(
            Verdict::Good,
            format!("{shown} enlarged by {MORE} rows after step 1, contents copied: {} as before", count(got.len(), "step")),
        )
        .must("when a cache grows, copy its old contents into the new one and zero the rest"),
        Some(step) => Found::new(
            Verdict::Duty,
            format!(
                "{shown} enlarged by {MORE} zero rows after step 1: {} differs from step {}",
                name(&parted(&usual[step], &got[step]).unwrap_or_default()), step + 2
            ),
        )
        .must("choose the capacity of the cache before the first call: its extent is part of what is computed"),
    })
}

/// The tensor with more rows of zeros along an axis.
fn enlarged(t: &Tensor, axis: usize) -> Result<Tensor, Halt> {
    let mut shape = t.shape().to_vec();
    let inner: usize = shape[axis + 1..].iter().product::<usize>() * t.dtype().size();
    let (old, new) = (shape[axis] * inner, (shape[axis] + MORE) * inner);
    shape[axis] += MORE;
    let mut out = Tensor::zeros(t.dtype(), &shape)?;
    if old > 0 {
        let from = t.bytes();
        for (to, from) in out
            .bytes_mut()?
            .chunks_exact_mut(new)
            .zip(from.chunks_exact(old))
        {
            to[..old].copy_from_slice(from);
        }
    }
    Ok(out)
}
