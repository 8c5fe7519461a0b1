//! Writes whose place is the length of an input: given the newest positions alone they land at 0.

use super::fill::{fill, Fill};
use super::growth::counted;
use super::{finding, Bench, Found, Function, Halt, Session, Verdict};
use crate::check::graph::partial_writes;
use crate::check::numbers::rows as row_list;
use crate::check::rows::{changed, partial_axis};
use crate::check::session::execute;
use crate::report::Severity;
use crate::runtime::{Class, Tensor};
use crate::text::{count, name};

pub(super) const PROVES: &str = "no write depends on an input being given in its full length";

/// Steps tried.
const STEPS: usize = 3;

type Inputs = Vec<(String, Tensor)>;

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let (mut details, mut findings, mut duties, mut seen) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for function in &bench.pair.functions {
        let Some(call) = bench
            .calls
            .iter()
            .find(|c| c.function == function.traced.name)
        else {
            continue;
        };
        let mut writes = partial_writes(function.graph);
        writes.retain(|w| w.contents.is_empty() && !w.lengths.is_empty());
        seen += writes.len();
        let Some(write) = writes.first() else {
            continue;
        };
        let inputs: Inputs = bench
            .pair
            .inputs(function, call)?
            .into_iter()
            .map(|(n, t, _)| (n, t))
            .collect();
        let Some(tried) = try_lengths(bench, function, &inputs, &write.state, &write.lengths)?
        else {
            continue;
        };
        let (state, input) = (name(&write.state), name(&tried.input));
        let line = |steps: &[Vec<usize>]| {
            let all: Vec<String> = steps
                .iter()
                .enumerate()
                .map(|(s, r)| format!("step {} {}", s + 1, row_list(r)))
                .collect();
            all.join("; ")
        };
        let alone = match tried.tail.first() {
            Some(rows) => row_list(rows),
            None => "row 0".into(),
        };
        let mut told = finding(
            "write-in-unexpected-row",
            Severity::Warning,
            format!(
                "the write offset of {state} comes from the length of {input}: with the newest positions [k] alone every step writes {alone}; with the full vector rows advance"
            ),
        )
        .in_function(&function.name)
        .about(write.state.clone())
        .with_evidence(format!("{input} in full: {}", line(&tried.full)))
        .with_evidence(format!("the tail of {input} alone: {}", line(&tried.tail)));
        if writes.len() > 1 {
            told = told.with_evidence(format!(
                "{} are placed in this way",
                count(writes.len(), "write")
            ));
        }
        details.extend(told.evidence.iter().cloned());
        duties.push(format!(
            "give {input} in full, from 0 to the newest position, in every step"
        ));
        findings.push(told.with_fix(format!("a consumer must give {input} in full in every step; or take the offset from its values, not its length")));
    }
    if findings.is_empty() {
        return Ok(match seen {
            0 => Found::nothing("no write is placed by the length of an input"),
            n => Found::new(Verdict::Good, format!("{} placed by the lengths of inputs, and lands in the same rows whatever is cut off", count(n, "write"))),
        });
    }
    let mut found = Found::new(
        Verdict::Duty,
        format!(
            "{} placed by the length of an input",
            count(findings.len(), "function's write")
        ),
    )
    .must(duties.join("; "));
    found.details = details;
    found.findings = findings;
    Ok(found)
}

/// Rows written with an input in full, and with its tail.
struct Tried {
    input: String,
    full: Vec<Vec<usize>>,
    tail: Vec<Vec<usize>>,
}

/// Tries each input whose length may be the place: longer from step to step, then its tail alone.
fn try_lengths(
    bench: &Bench<'_, '_>,
    function: &Function<'_>,
    inputs: &Inputs,
    state: &str,
    lengths: &[String],
) -> Result<Option<Tried>, Halt> {
    // A decode step has one token; where that cannot be run, the recorded number of them.
    let mut single = inputs.clone();
    for (own, t) in &mut single {
        let port = function
            .inputs
            .iter()
            .find(|i| i.port.name == *own)
            .map(|i| &i.port);
        let free = port.and_then(|p| (0..p.shape.len()).rev().find(|a| p.shape[*a].is_none()));
        if let Some(short) = free
            .filter(|_| lengths.contains(own))
            .and_then(|a| resized(t, a, 1))
        {
            *t = short;
        }
    }
    for inputs in [&single, inputs] {
        if let Some(tried) = try_inputs(bench, function, inputs, state, lengths)? {
            return Ok(Some(tried));
        }
    }
    Ok(None)
}

