//! The reader of printed IR.
//!
//! The vendor prints a program in two forms: the *pretty* form, in which every op has a syntax of its
//! own, and the *generic* form, in which all ops look alike. Both are read into the same
//! [`Module`]; an op whose pretty syntax is not known is an error that asks for the generic form.

mod attrs;
mod dense;
mod lexer;
mod module;
mod ops;
mod parser;
mod types;

use super::graph::Module;

/// Why a text is not a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl ParseError {
    fn at(src: &str, pos: usize, expected: &str, found: impl Into<String>) -> Box<ParseError> {
        let before = &src.as_bytes()[..pos.min(src.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |i| i + 1);
        // Count characters, not bytes: continuation bytes do not start one.
        let column = 1 + before[start..]
            .iter()
            .filter(|b| **b & 0xc0 != 0x80)
            .count();
        Box::new(ParseError {
            line,
            column,
            expected: expected.to_string(),
            found: found.into(),
        })
    }
}

/// Reads a printed module, pretty or generic, with or without aliases, locations and resources.
///
/// # Errors
/// The first place that is not understood. Nesting deeper than 64 levels and aliases that expand to
/// far more than the text holds are refused.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    parser::Parser::new(text)
        .and_then(|mut p| p.module())
        .map_err(|e| *e)
}
