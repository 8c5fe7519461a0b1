//! The verdict for a person: one table, then details of what needs reading.

use std::fmt::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::{Comparison, ModelReport, Verdict};
use crate::convert::StageTime;
use crate::report::{render_changes, render_findings, Paint, Severity};
use crate::text;

/// Stages below this many seconds are summed up as the rest.
const WORTH_NAMING: f64 = 0.1;

/// One row a model.
pub fn table(reports: &[ModelReport], paint: Paint) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "model",
        "functions",
        "states",
        "contract",
        "run",
        "findings",
        "verdict",
        "time",
        "stages",
    ]);
    for report in reports {
        let (functions, states) = match &report.contract {
            Some(contract) => (
                contract.functions.len().to_string(),
                contract
                    .functions
                    .iter()
                    .map(|f| f.states.len().to_string())
                    .collect::<Vec<_>>()
                    .join("+"),
            ),
            None => ("–".to_owned(), "–".to_owned()),
        };
        let total: f64 = report.stages.iter().map(|s| s.seconds).sum();
        table.add_row([
            text::name(&report.model.name).into_owned(),
            functions,
            if states.is_empty() {
                "0".to_owned()
            } else {
                states
            },
            report.comparison.as_str().replace("not-read", "–"),
            run_cell(report),
            findings_cell(report),
            report.verdict.as_str().to_owned(),
            format!("{total:.1} s"),
            stages_cell(&report.stages),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if [1, 2, 7].contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // Colour after the layout, so that widths are those of the words.
    table
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let line = line.trim_end().to_owned();
            let painted = match i
                .checked_sub(1)
                .and_then(|i| reports.get(i))
                .map(|r| r.verdict)
            {
                None => paint.bold(line).to_string(),
                Some(Verdict::Pass) => line,
                Some(Verdict::New) => paint.yellow(line).to_string(),
                Some(Verdict::Fail | Verdict::Error) => paint.alarm(line).to_string(),
            };
            painted + "\n"
        })
        .collect()
}

/// How the asset did against PyTorch.
fn run_cell(report: &ModelReport) -> String {
    let Some(check) = &report.check else {
        return "–".to_owned();
    };
    let calls = check.runs.first().map_or(0, |r| r.compared);
    if check.runs.iter().any(|r| r.stopped.is_some()) {
        "stopped".to_owned()
    } else if check.parity_holds() {
        let ok = format!("{} ok", text::count(calls, "call"));
        match check.not_compared.len() {
            0 => ok,
            n => format!("{ok}, {} not", text::count(n, "port")),
        }
    } else {
        "differs".to_owned()
    }
}

fn findings_cell(report: &ModelReport) -> String {
    let count = |severity| {
        report
            .findings
            .iter()
            .filter(|f| f.severity == severity)
            .count()
    };
    let mut parts = Vec::new();
    for (severity, noun) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
        let n = count(severity);
        if n > 0 {
            parts.push(text::count(n, noun));
        }
    }
    let advice = count(Severity::Advice);
    if advice > 0 {
        parts.push(format!("{advice} advice"));
    }
    if !report.allowed.is_empty() {
        parts.push(format!("{} accepted", report.allowed.len()));
    }
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}

fn stages_cell(stages: &[StageTime]) -> String {
    let mut parts: Vec<String> = stages
        .iter()
        .filter(|s| s.seconds >= WORTH_NAMING)
        .map(|s| format!("{} {:.1}", s.stage, s.seconds))
        .collect();
    let rest: f64 = stages
        .iter()
        .map(|s| s.seconds)
        .filter(|s| *s < WORTH_NAMING)
        .sum();
    if !stages.is_empty() {
        parts.push(format!("rest {rest:.2}"));
    }
    parts.join(", ")
}

/// What needs reading about one model; empty where nothing does.
pub fn details(report: &ModelReport, paint: Paint) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let loud: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.severity != Severity::Advice || report.verdict == Verdict::Fail)
        .cloned()
        .collect();
    let changes = match &report.comparison {
        Comparison::Changed(changes) => changes.as_slice(),
        _ => &[],
    };
    if loud.is_empty() && changes.is_empty() && report.comparison != Comparison::New {
        return Ok(out);
    }
    writeln!(
        out,
        "{} {}",
        paint.bold(text::name(&report.model.name)),
        paint.dim(format!(
            "({}:{})",
            report.model.file.display(),
            report.model.function
        ))
    )?;
    let mut body = String::new();
    render_changes(&mut body, changes, report.model.level, paint)?;
    render_findings(&mut body, &loud, paint)?;
    if let (Comparison::New, Some(contract)) = (&report.comparison, &report.contract) {
        writeln!(
            body,
            "no contract has been accepted for this model yet; this one was read:"
        )?;
        for line in crate::contract::human(contract).lines() {
            writeln!(body, "    {line}")?;
        }
    }
    for line in body.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(out)
}
