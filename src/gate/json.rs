//! The verdict for a program.

use serde_json::{json, Map, Value};

use super::{Comparison, ModelReport};
use crate::contract::SCHEMA_VERSION;

/// The whole run as one document.
///
/// `orphans` are accepted contracts that no model of the manifest has; `exit` is the exit code.
pub fn document(reports: &[ModelReport], orphans: &[String], exit: i32) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "coreai-audit", "version": env!("CARGO_PKG_VERSION")},
        "command": "gate",
        "exit": exit,
        "models": reports.iter().map(model).collect::<Vec<_>>(),
        "orphans": orphans,
    })
}

fn model(report: &ModelReport) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("name", json!(report.model.name));
    put(
        "recipe",
        json!(format!(
            "{}:{}",
            report.model.file.display(),
            report.model.function
        )),
    );
    put("verdict", json!(report.verdict.as_str()));
    put("level", json!(report.model.level));
    put("comparison", json!(report.comparison.as_str()));
    let changes: Vec<Value> = match &report.comparison {
        Comparison::Changed(changes) => changes
            .iter()
            .map(|change| {
                let mut value = json!(change);
                value["counts"] = json!(change.counts_at(report.model.level));
                value
            })
            .collect(),
        _ => Vec::new(),
    };
    put("changes", Value::Array(changes));
    put("findings", json!(report.findings));
    let accepted: Vec<Value> = report
        .allowed
        .iter()
        .map(|(finding, reason)| json!({"finding": finding, "reason": reason}))
        .collect();
    put("accepted", Value::Array(accepted));
    put("contract", json!(report.contract));
    put("check", json!(report.check));
    put("stages", json!(report.stages));
    put("toolchain", json!(report.toolchain));
    put(
        "asset",
        json!(report.asset.as_ref().map(|p| p.display().to_string())),
    );
    put("pending_snapshot", json!(report.pending));
    Value::Object(entry)
}
