//! An inspection for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::asset::inspect::{Constant, Inspection, Storage, Weights};
use crate::asset::{Bundle, Component, Integrity};
use crate::cli::Failure;
use crate::contract::{self, Contract};
use crate::report::Paint;
use crate::text::{count, line, name};

/// Of the largest constants, so many are shown.
const LARGEST: usize = 5;

/// One asset.
pub(super) fn asset(path: &Path, inspection: &Inspection, ops: bool, paint: Paint) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail; the macro wants its result seen to.
    let _ = head(&mut out, path, inspection, paint);
    let _ = functions(&mut out, inspection);
    let _ = counts(&mut out, inspection, ops, paint);
    let _ = weights(&mut out, &inspection.weights, paint);
    for remark in &inspection.remarks {
        let _ = writeln!(out, "{} {remark}", paint.yellow("note:"));
    }
    out
}

fn head(out: &mut String, path: &Path, inspection: &Inspection, paint: Paint) -> std::fmt::Result {
    writeln!(out, "{}", paint.bold(line(&path.display().to_string())))?;
    let mut row = |key: &str, value: &str| writeln!(out, "  {key:<12} {value}");
    if let Some(metadata) = &inspection.metadata {
        let known = |text: &Option<String>| {
            text.as_deref()
                .map_or("unknown".into(), |t| line(t).into_owned())
        };
        let made = metadata
            .creation_date
            .as_deref()
            .map_or(String::new(), |d| format!(", {}", date(d)));
        row("producer", &format!("{}{made}", known(&metadata.producer)))?;
        for (key, text) in [
            ("author", &metadata.author),
            ("license", &metadata.license),
            ("description", &metadata.description),
        ] {
            if let Some(text) = text {
                row(key, &line(text))?;
            }
        }
    }
    let bytecode = &inspection.bytecode;
    let dialect = bytecode
        .dialect_version
        .map_or(String::new(), |v| format!(", dialect {v}"));
    row(
        "bytecode",
        &format!("{}{dialect}", line(&bytecode.producer)),
    )?;
    if let Some(revision) = bytecode.revision {
        let newest = day(bytecode.newest_known_revision);
        row(
            "needs",
            &format!(
                "a runtime that knows the dialect of {}; OS 27 knows that of {newest}",
                day(revision)
            ),
        )?;
    }
    if let Some(integrity) = &inspection.integrity {
        let shown = match integrity {
            Integrity::Good { .. } => paint.green(integrity.to_string()).to_string(),
            _ => paint.red(integrity.to_string()).to_string(),
        };
        row("integrity", &shown)?;
    }
    if let Some(fingerprint) = &inspection.fingerprint {
        row("fingerprint", &fingerprint.to_string())?;
    }
    let files = &inspection.files;
    let size = format!(
        "{}: {} weights, {} program, {} else",
        bytes(files.total_bytes),
        bytes(inspection.weights.bytes),
        bytes(files.program_bytes.saturating_sub(inspection.weights.bytes)),
        bytes(files.total_bytes.saturating_sub(files.program_bytes)),
    );
    row("size", &size)?;
    let debug = match (inspection.debug.present, inspection.debug.absolute_paths) {
        (false, _) => "none".to_string(),
        (true, 0) => format!(
            "{} named",
            count(inspection.debug.files.len(), "source file")
        ),
        (true, n) => format!(
            "{} named, {n} by absolute path, such as {}",
            count(inspection.debug.files.len(), "source file"),
            inspection
                .debug
                .files
                .iter()
                .find(|f| f.starts_with('/'))
                .map_or("…".into(), |f| line(f))
        ),
    };
    row("debug info", &debug)
}

fn functions(out: &mut String, inspection: &Inspection) -> std::fmt::Result {
    for function in &inspection.functions {
        let contract = Contract {
            functions: vec![function.contract.clone()],
        };
        write!(out, "\n{}", contract::human(&contract))?;
        for (state, found) in &function.positional {
            let Some(state) = function.contract.states.get(*state) else {
                continue;
            };
            let why = match found.how {
                "dynamic" => "its extent is dynamic",
                "slice" => "slices are written at a run-time index",
                "scatter" => "rows are scattered to run-time indices",
                "shift" => "old rows are shifted for new ones",
                _ => "a run-time mask selects rows",
            };
            writeln!(
                out,
                "  {}: axis {} counts positions ({why})",
                name(&state.name),
                found.axis
            )?;
        }
    }
    if inspection.functions.is_empty() {
        writeln!(out, "\nno functions")?;
    }
    Ok(())
}

