//! Dynamic axes of states enlarged between steps.
//!
//! Extents that go by one symbol move together. An asset does not name its symbols; dynamic axes of one
//! extent are taken for one, first over the states alone, then over the inputs as well, and where extents
//! are equal by chance, at one place of the shape only.

use super::{parted, Bench, Found, Halt, Outputs, Session, Verdict};
use crate::check::numbers::{wholes, Values};
use crate::check::session::execute;
use crate::check::trace::Call;
use crate::check::CheckError;
use crate::runtime::{Class, Tensor, TensorError};
use crate::text::{count, list, name};

pub(super) const PROVES: &str =
    "a cache enlarged between steps, its contents copied, gives the same results";

/// Rows added.
const MORE: usize = 3;

/// A port and one of its dynamic axes.
type Axis = (String, usize);

/// Axes that move together.
struct Family {
    extent: usize,
    states: Vec<Axis>,
}

/// How enlarging a family went.
enum Grown {
    /// As before, with these inputs enlarged as well.
    Same(Vec<Axis>),
    /// An output differs from a step on.
    Differs(usize, String, Vec<Axis>),
    /// Calls are refused.
    Refused(String),
}

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    let Some(first) = bench.calls.first() else {
        return Ok(Found::nothing("there are no calls"));
    };
    let rest: Vec<Call> = match &bench.calls[1..] {
        [] => vec![first.clone()],
        more => more.to_vec(),
    };
    let mut session = bench.start()?;
    bench.step(&mut session, first)?;
    let families = families(bench, &session);
    if families.is_empty() {
        return Ok(Found::nothing("no state has a dynamic axis"));
    }
    let mut usual_session = session.clone();
    let usual = bench.steps(&mut usual_session, &rest)?;
    let trial = Trial {
        bench,
        session,
        rest,
        usual,
    };
    let mut tried = Vec::new();
    for family in families {
        let grown = trial.family(&family)?;
        let (Grown::Refused(_), true) = (&grown, family.places().len() > 1) else {
            tried.push((family, grown));
            continue;
        };
        // Equal by chance: each place of the shape by itself.
        let parts: Vec<Family> = family.places().iter().map(|a| family.at(*a)).collect();
        let mut apart = Vec::new();
        for part in parts {
            let grown = trial.family(&part)?;
            apart.push((part, grown));
        }
        match apart.iter().all(|(_, g)| matches!(g, Grown::Refused(_))) {
            true => tried.push((family, grown)),
            false => tried.extend(apart),
        }
    }
    Ok(told(&tried, trial.rest.len()))
}

/// The dynamic axes of the states, by extent.
fn families(bench: &Bench<'_, '_>, session: &Session) -> Vec<Family> {
    let mut all: Vec<Family> = Vec::new();
    for (_, state) in bench.pair.states() {
        let Some(t) = session.states.get(&state.port.name) else {
            continue;
        };
        for axis in (0..state.port.shape.len()).filter(|a| state.port.shape[*a].is_none()) {
            let extent = t.shape()[axis];
            let own = (state.port.name.clone(), axis);
            match all.iter_mut().find(|f| f.extent == extent) {
                Some(family) => family.states.push(own),
                None => all.push(Family {
                    extent,
                    states: vec![own],
                }),
            }
        }
    }
    all
}

impl Family {
    /// The places in shapes at which the axes stand.
    fn places(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.states.iter().map(|s| s.1).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The axes at one place.
    fn at(&self, place: usize) -> Family {
        Family {
            extent: self.extent,
            states: self
                .states
                .iter()
                .filter(|s| s.1 == place)
                .cloned()
                .collect(),
        }
    }
}

struct Trial<'r, 'b, 't> {
    bench: &'r Bench<'b, 't>,
    /// The states after step 1.
    session: Session,
    rest: Vec<Call>,
    usual: Vec<Outputs>,
}

