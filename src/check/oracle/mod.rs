//! The vendor's interpreter on the same calls: three ways to compare.
//!
//! It runs in a process of its own, which it ends on some assets; that is a finding, and the check
//! goes on.

mod process;

use serde::Serialize;

use super::metrics::close;
use super::pair::Pair;
use super::parity::{Alignment, Outcome};
use super::session::Session;
use super::CheckError;
use crate::report::{Finding, Severity, Stage};
use crate::runtime::files::{as_port, read, Tensors};
use crate::runtime::{DType, Tensor};
use crate::text::name;
use process::{Ended, Job};

pub use process::OracleError;

/// One port over all steps, three ways.
#[derive(Clone, Debug, Serialize)]
pub struct OraclePort {
    /// The function.
    pub function: String,
    /// The port.
    pub port: String,
    /// Steps in which the interpreter agrees with our runtime.
    pub with_ours: usize,
    /// Steps in which it agrees with PyTorch.
    pub with_torch: usize,
    /// Steps in which ours agrees with PyTorch.
    pub ours_with_torch: usize,
    /// Steps compared.
    pub steps: usize,
}

/// What running the interpreter gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Oracle {
    /// Steps it finished.
    pub steps: usize,
    /// The ports.
    pub ports: Vec<OraclePort>,
    /// How it ended, where not at the end of the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Runs the calls of a run on the interpreter of `python`.
///
/// # Errors
/// When the process cannot be started or has no coreai-core, and when the trace cannot be read.
pub fn consult(
    asset: &std::path::Path,
    python: &std::path::Path,
    pair: &Pair<'_>,
    outcome: &Outcome<'_>,
    alignment: &Alignment,
) -> Result<(Oracle, Vec<Finding>), CheckError> {
    let calls = outcome.run.calls.get(..outcome.done).unwrap_or_default();
    let mut session = pair.start(outcome.run)?;
    let mut job = Job::new(asset, &session)?;
    for call in calls {
        let Some((_, function)) = pair.function(&call.function) else {
            continue;
        };
        let mut set_up = session.clone();
        let set = pair.set_arguments(&mut set_up, function, call)?;
        let inputs = pair.inputs(function, call)?;
        job.call(function, &inputs, &set, &set_up);
        drop(set_up);
        if pair.step(&mut session, call).is_err() {
            break;
        }
    }
    let ended = job.run(python)?;
    let mut oracle = Oracle::default();
    let mut session: Session = pair.start(outcome.run)?;
    for (step, call) in calls.iter().enumerate() {
        let Some(theirs) = job.result(step) else {
            break;
        };
        let theirs = read(&theirs, &|_, _, _| Ok(())).map_err(OracleError::from)?;
        let Some(ran) = pair.step(&mut session, call)? else {
            continue;
        };
        oracle.steps += 1;
        let function = &pair.functions[ran.function];
        let leaves = alignment.get(&ran.function).cloned().unwrap_or_default();
        for (place, (port, ours)) in ran.outputs.iter().enumerate() {
            let leaf = leaves.get(place).copied().flatten();
            let torch = leaf.and_then(|l| call.outputs.get(l)?.value.as_ref());
            let key = format!("output/{port}");
            compare(
                pair,
                &mut oracle,
                function,
                port,
                (ours, torch),
                &theirs,
                &key,
            )?;
        }
        for state in &function.states {
            let port = &state.port.name;
            if let Some(ours) = session.states.get(port) {
                let key = format!("state/{port}");
                let torch = pair.after(call, state);
                compare(
                    pair,
                    &mut oracle,
                    function,
                    port,
                    (ours, torch),
                    &theirs,
                    &key,
                )?;
            }
        }
    }
    let mut findings = differences(&oracle);
    let parity = outcome.beyond().next().is_none();
    if let Some(mut finding) = end(&ended, oracle.steps, parity) {
        let words = job.last_words();
        if !words.is_empty() {
            finding.evidence.insert(0, words);
        }
        finding.function = calls.get(oracle.steps).map(|c| c.function.clone());
        oracle.ended = Some(finding.message.clone());
        findings.push(finding);
    }
    Ok((oracle, findings))
}