fn counts(out: &mut String, inspection: &Inspection, ops: bool, paint: Paint) -> std::fmt::Result {
    let total = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
    let (graph, all) = (&inspection.ops.graph, &inspection.ops.all);
    writeln!(
        out,
        "\n{}  {} in graphs, {} with stored definitions",
        paint.bold("ops"),
        total(graph),
        total(all)
    )?;
    let mut sorted: Vec<(&String, &usize)> = all.iter().collect();
    sorted.sort_by_key(|(op, n)| {
        (
            std::cmp::Reverse(graph.get(*op)),
            std::cmp::Reverse(**n),
            *op,
        )
    });
    if ops {
        let width = sorted.iter().map(|(op, _)| op.len()).max().unwrap_or(0);
        writeln!(out, "  {:width$}  {:>8}  {:>8}", "", "graphs", "all")?;
        for (op, n) in sorted {
            let in_graphs = graph.get(op).copied().unwrap_or(0);
            writeln!(out, "  {:width$}  {in_graphs:>8}  {n:>8}", line(op))?;
        }
    } else {
        let most: Vec<String> = sorted
            .iter()
            .filter_map(|(op, _)| graph.get(*op).map(|n| format!("{} {n}", line(op))))
            .take(8)
            .collect();
        let more = graph.len().saturating_sub(most.len());
        let more = if more > 0 {
            format!(", and {more} more kinds (--ops)")
        } else {
            String::new()
        };
        if !most.is_empty() {
            writeln!(out, "  {}{more}", most.join(", "))?;
        }
    }
    if inspection.helpers > 0 {
        let composites: Vec<String> = inspection
            .composites
            .iter()
            .map(|(c, n)| format!("{n} × {}", name(c)))
            .collect();
        let composites = if composites.is_empty() {
            String::new()
        } else {
            format!(": {}", composites.join(", "))
        };
        writeln!(
            out,
            "  {}{composites} (--tree)",
            count(inspection.helpers, "helper graph")
        )?;
    }
    Ok(())
}

fn weights(out: &mut String, weights: &Weights, paint: Paint) -> std::fmt::Result {
    if weights.constants == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}  {} in {}",
        paint.bold("weights"),
        bytes(weights.bytes),
        count(weights.constants, "constant")
    )?;
    let mut by_size: Vec<_> = weights.by_dtype.iter().collect();
    by_size.sort_by_key(|(dtype, w)| (std::cmp::Reverse(w.bytes), *dtype));
    for (dtype, w) in by_size {
        writeln!(
            out,
            "  {dtype:<14} {:>10}  {}",
            bytes(w.bytes),
            count(w.constants, "constant")
        )?;
    }
    let large: Vec<&Constant> = weights
        .largest
        .iter()
        .filter(|c| c.storage == Storage::Resource)
        .take(LARGEST)
        .collect();
    if !large.is_empty() {
        writeln!(out, "  largest:")?;
    }
    for constant in large {
        writeln!(
            out,
            "    {:>10}  {} {}  in {}, op {}",
            bytes(constant.bytes),
            constant.dtype,
            contract::shape(&constant.shape),
            name(&constant.graph),
            constant.op
        )?;
    }
    Ok(())
}

