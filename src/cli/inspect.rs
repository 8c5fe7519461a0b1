//! `coreai-audit inspect`: what is in an asset.

mod human;
mod tree;

use super::{Context, Exit, Failure, Format, FormatArg};
use crate::asset::inspect::{inspect, Effort, Inspection, SCHEMA_VERSION};
use crate::asset::{self, Asset, Bundle, Component, Found, ReadOptions};
use crate::ir::PrintOptions;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show what is in an asset, or in a bundle of assets
///
/// Producer and versions, integrity, functions with their ordered inputs, states and outputs, ops,
/// weights, debug information, and what to know before you use or ship it.
///
/// Integrity and fingerprint take reading the whole file; leave them out with --quick.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit inspect decoder.aimodel\n  \
    coreai-audit inspect --ops decoder.aimodel\n  \
    coreai-audit inspect --ir decoder.aimodel | less\n  \
    coreai-audit inspect --format json decoder.aimodel | jq .fingerprint\n\n\
    Exit codes: 0 inspected; 1 the program is not what its hash says; 2 it could not be read.")]
pub struct Args {
    /// The directory of an asset, or of a bundle
    #[arg(value_name = "ASSET")]
    asset: PathBuf,

    /// List every op with how often it occurs
    #[arg(long)]
    ops: bool,

    /// Print the program instead, in the syntax of the vendor's printer
    #[arg(long, conflicts_with_all = ["ops", "tree", "quick", "format"])]
    ir: bool,

    /// Print who calls whom instead: functions, helper graphs, control flow
    #[arg(long, conflicts_with_all = ["ops", "quick", "format"])]
    tree: bool,

    /// With --ir, leave out constants of more elements than this
    #[arg(long, value_name = "ELEMENTS", default_value_t = 32, requires = "ir")]
    elide_above: usize,

    /// Do not read the weights: no integrity, no fingerprint
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    format: FormatArg,
}

/// The JSON document about a bundle.
#[derive(Serialize)]
struct BundleDocument {
    schema_version: u32,
    name: Option<String>,
    kind: Option<String>,
    metadata_version: Option<String>,
    assets: Vec<ComponentDocument>,
}

#[derive(Serialize)]
struct ComponentDocument {
    role: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    inspection: Option<Inspection>,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        match asset::open(&self.asset)? {
            Found::Asset(asset) => self.asset(&asset, context),
            Found::Bundle(bundle) => self.bundle(&bundle, context),
        }
    }

    fn asset(&self, asset: &Asset, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if self.ir || self.tree {
            let module = asset.program(ReadOptions::default())?.module;
            let mut out = Adapter {
                out: &mut context.out,
                error: None,
            };
            let result = if self.ir {
                module.print(
                    &mut out,
                    PrintOptions {
                        elide_above: Some(self.elide_above),
                    },
                )
            } else {
                tree::render(&mut out, &module)
            };
            return match (result, out.error) {
                (_, Some(error)) => Err(error.into()),
                (Err(error), None) => Err(error.into()),
                (Ok(()), None) => Ok(Exit::Good),
            };
        }
        let (inspection, _) = inspect(asset, Effort { hash: !self.quick })?;
        match self.format.format {
            Format::Human => {
                let paint = context.out.paint;
                let text = human::asset(&self.asset, &inspection, self.ops, paint);
                context.out.write_all(text.as_bytes())?;
            }
            Format::Json => write_json(context, &inspection)?,
        }
        Ok(exit(&inspection))
    }

    fn bundle(&self, bundle: &Bundle, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if self.ir || self.tree || self.ops {
            let flag = if self.ir {
                "--ir"
            } else if self.tree {
                "--tree"
            } else {
                "--ops"
            };
            return Err(format!(
                "{flag} works on one asset; {} is a bundle of several",
                bundle.path.display()
            )
            .into());
        }
        let effort = Effort { hash: !self.quick };
        let components: Vec<(&Component, Result<Inspection, Failure>)> = bundle
            .components
            .iter()
            .map(|component| {
                let inspected = match asset::open(&component.path) {
                    Ok(Found::Asset(asset)) => {
                        inspect(&asset, effort).map(|(i, _)| i).map_err(Into::into)
                    }
                    Ok(Found::Bundle(_)) => Err("a bundle inside a bundle".into()),
                    Err(error) => Err(error.into()),
                };
                (component, inspected)
            })
            .collect();
        let worst = components
            .iter()
            .map(|(_, i)| i.as_ref().map_or(Exit::Failed, exit));
        let worst = worst.max_by_key(|e| *e as i32).unwrap_or(Exit::Good);
        match self.format.format {
            Format::Human => {
                let text = human::bundle(bundle, &components, context.out.paint);
                context.out.write_all(text.as_bytes())?;
            }
            Format::Json => {
                let assets = components.into_iter().map(|(component, inspected)| {
                    let (inspection, error) = match inspected {
                        Ok(inspection) => (Some(inspection), None),
                        Err(error) => (None, Some(error.to_string())),
                    };
                    let path = component.path.display().to_string();
                    ComponentDocument {
                        role: component.role.clone(),
                        path,
                        inspection,
                        error,
                    }
                });
                let document = BundleDocument {
                    schema_version: SCHEMA_VERSION,
                    name: bundle.name.clone(),
                    kind: bundle.kind.clone(),
                    metadata_version: bundle.metadata_version.clone(),
                    assets: assets.collect(),
                };
                write_json(context, &document)?;
            }
        }
        Ok(worst)
    }
}

fn exit(inspection: &Inspection) -> Exit {
    // Not checked, and nothing to check against, is nothing found.
    use asset::Integrity::{Mismatch, Unreadable};
    match inspection.integrity {
        Some(Mismatch { .. } | Unreadable { .. }) => Exit::Found,
        _ => Exit::Good,
    }
}

fn write_json(context: &mut Context<'_>, document: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut context.out, document)?;
    writeln!(context.out)?;
    Ok(())
}

/// Text into a byte stream, keeping the stream's own error.
struct Adapter<'a, W: Write> {
    out: &'a mut W,
    error: Option<io::Error>,
}

impl<W: Write> fmt::Write for Adapter<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
