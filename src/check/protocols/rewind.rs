//! Going back to an earlier position and on from there.

use super::landing::{kind, timelines};
use super::{alike, finding, parted, Bench, Found, Halt, Outputs, Session, Verdict};
use crate::check::metrics::is_float;
use crate::check::numbers::Values;
use crate::check::trace::Call;
use crate::check::CheckError;
use crate::ir::How;
use crate::report::Severity;
use crate::runtime::{Class, Tensor};
use crate::text::{count, list, name};

pub(super) const PROVES: &str =
    "going back to an earlier position and replaying gives the same results: a prefix can be reused";

/// More states than this are not looked at one by one.
const MOST: usize = 64;

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let names = bench.state_names();
    if names.is_empty() || bench.calls.is_empty() {
        return Ok(Found::nothing("there are no states, or no calls"));
    }
    // Back to behind the first call where there are several.
    let position = 1.min(bench.calls.len() - 1);
    let mut at = bench.start()?;
    bench.steps(&mut at, &bench.calls[..position])?;
    let replayed = &bench.calls[position..];
    let mut end = at.clone();
    let usual = bench.steps(&mut end, replayed)?;
    let gone_on = go_on(bench, &at, replayed)?;
    let all = replay(bench, &at, &gone_on, &names, replayed, &usual, &end)?;
    let Some(parting) = all else {
        return Ok(Found::new(
            Verdict::Good,
            format!(
                "back to position {position} and replayed: {} as before",
                count(usual.len(), "step")
            ),
        )
        .must("nothing: states can be rewound by giving earlier positions again"));
    };
    let mut lossy = Vec::new();
    if names.len() <= MOST {
        for own in &names {
            if replay(
                bench,
                &at,
                &gone_on,
                std::slice::from_ref(own),
                replayed,
                &usual,
                &end,
            )?
            .is_some()
            {
                lossy.push(own.clone());
            }
        }
    }
    if lossy.is_empty() {
        lossy.clone_from(&names);
    }
    let lines = timelines(bench)?;
    let mut one_on = at.clone();
    bench.step(&mut one_on, &replayed[0])?;
    let why = |own: &String| {
        let by_rows = lines.iter().any(|l| l.state == *own && l.axis.is_some());
        let integer = at.states.get(own).is_some_and(|t| !is_float(t.dtype()));
        let shifted = at
            .states
            .get(own)
            .zip(one_on.states.get(own))
            .is_some_and(|(a, b)| shifts(a, b));
        let how = kind(bench, own);
        let own = name(own);
        match how {
            _ if shifted => format!("{own} shifts"),
            Some(How::Shift) => format!("{own} shifts"),
            _ if by_rows => format!(
                "{own} is written by rows, and rows beyond the position reach what is computed"
            ),
            _ if integer => format!("{own} counts on"),
            _ => format!("{own} is a running scan"),
        }
    };
    let mut whys: Vec<String> = lossy.iter().map(why).collect();
    if whys.len() > 6 {
        let more = whys.len() - 6;
        whys.truncate(6);
        whys.push(format!("{more} more likewise"));
    }
    let shown = match &parting {
        Parting::Output(step, output) => format!(
            "shown by running: back to position {position} and replayed, {} differs from step {}",
            name(output),
            position + step + 1
        ),
        Parting::Fails(step, error) => format!(
            "shown by running: back to position {position} and replayed, step {} fails: {error}",
            position + step + 1
        ),
        Parting::State(state) => format!(
            "shown by running: back to position {position} and replayed, {} ends elsewhere",
            name(state)
        ),
    };
    let mut found = Found::new(
        Verdict::Duty,
        format!("rewind is not lossless: {}", list(&whys)),
    )
    .must(
        "to go back, keep a copy of these states at that position, or compute again from the start",
    );
    found.details.push(shown.clone());
    let told = finding(
        "no-prefix-reuse",
        Severity::Advice,
        format!("{}: rewind is not lossless, and a prefix cannot be reused", whys.join(", ")),
    )
    .about(lossy[0].clone())
    .with_evidence(shown)
    .with_evidence("a consumer that takes states of fixed shape for key/value caches and rewinds them computes something else, without an error")
    .with_fix("tell consumers not to rewind these states; keep copies of them where a prefix is to be reused");
    found.findings.push(told);
    Ok(found)
}

enum Parting {
    Fails(usize, String),
    Output(usize, String),
    State(String),
}

/// The states after going on with other values.
fn go_on(bench: &Bench<'_, '_>, at: &Session, calls: &[Call]) -> Result<Session, Halt> {
    let mut session = at.clone();
    for call in calls {
        let Some(function) = bench.function(call) else {
            continue;
        };
        let mut inputs = Vec::new();
        for (port, t, _) in bench.pair.inputs(function, call)? {
            inputs.push((port, otherwise(&t)?));
        }
        if crate::check::session::execute(function, &mut session, &inputs).is_err() {
            // Other values are refused: the same ones have to do.
            session = at.clone();
            bench.steps(&mut session, calls)?;
            break;
        }
    }
    Ok(session)
}

