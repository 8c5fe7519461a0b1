//! The frame: help, usage errors, exit codes, colour.

use super::*;
use crate::report::Paint;

/// Runs `coreai-audit ARGS…` away from the process's streams: exit code, standard output, standard error.
pub(super) fn capture(args: &[&str]) -> (Exit, String, String) {
    capture_in(args, Paint::PLAIN)
}

fn capture_in(args: &[&str], paint: Paint) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("coreai-audit")
        .chain(args.iter().copied())
        .map(OsString::from);
    let exit = {
        let mut context = Context {
            out: Stream::new(&mut out, paint),
            err: Stream::new(&mut err, paint),
            interactive: false,
            ci: false,
        };
        run_with(args.collect(), &mut context)
    };
    (
        exit,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

/// Every command with its path, the root first.
fn all_commands() -> Vec<(String, clap::Command)> {
    fn walk(path: &str, command: clap::Command, all: &mut Vec<(String, clap::Command)>) {
        for sub in command.get_subcommands() {
            walk(&format!("{path} {}", sub.get_name()), sub.clone(), all);
        }
        all.push((path.to_owned(), command));
    }
    let mut all = Vec::new();
    walk("coreai-audit", whole(), &mut all);
    all.reverse();
    all
}

#[test]
fn the_command_line_is_well_formed() {
    whole().debug_assert();
}

#[test]
fn every_command_says_what_it_does_and_every_flag_what_it_changes() {
    for (path, command) in all_commands() {
        assert!(command.get_about().is_some(), "`{path}` has no description");
        for argument in command.get_arguments() {
            let help = argument
                .get_help()
                .map(|h| h.to_string())
                .unwrap_or_default();
            assert!(
                !help.trim().is_empty(),
                "`{path}`: `{}` has no help",
                argument.get_id()
            );
        }
    }
}

#[test]
fn every_command_shows_examples() {
    for (path, command) in all_commands() {
        if command.has_subcommands() {
            continue;
        }
        let after = command
            .get_after_long_help()
            .map(|h| h.to_string())
            .unwrap_or_default();
        assert!(after.contains("Examples:\n"), "`{path}` shows no examples");
        assert!(
            after.contains(&path),
            "the examples of `{path}` do not use it"
        );
    }
}

/// The help of one command is a snapshot of its own, so that adding a command touches no other.
#[test]
fn help_texts() {
    for (path, _) in all_commands() {
        if path == "coreai-audit" {
            continue;
        }
        let mut args: Vec<&str> = path.split(' ').skip(1).collect();
        args.push("--help");
        let (exit, out, err) = capture(&args);
        assert_eq!((exit, err.as_str()), (Exit::Good, ""), "{path}");
        insta::assert_snapshot!(format!("help_{}", args[..args.len() - 1].join("_")), out);
    }
}

#[test]
fn the_root_help_lists_commands_and_exit_codes() {
    let (exit, out, _) = capture(&["--help"]);
    assert_eq!(exit, Exit::Good);
    assert!(out.contains("\nCommands:\n"), "{out}");
    assert!(out.contains(
        "Exit codes: 0 all is well; 1 the command ran and found something; 2 it could not run."
    ));
}

#[test]
fn the_version_is_the_crate_version() {
    let (exit, out, _) = capture(&["--version"]);
    assert_eq!(exit, Exit::Good);
    assert_eq!(out, format!("coreai-audit {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_exit_code_2_on_standard_error() {
    for args in [
        &[][..],
        &["no-such-command"],
        &["completions"],
        &["--color", "sometimes", "completions", "bash"],
    ] {
        let (exit, out, err) = capture(args);
        assert_eq!((exit, out.as_str()), (Exit::Failed, ""), "{args:?}");
        assert!(err.contains("--help"), "{args:?}: {err}");
    }
}

#[test]
fn usage_errors_are_coloured_only_when_the_stream_is() {
    let (_, _, plain) = capture(&["no-such-command"]);
    let (_, _, coloured) = capture_in(&["no-such-command"], Paint::new(true));
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains('\u{1b}'));
}

#[test]
fn the_typed_colour_is_known_before_parsing() {
    let color = |args: &[&str]| typed_color(&args.iter().map(OsString::from).collect::<Vec<_>>());
    assert_eq!(color(&["p"]), Color::Auto);
    assert_eq!(color(&["p", "x", "--color", "always"]), Color::Always);
    assert_eq!(color(&["p", "--color=never", "x"]), Color::Never);
    assert_eq!(color(&["p", "--", "--color=never"]), Color::Auto);
    assert_eq!(color(&["p", "--color"]), Color::Auto);
    assert_eq!(color(&["--color=never"]), Color::Auto);
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read `a\u{1b}.json`")]
struct Outer(#[source] io::Error);

#[test]
fn a_failure_is_shown_with_its_cause_and_without_control_characters() {
    let mut err = Vec::new();
    {
        let mut context = Context {
            out: Stream::new(io::sink(), Paint::PLAIN),
            err: Stream::new(&mut err, Paint::PLAIN),
            interactive: false,
            ci: false,
        };
        let cause = io::Error::other("the disk is on fire");
        show_failure(&Outer(cause), &mut context).unwrap();
    }
    assert_eq!(
        String::from_utf8(err).unwrap(),
        "error: cannot read `a\\u{1b}.json`\n  because: the disk is on fire\n"
    );
}
