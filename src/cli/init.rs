//! `coreai-audit init`: a manifest and a recipe to start from.

use std::io::Write;
use std::path::PathBuf;

use super::{Context, Exit, Failure};

/// The starter files: name and content.
const FILES: [(&str, &str); 2] = [
    (
        "coreai-audit.toml",
        include_str!("templates/coreai-audit.toml"),
    ),
    ("recipes.py", include_str!("templates/recipes.py")),
];

/// Write a commented manifest and recipe to start from
///
/// Both run as they are: `coreai-audit gate` converts the example and leaves its contract for review.
/// Files that exist are left alone, and nothing is written then.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit init\n  \
    coreai-audit init models --force")]
pub struct Args {
    /// Where to write them; created if need be
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,

    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        std::fs::create_dir_all(&self.folder)
            .map_err(|e| format!("{}: {e}", self.folder.display()))?;
        let paths: Vec<PathBuf> = FILES
            .iter()
            .map(|(name, _)| self.folder.join(name))
            .collect();
        if let Some(there) = paths.iter().find(|p| p.exists() && !self.force) {
            return Err(format!(
                "{} exists; nothing was written: move it away, or give --force to replace it",
                there.display()
            )
            .into());
        }
        for (path, (_, content)) in paths.iter().zip(FILES) {
            crate::files::write_atomically(path, content.as_bytes())?;
            writeln!(context.out, "{}", path.display())?;
        }
        #[cfg(feature = "python")]
        writeln!(context.err, "next: coreai-audit gate")?;
        #[cfg(not(feature = "python"))]
        writeln!(
            context.err,
            "next: coreai-audit gate, with the Python package: this program was built without it"
        )?;
        Ok(Exit::Good)
    }
}
