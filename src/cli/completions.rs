//! `coreai-audit completions`: completion scripts for shells.

use super::{whole, Context, Exit, Failure};
use clap_complete::Shell;
use std::io::Write;

/// Print a completion script for a shell
///
/// The script is written to standard output; put it where your shell looks for completions.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit completions bash > ~/.local/share/bash-completion/completions/coreai-audit\n  \
    coreai-audit completions zsh > ~/.zfunc/_coreai-audit")]
pub struct Args {
    /// The shell to write for
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole(), "coreai-audit", &mut script);
        context.out.write_all(&script)?;
        Ok(Exit::Good)
    }
}