impl Trial<'_, '_, '_> {
    /// Enlarges the states of a family; where that is refused, the inputs of its extent as well.
    fn family(&self, family: &Family) -> Result<Grown, Halt> {
        let alone = self.grown(family, &[])?;
        let Grown::Refused(_) = alone else {
            return Ok(alone);
        };
        let inputs = self.inputs(family)?;
        if inputs.is_empty() {
            return Ok(alone);
        }
        let together = self.grown(family, &inputs)?;
        Ok(match together {
            Grown::Refused(_) => alone,
            other => other,
        })
    }

    /// Dynamic axes of inputs that have the family's extent.
    fn inputs(&self, family: &Family) -> Result<Vec<Axis>, Halt> {
        let mut all: Vec<Axis> = Vec::new();
        for call in &self.rest {
            let Some(function) = self.bench.function(call) else {
                continue;
            };
            for (own, t, _) in self.bench.pair.inputs(function, call)? {
                let port = function.inputs.iter().find(|i| i.port.name == own);
                let free = port.map(|p| &p.port.shape).into_iter().flatten();
                for (axis, dim) in free.enumerate() {
                    let fits = dim.is_none() && t.shape().get(axis) == Some(&family.extent);
                    if fits && !all.contains(&(own.clone(), axis)) {
                        all.push((own.clone(), axis));
                    }
                }
            }
        }
        Ok(all)
    }

    fn grown(&self, family: &Family, inputs: &[Axis]) -> Result<Grown, Halt> {
        let mut session = self.session.clone();
        for (own, axis) in &family.states {
            if let Some(t) = session.states.get_mut(own) {
                *t = enlarged(t, *axis, false)?;
            }
        }
        for (step, call) in self.rest.iter().enumerate() {
            let got = match self.step(&mut session, call, inputs) {
                Ok(got) => got,
                Err(Halt::Failed(CheckError::Run(error))) => {
                    return Ok(Grown::Refused(error.to_string()));
                }
                Err(halt) => return Err(halt),
            };
            let got: Outputs = got
                .into_iter()
                .zip(&self.usual[step])
                .map(|((own, t), (_, usual))| Ok((own, first_of(&t, usual.shape())?.unwrap_or(t))))
                .collect::<Result<_, Halt>>()?;
            if let Some(output) = parted(&self.usual[step], &got) {
                return Ok(Grown::Differs(step + 2, output, inputs.to_vec()));
            }
        }
        Ok(Grown::Same(inputs.to_vec()))
    }

    /// A call with some inputs enlarged.
    fn step(&self, session: &mut Session, call: &Call, inputs: &[Axis]) -> Result<Outputs, Halt> {
        let Some(function) = self.bench.function(call).filter(|_| !inputs.is_empty()) else {
            return self.bench.step(session, call);
        };
        if self.bench.late() {
            return Err(Halt::Time);
        }
        let mut given = Vec::new();
        for (own, mut t, _) in self.bench.pair.inputs(function, call)? {
            for (_, axis) in inputs.iter().filter(|(n, _)| *n == own) {
                t = enlarged(&t, *axis, true)?;
            }
            given.push((own, t));
        }
        Ok(execute(function, session, &given).map_err(CheckError::from)?)
    }
}

/// The tensor with more rows along an axis: of zeros; for an input whatever goes on as it does, so
/// integers count on, and a mask that is added hides what is new.
fn enlarged(t: &Tensor, axis: usize, input: bool) -> Result<Tensor, Halt> {
    let mut shape = t.shape().to_vec();
    let size = t.dtype().size();
    let inner: usize = shape[axis + 1..].iter().product::<usize>();
    let (old, row) = (shape[axis], inner * size);
    shape[axis] += MORE;
    let mut out = Tensor::zeros(t.dtype(), &shape)?;
    if inner == 0 || out.is_empty() {
        return Ok(out);
    }
    let low = match (input, t.dtype().class()) {
        (true, Class::Float) => t
            .reals()
            .unwrap_or_default()
            .into_iter()
            .fold(0.0, f64::min),
        _ => 0.0,
    };
    let fill = match low < -100.0 {
        true => {
            let one = Tensor::from_values(&[1], &[low])?.cast(t.dtype())?;
            Some(one.bytes().into_owned())
        }
        false => None,
    };
    let counts = input && matches!(t.dtype().class(), Class::Int { bits, .. } if bits >= 32);
    let from = t.bytes().into_owned();
    let bytes = out.bytes_mut()?;
    for (block, to) in bytes.chunks_exact_mut((old + MORE) * row).enumerate() {
        let own = &from[block * old * row..(block + 1) * old * row];
        to[..old * row].copy_from_slice(own);
        let rest = &mut to[old * row..];
        match &fill {
            Some(value) => rest
                .chunks_exact_mut(size)
                .for_each(|c| c.copy_from_slice(value)),
            None if counts && old > 0 => rest
                .chunks_exact_mut(row)
                .for_each(|c| c.copy_from_slice(&own[(old - 1) * row..])),
            None => {}
        }
    }
    if counts && old > 0 {
        return Ok(counted(&out, axis, old)?);
    }
    Ok(out)
}

/// Integers whose rows behind `old` along an axis, which repeat the last one, are counted on from it.
pub(super) fn counted(t: &Tensor, axis: usize, old: usize) -> Result<Tensor, TensorError> {
    let shape = t.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let own = Values::of(t);
    let held = |i| own.as_ref().and_then(|v| v.whole(i)).unwrap_or_default();
    let on = (0..t.len()).map(|i| {
        let row = (i / inner.max(1)) % shape[axis];
        held(i) + (row + 1).saturating_sub(old) as i128
    });
    wholes(t.dtype(), shape, &on.collect::<Vec<_>>())
}

