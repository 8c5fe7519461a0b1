//! The commands; the only place that prints or exits.
//!
//! One module per subcommand, each with an `Args` type (clap derive, documented flag by flag) and
//! `Args::run`. To add one: write the module, declare it, and add its line to [`commands!`] below.
//!
//! Results go to standard output, everything meant for a person to standard error. The exit code is
//! an [`Exit`].

mod check;
mod completions;
mod context;
mod contract;
#[cfg(feature = "python")]
mod convert;
mod diff;
#[cfg(feature = "python")]
mod gate;
mod init;
mod inspect;
mod level;
mod matrix;
#[cfg(feature = "python")]
mod progress;
mod report;
mod run;
#[cfg(feature = "python")]
mod selection;
mod snapshot;
mod steps;
#[cfg(feature = "python")]
mod upgrade;
#[cfg(feature = "python")]
mod workers;

pub use context::{Context, Stream};
pub use level::LevelArg;

use crate::text;
use clap::{Args as _, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};

/// Exit codes; scripts and CI rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command ran, and all is well.
    Good = 0,
    /// The command ran and found something.
    Found = 1,
    /// The command could not run: wrong usage, unreadable file, failed conversion.
    Failed = 2,
}

/// Why a command could not run; shown as `error: …` with its causes, exit code 2.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Declares the subcommands: `Variant => module` for a module with `Args` and `Args::run`.
macro_rules! commands {
    ($($(#[$when:meta])* $variant:ident => $module:ident),* $(,)?) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$when])* $variant($module::Args)),*
        }

        impl Command {
            fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
                match self {
                    $($(#[$when])* Command::$variant(args) => args.run(context)),*
                }
            }
        }

        /// The subcommand of this name, alone.
        fn subcommand(name: &str) -> Option<clap::Command> {
            $($(#[$when])* {
                if name == stringify!($module) {
                    return Some($module::Args::augment_args(clap::Command::new(stringify!($module))));
                }
            })*
            None
        }
    };
}

// In the order of `--help`.
commands! {
    #[cfg(feature = "python")]
    Gate => gate,
    #[cfg(feature = "python")]
    Convert => convert,
    Inspect => inspect,
    Run => run,
    Check => check,
    Contract => contract,
    Diff => diff,
    Snapshot => snapshot,
    #[cfg(feature = "python")]
    Upgrade => upgrade,
    Report => report,
    Init => init,
    Completions => completions,
}

/// Convert PyTorch models to Core AI assets, pin their input, output and state contract, and audit
/// what came out.
#[derive(Parser)]
#[command(
    name = "coreai-audit",
    bin_name = "coreai-audit",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 100,
    after_long_help = "Exit codes: 0 all is well; 1 the command ran and found something; 2 it could not run.\n\
        Results go to standard output, messages to standard error."
)]
struct Root {
    /// When to colour output; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        display_order = 901
    )]
    color: Color,
}

/// When to colour output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Even into a pipe or file
    Always,
    /// Never
    Never,
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a person
    #[default]
    Human,
    /// One JSON document with a schema_version
    Json,
}

/// The `--format` flag; flatten it into a command's `Args`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArg {
    /// How results are written
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "human",
        display_order = 900
    )]
    pub format: Format,
}

/// Runs the program on the process's own streams and returns its exit code.
///
/// The first argument is the program's name, as in [`std::env::args_os`].
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let args: Vec<OsString> = args.into_iter().collect();
    let color = typed_color(&args);
    run_with(args, &mut Context::of_process(color)) as i32
}

/// Runs the program in the given surroundings.
///
/// `context` carries the streams, so that a test can see what is written to them.
pub fn run_with(args: Vec<OsString>, context: &mut Context<'_>) -> Exit {
    let result = match parse(args) {
        Ok(command) => command.run(context),
        Err(error) => return show_usage(&error, context),
    };
    let result = result.and_then(|exit| {
        context.out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            // Nothing can be done where even standard error is gone; the exit code still tells.
            let _ = show_failure(failure.as_ref(), context);
            Exit::Failed
        }
    }
}

fn parse(args: Vec<OsString>) -> Result<Command, clap::Error> {
    // Describing every flag of every command takes longer than reading an asset, so where the first
    // argument is a command, the others are left out.
    let named = args.get(1).and_then(|a| a.to_str()).and_then(subcommand);
    let line = match named {
        Some(subcommand) => Root::command().subcommand(subcommand),
        None => whole(),
    };
    let matches = line.try_get_matches_from(args)?;
    Command::from_arg_matches(&matches)
}

/// The command line with every command.
fn whole() -> clap::Command {
    Command::augment_subcommands(Root::command())
}

/// The value of `--color`, looked up before parsing because errors of parsing are coloured too.
fn typed_color(args: &[OsString]) -> Color {
    let parse = |value: &str| Color::from_str(value, false).ok();
    let mut args = args.iter().skip(1).map(|a| a.to_string_lossy());
    let mut color = Color::Auto;
    while let Some(arg) = args.next() {
        match arg.as_ref() {
            "--" => break,
            "--color" => color = args.next().and_then(|v| parse(&v)).unwrap_or(color),
            other => {
                if let Some(value) = other.strip_prefix("--color=") {
                    color = parse(value).unwrap_or(color);
                }
            }
        }
    }
    color
}

/// Shows help and version on standard output, wrong usage on standard error.
fn show_usage(error: &clap::Error, context: &mut Context<'_>) -> Exit {
    let (stream, exit) = if error.use_stderr() {
        (&mut context.err, Exit::Failed)
    } else {
        (&mut context.out, Exit::Good)
    };
    let rendered = error.render();
    let shown = if stream.paint.color {
        write!(stream, "{}", rendered.ansi())
    } else {
        write!(stream, "{rendered}")
    };
    match shown.and_then(|()| stream.flush()) {
        Ok(()) => exit,
        Err(failure) => {
            // Nothing can be done where even standard error is gone; the exit code still tells.
            let _ = show_failure(&failure, context);
            Exit::Failed
        }
    }
}

/// `error: …` and the causes that say more than the error itself.
fn show_failure(failure: &(dyn Error + 'static), context: &mut Context<'_>) -> io::Result<()> {
    let paint = context.err.paint;
    let message = failure.to_string();
    let mut lines = message.lines();
    let first = text::line(lines.next().unwrap_or_default()).into_owned();
    writeln!(context.err, "{} {first}", paint.alarm("error:"))?;
    for line in lines {
        writeln!(context.err, "  {}", text::line(line))?;
    }
    let mut said = message;
    let mut cause = failure.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !said.contains(&message) {
            writeln!(
                context.err,
                "  {} {}",
                paint.dim("because:"),
                text::line(&message)
            )?;
        }
        said = message;
        cause = error.source();
    }
    context.err.flush()
}

#[cfg(test)]
mod tests;
