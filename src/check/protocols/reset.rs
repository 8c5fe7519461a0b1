//! States set back to where they started.

use super::{finding, parted, Bench, Found, Halt, Verdict};
use crate::report::Severity;
use crate::text::{count, name};

pub(super) const PROVES: &str =
    "states set back to their start give the first steps again: nothing else is remembered";

pub(super) fn run(bench: &Bench<'_, '_>) -> Result<Found, Halt> {
    if bench.calls.is_empty() || bench.state_names().is_empty() {
        return Ok(Found::nothing("there are no states, or no calls"));
    }
    let mut session = bench.start()?;
    let usual = bench.steps(&mut session, bench.calls)?;
    // The same session goes on, so that whatever it remembers besides its states would show.
    session = bench.start()?;
    let again = bench.steps(&mut session, bench.calls)?;
    let different = usual
        .iter()
        .zip(&again)
        .position(|(a, b)| parted(a, b).is_some());
    Ok(match different {
        None => Found::new(
            Verdict::Good,
            format!("set back, {} again as before", count(usual.len(), "step")),
        )
        .must("to begin anew, set every state back to its start"),
        Some(step) => {
            let output = parted(&usual[step], &again[step]).unwrap_or_default();
            let what = format!(
                "{} is not the same again at step {} after all states are set back",
                name(&output),
                step + 1
            );
            let mut found = Found::new(Verdict::Bad, what.clone());
            found.findings.push(
                finding("not-reproducible", Severity::Warning, what)
                    .about(output)
                    .with_fix("look for random ops in the asset"),
            );
            found
        }
    })
}
