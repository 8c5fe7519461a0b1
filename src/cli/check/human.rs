//! The result of a check for a person.

use std::fmt::{self, Write};
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::check::trace::Start;
use crate::check::{number, PortParity, Report, Verdict};
use crate::report::{render_findings, Paint, Severity};
use crate::text;

/// The parity of every port, the protocols, and the findings.
pub fn render(asset: &Path, report: &Report, paint: Paint) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "{}",
        paint.bold(text::line(&asset.display().to_string()))
    )?;
    for run in &report.runs {
        write!(
            out,
            "from {}: {} of {} compared",
            start(run.kind),
            run.compared,
            text::count(run.calls, "call")
        )?;
        if let Some(why) = &run.stopped {
            write!(
                out,
                "; {}",
                text::line(why.lines().next().unwrap_or_default())
            )?;
        }
        writeln!(out)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {}", text::line(note))?;
    }
    if !report.parity.is_empty() {
        write!(out, "\n{}", table(&report.parity, paint))?;
    }
    if !report.protocols.is_empty() {
        writeln!(out)?;
    }
    for protocol in &report.protocols {
        if protocol.verdict == Verdict::NotApplicable {
            continue;
        }
        let name = format!("{:<8}", protocol.name.as_str());
        match protocol.verdict {
            Verdict::Good => write!(out, "{}", paint.green(name))?,
            Verdict::Bad => write!(out, "{}", paint.alarm(name))?,
            _ => write!(out, "{}", paint.yellow(name))?,
        }
        writeln!(out, " {}", text::line(&protocol.found))?;
        if let Some(duty) = protocol
            .duty
            .as_ref()
            .filter(|_| protocol.verdict != Verdict::Good)
        {
            writeln!(out, "         a consumer must: {}", text::line(duty))?;
        }
    }
    if let Some(oracle) = &report.oracle {
        writeln!(
            out,
            "\nthe vendor's interpreter: {}",
            text::count(oracle.steps, "step")
        )?;
        for port in &oracle.ports {
            writeln!(
                out,
                "  {} {}: interpreter = ours {}, interpreter = PyTorch {}, ours = PyTorch {} of {}",
                text::name(&port.function),
                text::name(&port.port),
                port.with_ours,
                port.with_torch,
                port.ours_with_torch,
                text::count(port.steps, "step")
            )?;
        }
    }
    if !report.not_compared.is_empty() {
        let ports = report.not_compared.iter().map(|p| {
            format!(
                "{} {} {}",
                text::name(&p.function),
                p.role,
                text::name(&p.port)
            )
        });
        let mut ports: Vec<String> = ports.collect();
        if ports.len() > 8 {
            let more = ports.len() - 7;
            ports.truncate(7);
            ports.push(format!("{more} more"));
        }
        writeln!(out, "\nnot compared: {}", text::list(&ports))?;
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
        render_findings(&mut out, &report.findings, paint)?;
    }
    let errors = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Error)
        .count();
    writeln!(
        out,
        "\n{}",
        match (errors, report.parity_holds()) {
            (0, true) if report.not_compared.is_empty() => paint
                .green("parity: it computes what PyTorch computes")
                .to_string(),
            (0, true) => paint
                .yellow(format!(
                    "parity of what was compared; {} not",
                    match report.not_compared.len() {
                        1 => "1 port was".to_string(),
                        n => format!("{n} ports were"),
                    }
                ))
                .to_string(),
            (0, false) => paint.yellow("no parity was stated").to_string(),
            (n, _) => paint.alarm(text::count(n, "error")).to_string(),
        }
    )?;
    Ok(out)
}

fn start(kind: Start) -> &'static str {
    match kind {
        Start::Registered => "the registered values",
        Start::Zeros => "zeros",
    }
}

fn table(parity: &[PortParity], paint: Paint) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "run",
        "port",
        "in PyTorch",
        "dtype",
        "steps",
        "max abs",
        "mean abs",
        "PSNR",
        "top-1",
        "",
    ]);
    for port in parity {
        let steps = port.steps.len();
        let good = port.steps.iter().filter(|s| s.good()).count();
        let worst = port.worst_step().map(|w| w.1);
        let show = |v: Option<f64>| v.map_or("–".to_string(), number);
        let top1 = port.steps.iter().filter_map(|s| s.metrics.as_ref()?.top1);
        let top1 = top1.fold(None, |m: Option<f64>, v| Some(m.map_or(v, |m| m.min(v))));
        table.add_row([
            port.run.as_str().to_string(),
            format!("{} {}", text::name(&port.function), text::name(&port.port)),
            match (&port.source, port.how) {
                (Some(source), _) => text::line(source).into_owned(),
                (None, _) => "return value".into(),
            },
            match &port.torch_dtype {
                Some(torch) if torch != port.dtype => format!("{} ({torch})", port.dtype),
                _ => port.dtype.to_string(),
            },
            format!("{good}/{steps}"),
            show(worst.map(|m| m.max_abs)),
            show(worst.map(|m| m.mae)),
            worst.map_or("–".into(), |m| {
                m.psnr.map_or("–".into(), |p| format!("{p:.0} dB"))
            }),
            top1.map_or("–".into(), |t| format!("{:.0}%", t * 100.0)),
            if good == steps { "agrees" } else { "differs" }.to_string(),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (4..=8).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().enumerate().map(|(i, line)| {
        let line = line.trim_end().to_string();
        let bad = i.checked_sub(1).and_then(|i| parity.get(i));
        match (i, bad.is_some_and(|p| p.first_beyond().is_some())) {
            (0, _) => format!("{}\n", paint.bold(line)),
            (_, true) => format!("{}\n", paint.alarm(line)),
            _ => line + "\n",
        }
    });
    lines.collect()
}
