//! The parser's state and what every level needs: tokens, names, aliases, locations.

use std::collections::HashMap;
use std::sync::Arc;

use super::lexer::{Lexer, Tok};
use super::ops::Builder;
use super::ParseError;
use crate::ir::attr::Attr;
use crate::ir::graph::{Location, Module};
use crate::ir::types::{SymbolPath, Type};

pub(super) type PResult<T> = Result<T, Box<ParseError>>;

/// Types, attributes and regions may nest this deep.
const MAX_DEPTH: usize = 64;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The current token and where it starts and ends.
    pub(super) tok: Tok<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where the token before ended.
    pub(super) last: usize,
    depth: usize,
    /// Types and attributes made so far, those copied from aliases included; of an alias's text, sixteen
    /// characters count as one more.
    pub(super) nodes: usize,
    pub(super) attr_aliases: HashMap<&'a str, (Attr, usize)>,
    pub(super) type_aliases: HashMap<&'a str, (Type, usize)>,
    pub(super) locations: HashMap<&'a str, &'a str>,
    pub(super) namespaces: Vec<String>,
    pub(super) module: Module,
    pub(super) other: Builder<'a>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(src: &'a str) -> PResult<Parser<'a>> {
        let lexer = Lexer { src };
        let (tok, start, end) = lexer.token(0)?;
        Ok(Parser {
            lexer,
            tok,
            start,
            end,
            last: 0,
            depth: 0,
            nodes: 0,
            attr_aliases: HashMap::new(),
            type_aliases: HashMap::new(),
            locations: HashMap::new(),
            namespaces: Vec::new(),
            module: Module::default(),
            other: Builder::new(),
        })
    }

    // --- tokens -------------------------------------------------------------------------------

    pub(super) fn advance(&mut self) -> PResult<Tok<'a>> {
        let old = self.tok;
        self.last = self.end;
        (self.tok, self.start, self.end) = self.lexer.token(self.end)?;
        Ok(old)
    }

    /// Continues at a position of the source.
    pub(super) fn jump(&mut self, pos: usize) -> PResult<()> {
        self.last = pos;
        (self.tok, self.start, self.end) = self.lexer.token(pos)?;
        Ok(())
    }

    pub(super) fn src(&self) -> &'a str {
        self.lexer.src
    }

    pub(super) fn is(&self, punct: u8) -> bool {
        self.tok == Tok::Punct(punct)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.tok == Tok::Ident(word)
    }

    /// Takes the punctuation if it is there.
    pub(super) fn eat(&mut self, punct: u8) -> PResult<bool> {
        let there = self.is(punct);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(super) fn eat_word(&mut self, word: &str) -> PResult<bool> {
        let there = self.is_word(word);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(super) fn expect(&mut self, punct: u8) -> PResult<()> {
        if self.eat(punct)? {
            Ok(())
        } else {
            Err(self.wanted(&format!("`{}`", punct as char)))
        }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> PResult<()> {
        if self.eat_word(word)? {
            Ok(())
        } else {
            Err(self.wanted(&format!("`{word}`")))
        }
    }

    /// An error at the current token.
    pub(super) fn wanted(&self, expected: &str) -> Box<ParseError> {
        let found = match self.tok {
            Tok::Eof => "the end of the text".to_string(),
            _ => {
                let text = &self.src()[self.start..self.end];
                let cut: String = text.chars().take(40).collect();
                if cut.len() < text.len() {
                    format!("`{cut}…`")
                } else {
                    format!("`{cut}`")
                }
            }
        };
        self.error(self.start, expected, found)
    }

    pub(super) fn error(
        &self,
        pos: usize,
        expected: &str,
        found: impl Into<String>,
    ) -> Box<ParseError> {
        ParseError::at(self.src(), pos, expected, found)
    }

    /// Runs `f` one level deeper.
    pub(super) fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> PResult<T>) -> PResult<T> {
        if self.depth >= MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} levels of nesting");
            return Err(self.error(self.start, &expected, "more"));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Items separated by commas up to `close`, which is taken.
    pub(super) fn list<T>(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> PResult<T>,
    ) -> PResult<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close)? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(b',')? {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Passes over a bracketed run that starts at the current opening bracket.
    pub(super) fn skip_balanced(&mut self) -> PResult<()> {
        let mut open = Vec::new();
        let from = self.start;
        loop {
            match self.tok {
                Tok::Punct(b'(') => open.push(b')'),
                Tok::Punct(b'[') => open.push(b']'),
                Tok::Punct(b'{') => open.push(b'}'),
                Tok::Punct(b'<') => open.push(b'>'),
                Tok::Punct(p @ (b')' | b']' | b'}' | b'>')) if open.pop() != Some(p) => {
                    return Err(self.wanted("brackets in pairs"));
                }
                Tok::Eof => {
                    return Err(self.error(from, "a closing bracket", "the end of the text"))
                }
                _ => {}
            }
            self.advance()?;
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn count_node(&mut self, n: usize) -> PResult<()> {
        self.nodes = self.nodes.saturating_add(n);
        // Every node of a text without aliases takes at least one character.
        if self.nodes > self.src().len().saturating_mul(2).saturating_add(1 << 20) {
            return Err(self.wanted("aliases that expand to less"));
        }
        Ok(())
    }

    pub(super) fn attr_alias(&mut self, name: &'a str) -> PResult<Attr> {
        match self.attr_aliases.get(name) {
            Some((attr, weight)) => {
                let (attr, weight) = (attr.clone(), *weight);
                self.count_node(weight)?;
                Ok(attr)
            }
            None => Err(self.wanted("an attribute, or an alias defined above")),
        }
    }

    pub(super) fn type_alias(&mut self, name: &'a str) -> PResult<Type> {
        match self.type_aliases.get(name) {
            Some((ty, weight)) => {
                let (ty, weight) = (ty.clone(), *weight);
                self.count_node(weight)?;
                Ok(ty)
            }
            None => Err(self.wanted("a type, or an alias defined above")),
        }
    }

    // --- names --------------------------------------------------------------------------------

    /// Undoes the escapes of a string token.
    pub(super) fn unescape(&self, raw: &str) -> PResult<String> {
        if !raw.contains('\\') {
            return Ok(raw.to_string());
        }
        let mut out = Vec::with_capacity(raw.len());
        let mut bytes = raw.bytes();
        while let Some(b) = bytes.next() {
            if b != b'\\' {
                out.push(b);
                continue;
            }
            match bytes.next() {
                Some(c @ (b'"' | b'\\')) => out.push(c),
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(high) => {
                    let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
                    let low = bytes.next();
                    match (hex(high), low.and_then(hex)) {
                        (Some(h), Some(l)) => out.push(h << 4 | l),
                        _ => {
                            return Err(self.error(
                                self.start,
                                "an escape `\\\"`, `\\\\`, `\\n`, `\\t` or `\\HH`",
                                "another",
                            ))
                        }
                    }
                }
                None => return Err(self.wanted("a character after `\\`")),
            }
        }
        String::from_utf8(out)
            .map_err(|_| self.error(self.start, "a string in UTF-8", "other bytes"))
    }

    pub(super) fn string(&mut self) -> PResult<String> {
        let Tok::Str(raw) = self.tok else {
            return Err(self.wanted("a string"));
        };
        let text = self.unescape(raw)?;
        self.advance()?;
        Ok(text)
    }

    pub(super) fn symbol_name(&mut self) -> PResult<String> {
        let Tok::At(raw, quoted) = self.tok else {
            return Err(self.wanted("a symbol `@name`"));
        };
        let name = if quoted {
            self.unescape(raw)?
        } else {
            raw.to_string()
        };
        self.advance()?;
        Ok(name)
    }

    pub(super) fn symbol_path(&mut self) -> PResult<SymbolPath> {
        let mut path = vec![self.symbol_name()?];
        while self.tok == Tok::ColonColon {
            self.advance()?;
            path.push(self.symbol_name()?);
        }
        Ok(SymbolPath(path))
    }

    /// `loc(…)`, where there is one.
    pub(super) fn location(&mut self) -> PResult<Option<Location>> {
        if !self.is_word("loc") {
            return Ok(None);
        }
        self.advance()?;
        if !self.is(b'(') {
            return Err(self.wanted("`(`"));
        }
        let from = self.end;
        self.skip_balanced()?;
        let text = self.src()[from..self.last - 1].trim();
        Ok(Some(location(text)))
    }
}

/// A location from its text: the first `"file":line:column` in it counts.
pub(crate) fn location(text: &str) -> Location {
    let mut at = Location {
        text: Arc::from(text),
        ..Location::default()
    };
    let mut rest = text;
    while let Some(open) = rest.find('"') {
        rest = &rest[open + 1..];
        let Some(close) = rest.find('"') else { break };
        let (file, after) = (&rest[..close], &rest[close + 1..]);
        rest = after;
        let mut numbers = after
            .strip_prefix(':')
            .unwrap_or("")
            .splitn(3, ':')
            .map(|part| {
                let digits = part.bytes().take_while(u8::is_ascii_digit).count();
                part[..digits].parse::<u64>().ok()
            });
        if let (Some(Some(line)), Some(Some(column))) = (numbers.next(), numbers.next()) {
            if file != "-" {
                at.file = Some(Arc::from(file));
                (at.line, at.column) = (line, column);
                break;
            }
        }
    }
    at
}
