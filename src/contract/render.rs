//! A contract as JSON for files, and as a table for people.

use super::{Contract, Dim, Function, Port, Source, State, SCHEMA_VERSION};
use crate::text;
use serde::Serialize;
use std::io;

/// The contract as JSON: one entry a line, keys in fixed order, `schema_version` first, and a line
/// break at the end.
///
/// A change of one port is a change of one line, so that `git diff` and `cargo insta review` show
/// what moved.
///
/// ```text
/// {
///   "schema_version": 1,
///   "functions": [
///     {
///       "name": "main",
///       "inputs": [
///         {"name": "x", "dtype": "float32", "shape": [1, null]}
///       ],
///       "states": [],
///       "outputs": []
///     }
///   ]
/// }
/// ```
pub fn json(contract: &Contract) -> String {
    let functions: Vec<String> = contract.functions.iter().map(function_json).collect();
    let mut out = format!("{{\n  \"schema_version\": {SCHEMA_VERSION},\n  \"functions\": [");
    if !functions.is_empty() {
        out.push('\n');
        out.push_str(&functions.join(",\n"));
        out.push_str("\n  ");
    }
    out.push_str("]\n}\n");
    out
}

fn function_json(function: &Function) -> String {
    let mut keys = vec![format!("      \"name\": {}", entry(&function.name))];
    if let Some(export) = &function.export {
        keys.push(format!("      \"export\": {}", entry(export)));
    }
    keys.push(list_json("inputs", &function.inputs));
    keys.push(list_json("states", &function.states));
    keys.push(list_json("outputs", &function.outputs));
    format!("    {{\n{}\n    }}", keys.join(",\n"))
}

fn list_json<T: Serialize>(key: &str, entries: &[T]) -> String {
    if entries.is_empty() {
        return format!("      \"{key}\": []");
    }
    let lines: Vec<String> = entries
        .iter()
        .map(|e| format!("        {}", entry(e)))
        .collect();
    format!("      \"{key}\": [\n{}\n      ]", lines.join(",\n"))
}

/// One value on one line, with a space after each comma and colon.
fn entry(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, OneLine);
    // Neither a memory buffer nor the contract's own types (string keys, no maps) can fail here; were
    // they to, the text would be cut short and `parse` would refuse it.
    let _ = value.serialize(&mut serializer);
    String::from_utf8_lossy(&bytes).into_owned()
}

struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            w.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            w.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

/// A shape as people write it: `[2, 1, ?, 8]`, where `?` is a dynamic extent.
pub fn shape(shape: &[Dim]) -> String {
    let extents: Vec<String> = shape
        .iter()
        .map(|d| d.map_or_else(|| "?".to_owned(), |n| n.to_string()))
        .collect();
    format!("[{}]", extents.join(", "))
}

/// The contract as a table, one line a port with its position.
///
/// ```text
/// main: 1 input, 1 state, 1 output; exported without strict
///   input  0  x          float32  [1, ?]                       = argument x
///   state  0  key_cache  float16  [2, 1, ?, 8]  read-write  = buffer layers.k
///   output 0  y          float32  [1, ?]
/// ```
pub fn human(contract: &Contract) -> String {
    if contract.functions.is_empty() {
        return "no functions\n".to_owned();
    }
    let functions: Vec<String> = contract.functions.iter().map(function_human).collect();
    functions.join("\n")
}

fn function_human(function: &Function) -> String {
    let mut head = format!(
        "{}: {}, {}, {}",
        text::name(&function.name),
        text::count(function.inputs.len(), "input"),
        text::count(function.states.len(), "state"),
        text::count(function.outputs.len(), "output"),
    );
    if let Some(export) = function.export {
        head.push_str(if export.strict {
            "; exported with strict"
        } else {
            "; exported without strict"
        });
    }
    let mut rows: Vec<[String; 6]> = Vec::new();
    rows.extend(
        function
            .inputs
            .iter()
            .enumerate()
            .map(|(i, p)| port_row("input", i, p)),
    );
    rows.extend(
        function
            .states
            .iter()
            .enumerate()
            .map(|(i, s)| state_row(i, s)),
    );
    rows.extend(
        function
            .outputs
            .iter()
            .enumerate()
            .map(|(i, p)| port_row("output", i, p)),
    );
    let mut out = head + "\n";
    let widths: Vec<usize> = (0..6)
        .map(|column| {
            rows.iter()
                .map(|row| width(&row[column]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let mut line = String::from(" ");
        for (cell, &width_wanted) in row.iter().zip(&widths) {
            if width_wanted > 0 {
                line.push(' ');
                line.push_str(cell);
                line.push_str(&" ".repeat(width_wanted - width(cell) + 1));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn width(cell: &str) -> usize {
    console::measure_text_width(cell)
}

fn port_row(what: &str, position: usize, port: &Port) -> [String; 6] {
    [
        format!("{what:<6} {position}"),
        text::name(&port.name).into_owned(),
        text::line(&port.dtype).into_owned(),
        shape(&port.shape),
        String::new(),
        source_cell(port.source.as_ref(), &port.dtype),
    ]
}

fn state_row(position: usize, state: &State) -> [String; 6] {
    [
        format!("{:<6} {position}", "state"),
        text::name(&state.name).into_owned(),
        text::line(&state.dtype).into_owned(),
        shape(&state.shape),
        state.access.to_string(),
        source_cell(state.source.as_ref(), &state.dtype),
    ]
}

/// `= buffer layers.k`, with the dtype in torch where it is another one, and the aliases.
fn source_cell(source: Option<&Source>, dtype: &str) -> String {
    let Some(source) = source else {
        return String::new();
    };
    let mut cell = format!("= {} {}", source.kind.as_str(), text::name(&source.name));
    let mut remarks = Vec::new();
    if source.dtype != dtype {
        remarks.push(format!("{} in torch", text::line(&source.dtype)));
    }
    if !source.aliases.is_empty() {
        let aliases: Vec<_> = source.aliases.iter().map(|a| text::name(a)).collect();
        remarks.push(format!("also {}", text::list(&aliases)));
    }
    if !remarks.is_empty() {
        cell.push_str(&format!(" ({})", remarks.join("; ")));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::sample;

    #[test]
    fn json_has_one_entry_a_line() {
        insta::assert_snapshot!(json(&sample()));
    }

    #[test]
    fn json_of_nothing() {
        assert_eq!(
            json(&Contract::default()),
            "{\n  \"schema_version\": 1,\n  \"functions\": []\n}\n"
        );
    }

    #[test]
    fn a_table_with_positions_and_sources() {
        insta::assert_snapshot!(human(&sample()));
        assert_eq!(human(&Contract::default()), "no functions\n");
    }

    #[test]
    fn shapes_as_people_write_them() {
        assert_eq!(shape(&[]), "[]");
        assert_eq!(shape(&[Some(2), None]), "[2, ?]");
    }
}
