//! Findings for a person at a terminal or in a log.

use super::{Finding, Paint, Severity};
use crate::text;
use std::fmt::{self, Write};

/// Writes findings in their order: a one-line head, the evidence indented, and a `fix:` line.
///
/// ```text
/// error[source-changed] main, key_cache: sources of states 0 and 1 exchanged
///     key_cache was buffer k, is buffer v
///     fix: …
/// ```
pub fn render_findings(out: &mut impl Write, findings: &[Finding], paint: Paint) -> fmt::Result {
    for finding in findings {
        render(out, finding, paint)?;
    }
    Ok(())
}

fn render(out: &mut impl Write, finding: &Finding, paint: Paint) -> fmt::Result {
    let tag = format!("{}[{}]", finding.severity, text::line(&finding.id));
    match finding.severity {
        Severity::Error => write!(out, "{}", paint.alarm(tag))?,
        Severity::Warning => write!(out, "{}", paint.yellow(tag))?,
        Severity::Advice => write!(out, "{}", paint.cyan(tag))?,
    }
    let place: Vec<_> = [&finding.function, &finding.subject]
        .into_iter()
        .flatten()
        .map(|name| text::name(name))
        .collect();
    if !place.is_empty() {
        write!(out, " {}", place.join(", "))?;
    }
    writeln!(out, ": {}", paint.bold(text::line(&finding.message)))?;
    for line in finding.evidence.iter().flat_map(|entry| entry.lines()) {
        writeln!(out, "    {}", text::line(line))?;
    }
    if let Some(fix) = &finding.fix {
        let mut lines = fix.lines();
        let first = lines.next().unwrap_or_default();
        writeln!(out, "    {} {}", paint.green("fix:"), text::line(first))?;
        for line in lines {
            writeln!(out, "         {}", text::line(line))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Stage;

    fn sample() -> Vec<Finding> {
        vec![
            Finding::new(
                "output-vanished",
                Stage::Contract,
                Severity::Error,
                "forward returns 1 value, the asset has 0 outputs",
            )
            .in_function("main")
            .about("total")
            .with_evidence("return 0 is the state total itself")
            .with_evidence("first line\nsecond line\u{1b}[2J")
            .with_fix("return a new tensor\nsuch as total + 0"),
            Finding::new(
                "default-names",
                Stage::Contract,
                Severity::Warning,
                "no names given",
            ),
            Finding::new(
                "int64-narrowed",
                Stage::Lint,
                Severity::Advice,
                "int64 became int32",
            )
            .about("a\nb"),
        ]
    }

    fn render(paint: Paint) -> String {
        let mut out = String::new();
        render_findings(&mut out, &sample(), paint).unwrap();
        out
    }

    #[test]
    fn findings_without_colour() {
        insta::assert_snapshot!(render(Paint::PLAIN));
    }

    #[test]
    fn colour_changes_nothing_but_the_styles() {
        let coloured = render(Paint::new(true));
        assert_ne!(coloured, render(Paint::PLAIN));
        assert_eq!(console::strip_ansi_codes(&coloured), render(Paint::PLAIN));
    }
}
