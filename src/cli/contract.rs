//! `coreai-audit contract`: the contract of an asset.

use super::{Context, Exit, Failure, Format, FormatArg};
use crate::asset::{self, Asset, Found};
use crate::contract;
use crate::load::of_bundle;
use crate::text;
use std::io::Write;
use std::path::PathBuf;

/// Show the ordered input, state and output contract of an asset
///
/// Functions come in file order; states in the order of the graph's handle arguments, which is the
/// order consumers index them by. The weights are not read, so this takes milliseconds for an asset of
/// any size.
///
/// What is odd about the signature is told on standard error: inputs an older converter marked as
/// mutated without making them states, missing and repeated names, tokens without a state.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit contract decoder.aimodel\n  \
    coreai-audit contract --format json decoder.aimodel > decoder.json\n\n\
    Exit codes: 0 the contract was read; 1 --verify-hash found another hash, or none to compare with; 2 it could not be read.")]
pub struct Args {
    /// The asset's directory
    #[arg(value_name = "ASSET")]
    asset: PathBuf,

    /// Read the whole file and compare its SHA-256 with main.hash
    #[arg(long)]
    verify_hash: bool,

    #[command(flatten)]
    format: FormatArg,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let asset = match asset::open(&self.asset)? {
            Found::Asset(asset) => asset,
            Found::Bundle(bundle) => return Err(of_bundle(&bundle).into()),
        };
        let extracted = asset.contract()?;
        let shown = match self.format.format {
            Format::Human => contract::human(&extracted.contract),
            Format::Json => contract::json(&extracted.contract),
        };
        context.out.write_all(shown.as_bytes())?;
        for note in &extracted.notes {
            let note = format!("{}: {note}", text::name(note.function()));
            tell(context, &note)?;
        }
        if asset.metadata()?.is_some_and(|m| m.producer.is_none()) {
            tell(
                context,
                &asset::inspect::Remark::ProducerMissing.to_string(),
            )?;
        }
        self.verify(&asset, context)
    }

    fn verify(&self, asset: &Asset, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if !self.verify_hash {
            return Ok(Exit::Good);
        }
        let integrity = asset.integrity()?;
        tell(context, &integrity.to_string())?;
        Ok(if integrity.is_good() {
            Exit::Good
        } else {
            Exit::Found
        })
    }
}

fn tell(context: &mut Context<'_>, message: &str) -> std::io::Result<()> {
    let paint = context.err.paint;
    writeln!(context.err, "{} {message}", paint.cyan("note:"))
}
