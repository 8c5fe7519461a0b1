//! The matrix for a person: one table, then what moved and at which step.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::attribution::Step;
use super::matrix::{Environment, Judged, Matrix, State};
use super::record::Record;
use crate::contract::Change;
use crate::report::{render_changes, render_findings, Finding, Paint};
use crate::text;

/// Packages named when two environments are compared; the JSON document has all.
const MOST_PACKAGES: usize = 6;
/// Those that decide most come first.
const FIRST: [&str; 3] = ["torch", "coreai-torch", "coreai-core"];
/// Labels longer than this get a number in the table's head.
const WIDEST_LABEL: usize = 36;

/// One row a model, one column an environment.
pub fn table(matrix: &Matrix, paint: Paint) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut head = vec!["model".to_owned()];
    head.extend(
        matrix
            .environments
            .iter()
            .enumerate()
            .map(|(i, e)| short(i, e)),
    );
    table.set_header(head);
    for model in &matrix.models {
        let mut row = vec![text::name(&model.row.name).into_owned()];
        row.extend((0..matrix.environments.len()).map(|i| cell(model, i)));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    // Colour after the layout, so that widths are those of the words.
    let exits = matrix.models.iter().map(|m| m.exit);
    let mut out = String::new();
    for (line, exit) in table
        .lines()
        .zip(std::iter::once(None).chain(exits.map(Some)))
    {
        let line = line.trim_end().to_owned();
        let line = match exit {
            None => paint.bold(line).to_string(),
            Some(0) => line,
            Some(_) => paint.alarm(line).to_string(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    for (i, environment) in matrix.environments.iter().enumerate() {
        let short = short(i, environment);
        if short != text::line(&environment.label) {
            out.push_str(&format!("{short} is {}\n", text::line(&environment.label)));
        }
    }
    out
}

fn short(index: usize, environment: &Environment) -> String {
    let label = text::line(&environment.label);
    match label.chars().count() > WIDEST_LABEL {
        true => format!("[{}]", index + 1),
        false => label.into_owned(),
    }
}

fn cell(model: &Judged, index: usize) -> String {
    let record = model.row.records[index].as_ref();
    let mut words = match model.states[index] {
        State::Reference => "reference".to_owned(),
        State::Same => "same".to_owned(),
        State::ProgramChanged => "contract same, program changed".to_owned(),
        State::ContractCompatible => "contract compatible".to_owned(),
        State::ContractChanged => "contract changed".to_owned(),
        State::NotCompared => "converts".to_owned(),
        State::Elsewhere => "–".to_owned(),
        State::CannotConvert => match record.and_then(|r| r.failure.as_ref()) {
            Some(failure) => format!("cannot convert ({})", failure.stage),
            None => "no contract".to_owned(),
        },
    };
    if record.is_some_and(|r| r.checked == Some(false)) {
        words.push_str(", check fails");
    }
    let new = model.new_findings[index].len();
    if new > 0 {
        words.push_str(&format!(", {}", text::count(new, "new finding")));
    }
    words
}

/// What the environments are, and for every model what moved and at which step.
pub fn details(matrix: &Matrix, paint: Paint) -> Result<String, fmt::Error> {
    let mut out = String::new();
    for (i, environment) in matrix.environments.iter().enumerate() {
        about_environment(&mut out, matrix, i, environment, paint)?;
    }
    for model in &matrix.models {
        about_model(&mut out, model, matrix, paint)?;
    }
    Ok(out)
}

fn about_environment(
    out: &mut String,
    matrix: &Matrix,
    index: usize,
    environment: &Environment,
    paint: Paint,
) -> fmt::Result {
    let label = text::line(&environment.label);
    let mut lines = Vec::new();
    // What could not be made is nothing to compare with.
    let before = matrix.environments[..index]
        .iter()
        .rfind(|e| e.error.is_none());
    match (&environment.error, before) {
        (Some(error), _) => lines.push(paint.alarm(text::line(error)).to_string()),
        (None, Some(before)) => {
            let changed = packages(&before.packages, &environment.packages);
            lines.push(format!("since {}: {changed}", text::line(&before.label)));
        }
        (None, None) => lines.push(named(&environment.packages)),
    }
    if let Some(python) = &environment.python {
        let differs = index > 0 && matrix.environments[0].python.as_ref() != Some(python);
        if index == 0 || differs {
            lines[0].push_str(&format!(", Python {}", text::line(python)));
        }
    }
    let mut warnings: Vec<&String> = Vec::new();
    for record in matrix
        .models
        .iter()
        .filter_map(|m| m.row.records[index].as_ref())
    {
        for warning in &record.warnings {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    for warning in warnings {
        lines.push(format!(
            "{} {}",
            paint.yellow("warning:"),
            text::line(warning)
        ));
    }
    writeln!(out, "{}: {}", paint.bold(label), lines.remove(0))?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn named(packages: &BTreeMap<String, String>) -> String {
    let named: Vec<String> = FIRST
        .iter()
        .filter_map(|name| Some(format!("{name} {}", text::line(packages.get(*name)?))))
        .collect();
    match named.is_empty() {
        true => "no toolchain".to_owned(),
        false => named.join(", "),
    }
}

fn packages(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> String {
    let mut changes: Vec<(bool, String)> = Vec::new();
    let names = old
        .keys()
        .chain(new.keys().filter(|k| !old.contains_key(*k)));
    for name in names {
        let shown = text::line(name);
        let change = match (old.get(name), new.get(name)) {
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => format!("{shown} {} → {}", text::line(a), text::line(b)),
            (Some(_), None) => format!("no {shown}"),
            (None, Some(b)) => format!("{shown} {}", text::line(b)),
            (None, None) => continue,
        };
        changes.push((!FIRST.contains(&name.as_str()), change));
    }
    changes.sort_by_key(|c| c.0);
    let shown: Vec<String> = changes
        .iter()
        .take(MOST_PACKAGES)
        .map(|c| c.1.clone())
        .collect();
    match changes.len() {
        0 => "the same packages".to_owned(),
        n if n > MOST_PACKAGES => format!(
            "{} and {} more",
            shown.join(", "),
            text::count(n - MOST_PACKAGES, "package")
        ),
        _ => shown.join(", "),
    }
}

fn about_model(out: &mut String, model: &Judged, matrix: &Matrix, paint: Paint) -> fmt::Result {
    let mut body = String::new();
    failures(&mut body, model, matrix, paint)?;
    for step in model.steps.iter().filter(|s| !s.is_quiet()) {
        about_step(&mut body, step, model, paint)?;
    }
    if body.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{} {}",
        paint.bold(text::name(&model.row.name)),
        paint.dim(format!("({})", text::line(&model.row.recipe)))
    )?;
    body.lines().try_for_each(|line| writeln!(out, "  {line}"))
}

/// Why there is no asset; one line for several environments that fail alike.
fn failures(out: &mut String, model: &Judged, matrix: &Matrix, paint: Paint) -> fmt::Result {
    let mut groups: Vec<(&super::Failed, Vec<&str>)> = Vec::new();
    for (record, environment) in model.row.records.iter().zip(&matrix.environments) {
        let Some(failure) = record.as_ref().and_then(|r: &Record| r.failure.as_ref()) else {
            continue;
        };
        // Told with the environment already.
        if environment.error.as_ref() == Some(&failure.message) {
            continue;
        }
        match groups.iter_mut().find(|(f, _)| *f == failure) {
            Some((_, labels)) => labels.push(&environment.label),
            None => groups.push((failure, vec![&environment.label])),
        }
    }
    for (failure, labels) in groups {
        let labels: Vec<_> = labels.iter().map(|l| text::line(l)).collect();
        writeln!(
            out,
            "{} {}: {}",
            paint.alarm(format!("cannot convert ({})", failure.stage)),
            text::list(&labels),
            text::line(&failure.message)
        )?;
    }
    Ok(())
}

fn about_step(out: &mut String, step: &Step, model: &Judged, paint: Paint) -> fmt::Result {
    write!(out, "{} → {}", text::line(&step.from), text::line(&step.to))?;
    if !step.across.is_empty() {
        let across: Vec<_> = step.across.iter().map(|l| text::line(l)).collect();
        write!(out, " (nothing known of {})", text::list(&across))?;
    }
    let verdict = match (&step.contract, step.same_program) {
        (None, _) => "no contract on a side; the graph signatures are compared",
        (Some(changes), _) if changes.iter().any(|c| c.counts) => "the contract changed",
        (Some(_), Some(false)) => "the contract is the same, of another program",
        (Some(_), _) => "the contract is the same",
    };
    writeln!(out, ": {verdict}")?;
    let mut body = String::new();
    if let Some(counted) = &step.contract {
        let changes: Vec<Change> = counted.iter().map(|c| c.change.clone()).collect();
        render_changes(&mut body, &changes, model.row.level, paint)?;
    }
    for change in &step.signature {
        let loud = change.kind.moves_ports() && step.contract.is_none();
        let word = match loud {
            true => paint.alarm("graph signature:").to_string(),
            false => paint.dim("graph signature:").to_string(),
        };
        writeln!(
            body,
            "{word} {}: {}",
            text::name(&change.function),
            text::line(&change.message)
        )?;
    }
    render_findings(&mut body, &step.new_findings, paint)?;
    for Finding { id, message, .. } in &step.gone_findings {
        writeln!(body, "no longer found: {id}: {}", text::line(message))?;
    }
    body.lines().try_for_each(|line| writeln!(out, "  {line}"))
}