/// The first of a tensor along every axis, as many as `shape` has; `None` where there are fewer.
fn first_of(t: &Tensor, shape: &[usize]) -> Result<Option<Tensor>, Halt> {
    let own = t.shape();
    let fits = own.len() == shape.len() && own.iter().zip(shape).all(|(a, b)| a >= b);
    if !fits || own == shape {
        return Ok(None);
    }
    let size = t.dtype().size();
    let bytes = t.bytes();
    let mut out = Vec::new();
    let wanted: usize = shape.iter().product();
    for i in 0..wanted {
        let (mut rest, mut at, mut step) = (i, 0, 1);
        for axis in (0..shape.len()).rev() {
            at += rest % shape[axis] * step;
            rest /= shape[axis];
            step *= own[axis];
        }
        out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
    }
    let cut = Tensor::from_bytes(t.dtype(), shape, &out).map_err(CheckError::from)?;
    Ok(Some(cut))
}

/// `cache axis 1 and mask axis 1`; of many the first.
fn axes(all: &[&Axis]) -> String {
    let mut shown: Vec<String> = all
        .iter()
        .map(|(own, axis)| format!("axis {axis} of {}", name(own)))
        .collect();
    if shown.len() > 4 {
        let more = shown.len() - 3;
        shown.truncate(3);
        shown.push(format!("{more} more"));
    }
    list(&shown)
}

fn told(tried: &[(Family, Grown)], steps: usize) -> Found {
    let (mut good, mut duties, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (family, grown) in tried {
        let alone: Vec<&Axis> = family.states.iter().collect();
        match grown {
            Grown::Same(inputs) => {
                let all: Vec<&Axis> = alone.into_iter().chain(inputs).collect();
                let line = format!(
                    "{} enlarged by {MORE} rows after step 1, contents copied: {} as before",
                    axes(&all),
                    count(steps, "step")
                );
                good.push(line.clone());
                lines.push(line);
            }
            Grown::Differs(step, output, inputs) => {
                let all: Vec<&Axis> = alone.into_iter().chain(inputs).collect();
                lines.push(format!(
                    "{} enlarged by {MORE} rows after step 1: {} differs from step {step}",
                    axes(&all),
                    name(output)
                ));
                duties.push(format!(
                    "choose the extent of {} before the first call: it is part of what is computed",
                    axes(&family.states.iter().collect::<Vec<_>>())
                ));
            }
            Grown::Refused(error) => {
                lines.push(format!(
                    "{} cannot be enlarged alone: {error}",
                    axes(&alone)
                ));
                duties.push(format!(
                    "enlarge together with {} what else follows that extent, such as a mask",
                    axes(&alone)
                ));
            }
        }
    }
    let grows = "when a cache grows, copy its old contents into the new one and zero the rest";
    let mut found = match duties.is_empty() {
        true => Found::new(Verdict::Good, good.join("; ")).must(grows),
        false => Found::new(Verdict::Duty, lines.join("; ")).must(duties.join("; ")),
    };
    if tried.len() > 1 {
        found.details = lines;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_go_on_as_they_do() {
        let t = Tensor::from_values(&[1, 2], &[4i32, 5]).unwrap();
        let more = enlarged(&t, 1, true).unwrap_or_else(|_| panic!("enlarged"));
        assert_eq!(more.values::<i32>().unwrap(), [4, 5, 6, 7, 8]);
        let large = Tensor::from_values(&[1], &[1i64 << 53]).unwrap();
        let more = enlarged(&large, 0, true).unwrap_or_else(|_| panic!("enlarged"));
        let on: Vec<i64> = (0..4).map(|i| (1 << 53) + i).collect();
        assert_eq!(more.values::<i64>().unwrap(), on);
        let mask = Tensor::from_values(&[1, 2], &[0f32, -1e4]).unwrap();
        let more = enlarged(&mask, 1, true).unwrap_or_else(|_| panic!("enlarged"));
        assert_eq!(more.values::<f32>().unwrap(), [0.0, -1e4, -1e4, -1e4, -1e4]);
        let state = Tensor::from_values(&[2, 1], &[4i32, 5]).unwrap();
        let more = enlarged(&state, 0, false).unwrap_or_else(|_| panic!("enlarged"));
        assert_eq!(more.values::<i32>().unwrap(), [4, 5, 0, 0, 0]);
        let cut = first_of(&more, &[2, 1]).unwrap_or_else(|_| panic!("cut"));
        assert_eq!(cut.unwrap().values::<i32>().unwrap(), [4, 5]);
    }
}
