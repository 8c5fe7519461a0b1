//! What a worker sent, read: the printed program, the runtime's descriptor and the asset on disk, laid beside
//! each other.

use std::path::Path;

use crate::asset;
use crate::contract::agree::{self, OtherFunction, OtherPort};
use crate::contract::{self, Contract};
use crate::convert::{explain, Descriptor, DescriptorPort, Failure, FailureKind, Outcome, Step};
use crate::ir;
use crate::report::{Finding, Severity, Stage};

/// The contract of a conversion with everything that was found on the way.
pub struct Reading {
    /// The contract, sources included.
    pub contract: Option<Contract>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Something could not be done at all.
    pub could_not: bool,
}

/// Reads what a worker sent, and joins the readings.
pub fn read(outcome: &Outcome, asset: &Path) -> Reading {
    let mut reading = Reading {
        contract: None,
        findings: Vec::new(),
        could_not: false,
    };
    if let Some(failure) = &outcome.failure {
        failed(&mut reading, failure, outcome);
    }
    let Some(text) = outcome.ir.as_deref() else {
        return reading;
    };
    let module = match ir::text::parse(text) {
        Ok(module) => module,
        Err(error) => {
            reading.could_not = true;
            reading.findings.push(
                Finding::new("ir-unreadable", Stage::Contract, Severity::Error, format!("the emitted IR: {error}"))
                    .with_fix("report this with the recipe: the converter printed something this version does not read"),
            );
            return reading;
        }
    };
    let extracted = contract::extract(&module);
    let mut contract = extracted.contract;
    reading
        .findings
        .extend(extracted.notes.iter().map(agree::finding_of));
    reading
        .findings
        .extend(agree::join(&mut contract, &outcome.functions));
    if let Some(descriptor) = &outcome.descriptor {
        let other = functions_of(descriptor);
        reading.findings.extend(agree::compare_reading(
            &contract,
            "runtime descriptor",
            &other,
        ));
    }
    if outcome.saved {
        on_disk(&mut reading, &module, asset);
    }
    reading.contract = Some(contract);
    reading
}

/// Lays the program on disk beside the one that was printed.
fn on_disk(reading: &mut Reading, printed: &ir::Module, asset: &Path) {
    match asset::Asset::open(asset).and_then(|a| a.integrity()) {
        Ok(integrity) if integrity.is_good() => {}
        Ok(integrity) => reading.findings.push(
            Finding::new(
                "hash-mismatch",
                Stage::Contract,
                Severity::Error,
                integrity.to_string(),
            )
            .with_fix("convert again, or save the asset again with its producer"),
        ),
        // Told below, by reading the program.
        Err(_) => {}
    }
    match asset::read_module(asset) {
        Ok(module) => {
            if let Some(difference) = ir::compare(printed, &module) {
                reading.findings.push(
                    Finding::new(
                        "readings-disagree",
                        Stage::Contract,
                        Severity::Error,
                        "the emitted IR and the saved asset are not the same program",
                    )
                    .with_evidence(format!("at {}", difference.at))
                    .with_evidence(format!("emitted IR: {}", difference.left))
                    .with_evidence(format!("asset:      {}", difference.right)),
                );
            }
        }
        Err(error) => {
            reading.could_not = true;
            reading.findings.push(
                Finding::new(
                    "asset-unreadable",
                    Stage::Contract,
                    Severity::Error,
                    format!("the saved asset: {error}"),
                )
                .with_fix("report this with the recipe: the converter wrote something this version does not read"),
            );
        }
    }
}

fn failed(reading: &mut Reading, failure: &Failure, outcome: &Outcome) {
    // The descriptor is one reading of several: that coreai-core refuses the asset is a finding.
    if let (Step::Describe, FailureKind::Python(error)) = (failure.stage, &failure.kind) {
        reading.findings.push(
            Finding::new(
                "descriptor-refused",
                Stage::Contract,
                Severity::Warning,
                format!(
                    "coreai-core does not load the asset: {}",
                    failure.headline()
                ),
            )
            .with_evidence(error.message.clone())
            .with_fix(
                "the other readings are compared all the same; try another coreai-core version",
            ),
        );
        return;
    }
    let explanation = explain(failure, &outcome.functions);
    reading.could_not |= !explanation.found;
    reading.findings.extend(explanation.findings);
}

fn functions_of(descriptor: &Descriptor) -> Vec<OtherFunction> {
    let ports = |ports: &[DescriptorPort]| -> Vec<OtherPort> {
        ports
            .iter()
            .map(|p| OtherPort {
                name: p.name.clone(),
                dtype: p.dtype.clone(),
                shape: p.shape.clone(),
            })
            .collect()
    };
    descriptor
        .functions
        .iter()
        .map(|f| OtherFunction {
            name: f.name.clone(),
            inputs: ports(&f.inputs),
            states: ports(&f.states),
            outputs: ports(&f.outputs),
        })
        .collect()
}