fn try_inputs(
    bench: &Bench<'_, '_>,
    function: &Function<'_>,
    inputs: &Inputs,
    state: &str,
    lengths: &[String],
) -> Result<Option<Tried>, Halt> {
    let start = bench.start()?;
    let Some(new) = written(function, &start, inputs, state)
        .map(|r| r.len())
        .filter(|n| *n > 0)
    else {
        return Ok(None);
    };
    for input in lengths {
        let Some(port) = function
            .inputs
            .iter()
            .find(|i| i.port.name == *input)
            .map(|i| &i.port)
        else {
            continue;
        };
        for axis in (0..port.shape.len())
            .filter(|a| port.shape[*a].is_none())
            .rev()
        {
            let run = |tail: bool| -> Option<Vec<Vec<usize>>> {
                let mut session = start.clone();
                let mut rows = Vec::new();
                for step in 0..STEPS {
                    let mut given = inputs.clone();
                    let own = given.iter_mut().find(|(n, _)| n == input)?;
                    let full = resized(&own.1, axis, new * (step + 1))?;
                    own.1 = match tail {
                        true => cut(&full, axis, new)?,
                        false => full,
                    };
                    rows.push(written(function, &session, &given, state)?);
                    execute(function, &mut session, &given).ok()?;
                }
                Some(rows)
            };
            let (Some(full), Some(tail)) = (run(false), run(true)) else {
                continue;
            };
            let advances = full.windows(2).all(|w| w[0].first() < w[1].first());
            let stays = tail.windows(2).all(|w| w[0] == w[1]);
            if advances && stays {
                return Ok(Some(Tried {
                    input: input.clone(),
                    full,
                    tail,
                }));
            }
        }
    }
    Ok(None)
}

/// The rows a call writes of a state; `None` where the call fails.
fn written(
    function: &Function<'_>,
    session: &Session,
    inputs: &Inputs,
    state: &str,
) -> Option<Vec<usize>> {
    let mut marked = session.clone();
    fill(marked.states.get_mut(state)?, Fill::Mark, None).ok()?;
    let before = marked.states.get(state)?.clone();
    execute(function, &mut marked, inputs).ok()?;
    let after = marked.states.get(state)?;
    let mut rows = changed(&before, after)?;
    let axis = partial_axis(after.shape(), std::slice::from_ref(&rows))?;
    Some(std::mem::take(&mut rows[axis]))
}

/// The tensor with another extent along an axis: cut off, or gone on with. Integers count on.
fn resized(t: &Tensor, axis: usize, extent: usize) -> Option<Tensor> {
    let shape = t.shape();
    let old = *shape.get(axis)?;
    if old == 0 || extent > 1 << 16 {
        return None;
    }
    let row = shape[axis + 1..].iter().product::<usize>() * t.dtype().size();
    let bytes = t.bytes();
    let blocks = bytes.chunks_exact((old * row).max(1));
    let rows = blocks
        .flat_map(|block| (0..extent).flat_map(move |k| &block[k.min(old - 1) * row..][..row]));
    let out: Vec<u8> = rows.copied().collect();
    let mut shape = shape.to_vec();
    shape[axis] = extent;
    let out = Tensor::from_bytes(t.dtype(), &shape, &out).ok()?;
    match t.dtype().class() {
        Class::Int { .. } => counted(&out, axis, old).ok(),
        _ => Some(out),
    }
}

/// The last `n` along an axis.
fn cut(t: &Tensor, axis: usize, n: usize) -> Option<Tensor> {
    let shape = t.shape();
    let extent = *shape.get(axis)?;
    let skip = extent.checked_sub(n)?;
    let inner: usize = shape[axis + 1..].iter().product::<usize>() * t.dtype().size();
    let bytes = t.bytes();
    let out: Vec<u8> = bytes
        .chunks_exact((extent * inner).max(1))
        .flat_map(|block| block[skip * inner..].iter().copied())
        .collect();
    let mut shape = shape.to_vec();
    shape[axis] = n;
    Tensor::from_bytes(t.dtype(), &shape, &out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_count_on_and_other_values_repeat() {
        let large = Tensor::from_values(&[1, 2], &[3, 1i64 << 53]).unwrap();
        let more = resized(&large, 1, 4).unwrap();
        let on = [3, 1 << 53, (1 << 53) + 1, (1 << 53) + 2];
        assert_eq!(more.values::<i64>().unwrap(), on);
        let first = resized(&large, 1, 1).unwrap();
        assert_eq!(first.values::<i64>().unwrap(), [3]);
        let rows = Tensor::from_values(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
        let more = resized(&rows, 0, 3).unwrap();
        assert_eq!(
            more.values::<f32>().unwrap(),
            [1.0, 2.0, 3.0, 4.0, 3.0, 4.0]
        );
        let wide = resized(&rows, 1, 3).unwrap();
        assert_eq!(
            wide.values::<f32>().unwrap(),
            [1.0, 2.0, 2.0, 3.0, 4.0, 4.0]
        );
    }
}