/// Other values of the same kind; integers stay, since they may be positions.
pub(super) fn otherwise(t: &Tensor) -> Result<Tensor, Halt> {
    if t.dtype().class() != Class::Float || t.dtype().small_float().is_some() {
        return Ok(t.clone());
    }
    let values = t.reals().unwrap_or_default();
    if is_mask(&values) {
        return Ok(t.clone());
    }
    let other: Vec<f64> = values.iter().map(|v| v * 1.75 + 0.375).collect();
    Ok(Tensor::from_values(t.shape(), &other)?.cast(t.dtype())?)
}

/// Whether values are a mask: zeros and ones, or zeros and what puts a score out of sight. Other values
/// would not be of the same kind.
fn is_mask(values: &[f64]) -> bool {
    let (mut zero, mut one) = (false, false);
    for v in values {
        match *v {
            0.0 => zero = true,
            1.0 => one = true,
            v if v <= -1e3 => {}
            _ => return false,
        }
    }
    zero || !one
}

/// Replays from a position with some states as they were left later.
fn replay(
    bench: &Bench<'_, '_>,
    at: &Session,
    later: &Session,
    dirty: &[String],
    calls: &[Call],
    usual: &[Outputs],
    end: &Session,
) -> Result<Option<Parting>, Halt> {
    let mut session = at.clone();
    for own in dirty {
        if let Some(t) = later.states.get(own) {
            session.states.insert(own.clone(), t.clone());
        }
    }
    for (i, call) in calls.iter().enumerate() {
        let got = match bench.step(&mut session, call) {
            Ok(got) => got,
            // A position that counted on may lie behind the end.
            Err(Halt::Failed(CheckError::Run(error))) => {
                return Ok(Some(Parting::Fails(i, error.to_string())));
            }
            Err(halt) => return Err(halt),
        };
        if let Some(output) = parted(&usual[i], &got) {
            return Ok(Some(Parting::Output(i, output)));
        }
    }
    let ends = |(own, t): (&String, &Tensor)| end.states.get(own).is_some_and(|e| !alike(e, t));
    let mut elsewhere = session.states.iter().filter(|(n, t)| ends((n, t)));
    Ok(elsewhere.next().map(|(n, _)| Parting::State(n.clone())))
}

/// Whether the second is the first moved by one along an axis, the new row aside.
pub(super) fn shifts(before: &Tensor, after: &Tensor) -> bool {
    let shape = before.shape();
    if shape != after.shape() {
        return false;
    }
    if before.dtype().part().is_some() {
        return false;
    }
    let (Some(a), Some(b)) = (Values::of(before), Values::of(after)) else {
        return false;
    };
    (0..shape.len()).filter(|d| shape[*d] > 2).any(|axis| {
        let inner: usize = shape[axis + 1..].iter().product();
        let row = |i: usize| (i / inner.max(1)) % shape[axis];
        let on = (0..before.len()).filter(|i| row(*i) + 1 < shape[axis]);
        let moved_up = on.clone().all(|i| b.at(i) == a.at(i + inner));
        let moved_down = on.clone().all(|i| b.at(i + inner) == a.at(i));
        // Equal rows look moved either way.
        let varied = on.into_iter().any(|i| a.at(i) != a.at(i + inner));
        varied && (moved_up || moved_down)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_told_from_activations() {
        assert!(is_mask(&[0.0, 1.0, 0.0]));
        assert!(is_mask(&[0.0, f64::NEG_INFINITY, -1e4]));
        assert!(!is_mask(&[1.0, 1.0]));
        assert!(!is_mask(&[0.0, 0.5]));
    }

    #[test]
    fn a_shift_is_seen_in_its_rows() {
        let a = Tensor::from_values(&[1, 3], &[1f32, 2.0, 3.0]).unwrap();
        let up = Tensor::from_values(&[1, 3], &[2f32, 3.0, 9.0]).unwrap();
        let sum = Tensor::from_values(&[1, 3], &[2f32, 4.0, 6.0]).unwrap();
        assert!(shifts(&a, &up));
        assert!(!shifts(&a, &sum));
        const BIG: i64 = 1 << 53;
        let a = Tensor::from_values(&[3], &[BIG, BIG + 1, BIG + 3]).unwrap();
        let up = Tensor::from_values(&[3], &[BIG + 1, BIG + 3, 0]).unwrap();
        let rounded = Tensor::from_values(&[3], &[BIG, BIG + 4, 0]).unwrap();
        assert!(shifts(&a, &up));
        assert!(!shifts(&a, &rounded));
    }
}
