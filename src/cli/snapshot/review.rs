//! `coreai-audit snapshot review`: one pending contract after the other, on a terminal.

use super::FolderArgs;
use crate::cli::{Context, Exit, Failure, Stream};
use crate::contract::snapshot::{Snapshot, Store};
use crate::contract::{self, Level};
use crate::report::render_changes;
use crate::text;
use console::{Key, Term};
use similar::{ChangeTag, TextDiff};
use std::io::{self, Write};

/// Decide about pending contracts one by one
///
/// Shows what changed in the contract's terms and as a diff of its lines, and asks: accept, reject or skip.
/// Needs a terminal; elsewhere use check, accept and reject.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit snapshot review\n  \
    coreai-audit snapshot review decoder\n\n\
    Exit codes: 0 nothing is left pending; 1 something was skipped; 2 there is no terminal.")]
pub struct Args {
    /// Only these models [default: all that are pending]
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    #[command(flatten)]
    folder: FolderArgs,
}

/// What a person can answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Accept,
    Reject,
    Skip,
    Quit,
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if !context.interactive {
            return Err("a review needs a terminal: see what waits with `coreai-audit snapshot check`, then \
                        decide with `coreai-audit snapshot accept MODEL` or `reject MODEL`"
                .into());
        }
        let folder = self.folder.open(context)?;
        let mut entries = folder.entries(&self.models)?;
        entries.retain(|entry| entry.pending);
        let models: Vec<String> = entries.into_iter().map(|entry| entry.model).collect();
        let terminal = Term::stderr();
        review(&folder.store, &models, &mut context.err, &mut || {
            terminal.read_key_raw()
        })
    }
}

/// Asks about each model; `key` waits for the next key.
fn review(
    store: &Store,
    models: &[String],
    out: &mut Stream<'_>,
    key: &mut dyn FnMut() -> io::Result<Key>,
) -> Result<Exit, Failure> {
    if models.is_empty() {
        writeln!(out, "nothing is pending")?;
        return Ok(Exit::Good);
    }
    let mut left = models.len();
    for (at, model) in models.iter().enumerate() {
        let Some(pending) = store.load_pending(model)? else {
            // Decided elsewhere in the meantime.
            left -= 1;
            continue;
        };
        let paint = out.paint;
        let count = paint.dim(format!("({} of {})", at + 1, models.len()));
        writeln!(out, "{} {count}", paint.bold(text::name(model)))?;
        show(store, model, &pending, out)?;
        match ask(out, key)? {
            Answer::Accept => {
                store.accept(model)?;
                left -= 1;
            }
            Answer::Reject => {
                store.reject(model)?;
                left -= 1;
            }
            Answer::Skip => {}
            Answer::Quit => break,
        }
        writeln!(out)?;
    }
    writeln!(out, "{} decided, {left} left pending", models.len() - left)?;
    Ok(if left == 0 { Exit::Good } else { Exit::Found })
}

fn show(
    store: &Store,
    model: &str,
    pending: &Snapshot,
    out: &mut Stream<'_>,
) -> Result<(), Failure> {
    let paint = out.paint;
    let accepted = store.load(model)?;
    let Some(accepted) = accepted else {
        writeln!(out, "no contract has been accepted yet; this one waits:\n")?;
        for line in contract::human(&pending.contract).lines() {
            writeln!(out, "  {line}")?;
        }
        return Ok(());
    };
    let changes = contract::diff(&accepted.contract, &pending.contract);
    if changes.is_empty() {
        writeln!(out, "the contract is equal to the accepted one")?;
    }
    let mut told = String::new();
    render_changes(&mut told, &changes, Level::Strict, paint)?;
    write!(out, "{told}")?;
    for line in versions(&accepted, pending) {
        writeln!(out, "{}", paint.dim(line))?;
    }
    writeln!(out)?;
    let (old, new) = (
        contract::json(&accepted.contract),
        contract::json(&pending.contract),
    );
    lines(&old, &new, out)
}

/// `torch 2.13.0 → 2.15.0`, for each version that differs.
fn versions(old: &Snapshot, new: &Snapshot) -> Vec<String> {
    let find = |snapshot: &Snapshot, name: &str| {
        snapshot
            .info
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, version)| version.clone())
    };
    let mut names: Vec<&String> = old
        .info
        .iter()
        .chain(&new.info)
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    let shown = |version: Option<String>| {
        version.map_or_else(|| "unknown".to_owned(), |v| text::line(&v).into_owned())
    };
    names
        .into_iter()
        .map(|name| (name, find(old, name), find(new, name)))
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| {
            format!("{} {} → {}", text::line(name), shown(before), shown(after))
        })
        .collect()
}

/// The changed lines with a little of what is around them.
fn lines(old: &str, new: &str, out: &mut Stream<'_>) -> Result<(), Failure> {
    let paint = out.paint;
    let diff = TextDiff::from_lines(old, new);
    for (at, group) in diff.grouped_ops(2).iter().enumerate() {
        if at > 0 {
            writeln!(out, "  {}", paint.dim("⋯"))?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let text = text::line(change.value().trim_end_matches(['\r', '\n'])).into_owned();
            match change.tag() {
                ChangeTag::Equal => writeln!(out, "  {}", paint.dim(format!("  {text}")))?,
                ChangeTag::Delete => writeln!(out, "  {}", paint.red(format!("- {text}")))?,
                ChangeTag::Insert => writeln!(out, "  {}", paint.green(format!("+ {text}")))?,
            }
        }
    }
    if diff.ratio() < 1.0 {
        writeln!(out)?;
    }
    Ok(())
}

/// Waits for one of the keys; a closed terminal or Ctrl-C is an answer to stop.
fn ask(out: &mut Stream<'_>, key: &mut dyn FnMut() -> io::Result<Key>) -> Result<Answer, Failure> {
    let paint = out.paint;
    loop {
        write!(
            out,
            "{} [a]ccept [r]eject [s]kip [q]uit [?] ",
            paint.bold("accept?")
        )?;
        out.flush()?;
        let (answer, word) = match key() {
            Ok(Key::Char('a' | 'A')) => (Answer::Accept, "accepted"),
            Ok(Key::Char('r' | 'R')) => (Answer::Reject, "rejected"),
            Ok(Key::Char('s' | 'S')) => (Answer::Skip, "skipped"),
            Ok(Key::Char('q' | 'Q') | Key::Escape | Key::CtrlC) => (Answer::Quit, "quit"),
            Ok(_) => {
                writeln!(
                    out,
                    "\n  a  accept: the pending contract becomes the accepted one\n  \
                       r  reject: the pending contract is thrown away\n  \
                       s  skip: decide later\n  \
                       q  quit: leave this and the rest for later"
                )?;
                continue;
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::NotConnected => (Answer::Quit, "quit"),
                _ => return Err(error.into()),
            },
        };
        writeln!(out, "{word}")?;
        return Ok(answer);
    }
}

#[cfg(test)]
mod tests;