/// A bundle: one row an asset.
pub(super) fn bundle(
    bundle: &Bundle,
    components: &[(&Component, Result<Inspection, Failure>)],
    paint: Paint,
) -> String {
    let text = |value: &Option<String>| {
        value
            .as_deref()
            .map_or("unknown".into(), |t| name(t).into_owned())
    };
    let mut out = format!(
        "{}  bundle {}, kind {}, metadata version {}, {}\n",
        paint.bold(line(&bundle.path.display().to_string())),
        text(&bundle.name),
        text(&bundle.kind),
        text(&bundle.metadata_version),
        count(components.len(), "asset"),
    );
    let mut rows = vec![[
        "role",
        "asset",
        "producer",
        "functions",
        "states",
        "size",
        "integrity",
    ]
    .map(String::from)];
    for (component, inspected) in components {
        let file = component
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let role = name(&component.role).into_owned();
        let file = line(&file).into_owned();
        rows.push(match inspected {
            Ok(i) => {
                let functions: Vec<_> =
                    i.functions.iter().map(|f| name(&f.contract.name)).collect();
                let states: usize = i.functions.iter().map(|f| f.contract.states.len()).sum();
                let producer = i.metadata.as_ref().and_then(|m| m.producer.clone());
                [
                    role,
                    file,
                    producer.map_or("unknown".into(), |p| line(&p).into_owned()),
                    functions.join(", "),
                    states.to_string(),
                    bytes(i.files.total_bytes),
                    i.integrity.map_or("not checked", |h| h.word()).to_string(),
                ]
            }
            Err(error) => [
                role,
                file,
                paint.red(line(&error.to_string())).to_string(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ],
        });
    }
    // An error takes the rest of its row.
    let widths: Vec<usize> = (0..7)
        .map(|c| {
            let cells = rows.iter().filter(|r| c < 2 || !r[3].is_empty());
            cells
                .map(|r| console::measure_text_width(&r[c]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let mut shown = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let pad = width.saturating_sub(console::measure_text_width(cell));
            shown.push_str(&format!("  {cell}{}", " ".repeat(pad)));
        }
        out.push_str(shown.trim_end());
        out.push('\n');
    }
    for (component, inspected) in components {
        for remark in inspected.iter().flat_map(|i| &i.remarks) {
            out.push_str(&format!(
                "{} {}: {remark}\n",
                paint.yellow("note:"),
                name(&component.role)
            ));
        }
    }
    out
}

/// `20260317` → `2026-03-17`.
fn day(date: i64) -> String {
    if !(1..=12).contains(&(date / 100 % 100)) || !(1..=31).contains(&(date % 100)) {
        return format!("revision {date}");
    }
    format!(
        "{}-{:02}-{:02}",
        date / 10_000,
        date / 100 % 100,
        date % 100
    )
}

/// `20261129T191430Z` → `2026-11-29 19:14:30 UTC`; anything else as it is.
fn date(stamp: &str) -> String {
    let digits = |range: std::ops::Range<usize>| {
        stamp
            .get(range)
            .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))
    };
    match (
        stamp.len(),
        stamp.get(8..9),
        digits(0..8),
        digits(9..15),
        stamp.get(15..),
    ) {
        (16, Some("T"), Some(d), Some(t), Some("Z")) if in_calendar(d, t) => format!(
            "{}-{}-{} {}:{}:{} UTC",
            &d[..4],
            &d[4..6],
            &d[6..],
            &t[..2],
            &t[2..4],
            &t[4..]
        ),
        _ => line(stamp).into_owned(),
    }
}

/// Whether month and day, and hour, minute and second, are among those there are.
fn in_calendar(date: &str, time: &str) -> bool {
    let within = |text: &str, from: u8, to: u8| {
        text.parse()
            .is_ok_and(|value: u8| (from..=to).contains(&value))
    };
    within(&date[4..6], 1, 12)
        && within(&date[6..], 1, 31)
        && within(&time[..2], 0, 23)
        && within(&time[2..4], 0, 59)
        && within(&time[4..], 0, 60)
}

/// `236 kB`: three digits and a decimal unit.
fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let digits = if unit == "B" || value >= 99.95 {
                0
            } else if value >= 9.995 {
                1
            } else {
                2
            };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.2} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_999, "1.00 MB"),
            (1_190_000_000, "1.19 GB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn dates_are_shown_as_dates_and_junk_as_it_is() {
        assert_eq!(date("20261129T191430Z"), "2026-11-29 19:14:30 UTC");
        assert_eq!(date("yesterday"), "yesterday");
        assert_eq!(date("20269999T999999Z"), "20269999T999999Z");
        assert_eq!(date("2026112ÄT191430Z"), "2026112ÄT191430Z");
        assert_eq!(day(20_260_317), "2026-03-17");
        assert_eq!(day(0), "revision 0");
    }
}
