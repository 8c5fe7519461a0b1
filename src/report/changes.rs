//! Changes of a contract for a person at a terminal or in a log.

use super::Paint;
use crate::contract::{Change, Impact, Level};
use crate::text;
use std::fmt::{self, Write};

/// Writes changes in their order: a one-line head, then what consumers see.
///
/// Changes that do not count at `level` are kept quiet in colour, not in words.
///
/// ```text
/// breaking[source-changed] main: sources of states 0 and 1 exchanged: …
///     by position: …
///     by name:     …
/// ```
pub fn render_changes(
    out: &mut impl Write,
    changes: &[Change],
    level: Level,
    paint: Paint,
) -> fmt::Result {
    for change in changes {
        let tag = format!("{}[{}]", change.severity, change.id);
        match change.severity {
            _ if !change.counts_at(level) => write!(out, "{}", paint.cyan(tag))?,
            Impact::Breaking => write!(out, "{}", paint.alarm(tag))?,
            Impact::Compatible | Impact::Note => write!(out, "{}", paint.yellow(tag))?,
        }
        writeln!(
            out,
            " {}: {}",
            text::name(&change.function),
            paint.bold(text::line(&change.message))
        )?;
        if change.by_position == change.by_name {
            writeln!(out, "    any consumer: {}", text::line(&change.by_name))?;
        } else {
            writeln!(out, "    by position: {}", text::line(&change.by_position))?;
            writeln!(out, "    by name:     {}", text::line(&change.by_name))?;
        }
    }
    Ok(())
}

/// `2 breaking, 1 note`; `no changes` for none.
pub fn count_changes(changes: &[Change]) -> String {
    let counted: Vec<String> = [Impact::Breaking, Impact::Compatible, Impact::Note]
        .into_iter()
        .map(|impact| {
            (
                changes.iter().filter(|c| c.severity == impact).count(),
                impact,
            )
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, impact)| match impact {
            Impact::Note => text::count(count, "note"),
            _ => format!("{count} {impact}"),
        })
        .collect();
    if counted.is_empty() {
        "no changes".to_owned()
    } else {
        counted.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::diff;
    use crate::contract::testing::sample;

    fn changes() -> Vec<Change> {
        let mut new = sample();
        new.functions[0].states.swap(0, 1);
        new.functions[0].inputs[0].dtype = "int64".into();
        new.functions[0].inputs[1].shape[0] = None;
        new.functions[0].export = None;
        diff(&sample(), &new)
    }

    fn shown(paint: Paint) -> String {
        let mut out = String::new();
        render_changes(&mut out, &changes(), Level::Binding, paint).unwrap();
        out
    }

    #[test]
    fn changes_without_colour() {
        insta::assert_snapshot!(shown(Paint::PLAIN));
        assert_eq!(
            count_changes(&changes()),
            "2 breaking, 1 compatible, 1 note"
        );
        assert_eq!(count_changes(&[]), "no changes");
    }

    #[test]
    fn colour_changes_nothing_but_the_styles() {
        let coloured = shown(Paint::new(true));
        assert_ne!(coloured, shown(Paint::PLAIN));
        assert_eq!(console::strip_ansi_codes(&coloured), shown(Paint::PLAIN));
    }
}
