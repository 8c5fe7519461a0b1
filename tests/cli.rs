//! The installed program as a shell sees it.

use assert_cmd::Command;
use std::process::{Command as Process, Stdio};

fn program() -> Command {
    let mut command = Command::cargo_bin("coreai-audit").unwrap();
    command.env_remove("CI").env_remove("NO_COLOR");
    command
}

#[test]
fn exit_codes_of_help_version_and_wrong_usage() {
    program().arg("--help").assert().code(0);
    program().arg("--version").assert().code(0);
    program().assert().code(2);
    program().arg("no-such-command").assert().code(2);
}

#[test]
fn colour_follows_the_flag() {
    let shown = |args: &[&str]| {
        let output = program().args(args).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!shown(&["no-such-command"]).contains('\u{1b}'));
    assert!(shown(&["--color", "always", "no-such-command"]).contains('\u{1b}'));
    assert!(!shown(&["--color", "never", "no-such-command"]).contains('\u{1b}'));
}

#[test]
fn a_reader_that_stops_reading_does_not_make_it_panic() {
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("coreai-audit"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Process::new(assert_cmd::cargo::cargo_bin("coreai-audit"))
        .args(["completions", "bash"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error: No space left on device"), "{err}");
}