type Sides<'s> = (&'s Tensor, Option<&'s super::trace::Value>);

fn compare(
    pair: &Pair<'_>,
    oracle: &mut Oracle,
    function: &super::pair::Function<'_>,
    port: &str,
    (ours, torch): Sides<'_>,
    theirs: &Tensors,
    key: &str,
) -> Result<(), CheckError> {
    let Some(theirs) = theirs.get(key) else {
        return Ok(());
    };
    let theirs = as_port(theirs.clone(), ours.dtype());
    let dtype = torch.map_or(DType::name(ours.dtype()), |t| t.dtype.as_str());
    let tolerance = function.tolerance(pair.options, ours.dtype(), dtype);
    let own = |p: &OraclePort| p.function == function.name && p.port == port;
    let at = match oracle.ports.iter().position(own) {
        Some(at) => at,
        None => {
            oracle.ports.push(OraclePort {
                function: function.name.clone(),
                port: port.into(),
                with_ours: 0,
                with_torch: 0,
                ours_with_torch: 0,
                steps: 0,
            });
            oracle.ports.len() - 1
        }
    };
    let row = &mut oracle.ports[at];
    row.steps += 1;
    row.with_ours += usize::from(close(&theirs, ours, tolerance));
    if let Some(torch) = torch {
        let torch = pair.trace.tensor(torch)?;
        row.with_torch += usize::from(close(&theirs, &torch, tolerance));
        row.ours_with_torch += usize::from(close(ours, &torch, tolerance));
    }
    Ok(())
}

/// Ports on which the interpreter and our runtime do not agree.
fn differences(oracle: &Oracle) -> Vec<Finding> {
    let differing = oracle.ports.iter().filter(|p| p.with_ours < p.steps);
    differing
        .map(|p| {
            let of = |n: usize| format!("{n} of {} steps", p.steps);
            Finding::new(
                "interpreter-differs",
                Stage::Run,
                Severity::Warning,
                format!(
                    "the vendor's interpreter and this runtime agree on {} in {}",
                    name(&p.port),
                    of(p.with_ours)
                ),
            )
            .in_function(&p.function)
            .about(&p.port)
            .with_evidence(format!(
                "interpreter and PyTorch agree in {}",
                of(p.with_torch)
            ))
            .with_evidence(format!(
                "this runtime and PyTorch agree in {}",
                of(p.ours_with_torch)
            ))
            .with_fix("do not rely on this value: which one a device gives is not known")
        })
        .collect()
}

fn end(ended: &Ended, steps: usize, parity: bool) -> Option<Finding> {
    let step = steps + 1;
    let mut finding = match ended {
        Ended::Done => return None,
        Ended::Signal(signal) => Finding::new(
            "interpreter-died",
            Stage::Run,
            Severity::Error,
            format!("the vendor's interpreter dies at step {step} with signal {signal}"),
        ),
        Ended::Refused(why) => Finding::new(
            "interpreter-refuses",
            Stage::Run,
            Severity::Warning,
            format!("the vendor's interpreter refuses step {step}: {why}"),
        ),
        Ended::Time(seconds) => Finding::new(
            "interpreter-refuses",
            Stage::Run,
            Severity::Warning,
            format!("the vendor's interpreter did not finish step {step} within {seconds} s"),
        ),
        Ended::Exit(code) => Finding::new(
            "interpreter-refuses",
            Stage::Run,
            Severity::Warning,
            format!("the vendor's interpreter ends with exit code {code} at step {step}"),
        ),
    };
    if parity {
        finding = finding.with_evidence("our runtime gives PyTorch's values");
    }
    Some(finding)
}
