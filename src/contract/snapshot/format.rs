//! insta's snapshot format: a YAML header between `---` lines, then the text.
//!
//! The header is read line by line: what insta and this program write there is a flat list of scalars
//! and one nested list, `info`. A YAML library would accept aliases, anchors and block scalars that
//! have no business here, and would not say in which line a hand edit went wrong.

use super::SnapshotError;
use crate::contract::{self, Contract};

/// A contract with what is known about where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The model's name (insta's `expression`), if the header has it.
    pub model: Option<String>,
    /// Versions of what made it: torch, coreai-torch, coreai-core, this program. Never compared.
    pub info: Vec<(String, String)>,
    /// The contract.
    pub contract: Contract,
}

/// insta's `source` names the file an assertion stands in; here it is the program that wrote the file.
const SOURCE: &str = "coreai-audit";

impl Snapshot {
    /// The file's text, byte for byte as insta writes it.
    pub fn to_text(&self) -> String {
        let mut text = format!("---\nsource: {}\n", scalar(SOURCE));
        if let Some(model) = &self.model {
            text.push_str(&format!("expression: {}\n", scalar(model)));
        }
        if !self.info.is_empty() {
            text.push_str("info:\n");
            for (key, value) in &self.info {
                text.push_str(&format!("  {}: {}\n", scalar(key), scalar(value)));
            }
        }
        text.push_str("---\n");
        text.push_str(&contract::json(&self.contract));
        text
    }

    /// Reads a file's text; `origin` is its name for error messages.
    pub fn parse(text: &str, origin: &str) -> Result<Snapshot, SnapshotError> {
        let error = |line: usize, message: String| SnapshotError::Header {
            origin: origin.to_owned(),
            line,
            message,
        };
        if let Some(line) = conflict(text) {
            let message = "an unresolved merge conflict; expected the contract of one side";
            return Err(error(line, message.to_owned()));
        }
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        match lines.next() {
            Some((_, first)) if first.trim_end() == "---" => {}
            _ => {
                return Err(error(
                    1,
                    "expected `---`, the start of a snapshot's header".to_owned(),
                ))
            }
        }
        let mut header = Header::default();
        for (number, line) in lines.by_ref() {
            if line.trim_end() == "---" {
                // The rest of the text, found by counting lines, so that line numbers stay right.
                let body: usize = text.split_inclusive('\n').take(number).map(str::len).sum();
                let contract = contract::parse_from_line(&text[body..], origin, number + 1)?;
                return Ok(Snapshot {
                    model: header.model,
                    info: header.info,
                    contract,
                });
            }
            header
                .read(line)
                .map_err(|message| error(number, message))?;
        }
        let last = text.lines().count();
        Err(error(
            last,
            "the header has no end; expected `---` before the contract".to_owned(),
        ))
    }
}

/// The first line of a merge conflict.
fn conflict(text: &str) -> Option<usize> {
    let is_marker = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    text.lines().position(is_marker).map(|at| at + 1)
}

#[derive(Default)]
struct Header {
    model: Option<String>,
    info: Vec<(String, String)>,
    /// Whether indented lines belong to `info`.
    in_info: bool,
}

impl Header {
    /// Takes one line. Keys this program has no use for (insta has more) are read over.
    fn read(&mut self, line: &str) -> Result<(), String> {
        let indented = line.starts_with(' ');
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if indented && !self.in_info {
            return Err(format!(
                "expected a key at the start of the line, found `{}`",
                crate::text::line(line)
            ));
        }
        let (key, value) = split(line)?;
        if indented {
            self.info.push((key, value));
            return Ok(());
        }
        self.in_info = false;
        match key.as_str() {
            "info" if value.is_empty() => self.in_info = true,
            "info" if value == "~" || value == "{}" => {}
            "info" => {
                return Err(
                    "expected the entries of `info` on the following lines, indented".to_owned(),
                )
            }
            "expression" => self.model = Some(value),
            "snapshot_kind" if value != "text" => {
                return Err(format!(
                    "expected a snapshot of text, found one of kind {}",
                    crate::text::name(&value)
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

/// `key: value`, each plain or quoted.
fn split(line: &str) -> Result<(String, String), String> {
    let wrong = || format!("expected `key: value`, found `{}`", crate::text::line(line));
    let (key, rest) = match line.strip_prefix('"') {
        Some(_) => {
            let end = end_of_quoted(line).ok_or_else(wrong)?;
            (unquote(&line[..end])?, &line[end..])
        }
        None => {
            let end = line.find(':').ok_or_else(wrong)?;
            (line[..end].trim_end().to_owned(), &line[end..])
        }
    };
    let value = rest.strip_prefix(':').ok_or_else(wrong)?;
    if key.is_empty() || !(value.is_empty() || value.starts_with(' ')) {
        return Err(wrong());
    }
    Ok((key, unquote(value.trim())?))
}

/// The index after the closing quote of a text that starts with one.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A scalar without its quotes.
fn unquote(scalar: &str) -> Result<String, String> {
    let shown = || crate::text::line(scalar).into_owned();
    match scalar.chars().next() {
        Some('"') => serde_json::from_str(scalar)
            .map_err(|_| format!("expected a quoted text, found {}", shown())),
        Some('\'') => {
            let inner = scalar.strip_prefix('\'').and_then(|s| s.strip_suffix('\''));
            let inner = inner.filter(|s| !s.replace("''", "").contains('\''));
            inner
                .map(|s| s.replace("''", "'"))
                .ok_or_else(|| format!("expected a quoted text, found {}", shown()))
        }
        Some('[' | '&' | '*' | '|' | '>' | '!' | '%' | '@' | '`') => Err(format!(
            "expected a plain or a quoted text, found {}",
            shown()
        )),
        _ => Ok(scalar
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()),
    }
}

/// A scalar as insta writes it: plain where YAML would read it back as the same text, else quoted.
fn scalar(text: &str) -> String {
    let special_start = "&*?|-<>=!%@.";
    let special = ":{}[],#`\"'\\";
    let words = [
        "yes", "Yes", "YES", "no", "No", "NO", "True", "TRUE", "true", "False", "FALSE", "false",
        "on", "On", "ON", "off", "Off", "OFF", "null", "Null", "NULL", "~",
    ];
    let quoted = text.trim() != text
        || text.starts_with(|c| special_start.contains(c))
        || text.starts_with("0x")
        || text
            .chars()
            .any(|c| special.contains(c) || crate::text::is_unprintable(c))
        || text.is_empty()
        || words.contains(&text)
        || text.parse::<f64>().is_ok();
    if quoted {
        serde_json::Value::from(text)
            .to_string()
            .replace('\u{7f}', "\\u007f")
    } else {
        text.to_owned()
    }
}
