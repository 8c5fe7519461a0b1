//! Tokens of printed IR, read on demand so that the parser can switch to dimension lists.

use super::ParseError;

/// One token. Text is borrowed from the source; strings stay escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tok<'a> {
    /// `coreai.graph`, `dense`, `f32`.
    Ident(&'a str),
    /// `%arg0`, without `%`.
    Percent(&'a str),
    /// `@name` or `@"na me"`: the text without `@` and quotes, and whether it was quoted.
    At(&'a str, bool),
    /// `^bb0`, without `^`.
    Caret(&'a str),
    /// `#coreai.fourcc`, `#0`, without `#`.
    Hash(&'a str),
    /// `!coreai.token`, without `!`.
    Bang(&'a str),
    /// A string between quotes, escapes not yet undone.
    Str(&'a str),
    /// `12`, `0xFF`.
    Int(&'a str),
    /// `1.5e-3`.
    Float(&'a str),
    /// `->`.
    Arrow,
    /// `::`.
    ColonColon,
    /// `{-#`.
    MetaOpen,
    /// `#-}`.
    MetaClose,
    /// One of `( ) { } [ ] < > , : = - ? * + /`.
    Punct(u8),
    /// End of the text.
    Eof,
}

/// Reads tokens from `src`, starting anywhere.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    pub(super) src: &'a str,
}

fn is_ident_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

fn is_ident(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

impl<'a> Lexer<'a> {
    /// The token at or after `pos`, with the range it takes.
    pub(super) fn token(&self, pos: usize) -> Result<(Tok<'a>, usize, usize), Box<ParseError>> {
        let bytes = self.src.as_bytes();
        let start = self.skip_blank(pos);
        let Some(&b) = bytes.get(start) else {
            return Ok((Tok::Eof, bytes.len(), bytes.len()));
        };
        let rest = &self.src[start..];
        let (tok, len) = match b {
            b'-' if rest.starts_with("->") => (Tok::Arrow, 2),
            b':' if rest.starts_with("::") => (Tok::ColonColon, 2),
            b'{' if rest.starts_with("{-#") => (Tok::MetaOpen, 3),
            b'#' if rest.starts_with("#-}") => (Tok::MetaClose, 3),
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b':' | b'=' | b'-'
            | b'?' | b'*' | b'+' | b'/' => (Tok::Punct(b), 1),
            b'"' => {
                let inner = self.string(start)?;
                (Tok::Str(inner), inner.len() + 2)
            }
            b'%' => self.prefixed(start, Tok::Percent)?,
            b'^' => self.prefixed(start, Tok::Caret)?,
            b'#' => self.prefixed(start, Tok::Hash)?,
            b'!' => self.prefixed(start, Tok::Bang)?,
            b'@' if bytes.get(start + 1) == Some(&b'"') => {
                let inner = self.string(start + 1)?;
                (Tok::At(inner, true), inner.len() + 3)
            }
            b'@' => self.prefixed(start, |s| Tok::At(s, false))?,
            b if b.is_ascii_digit() => number(rest),
            b if is_ident_start(b) => {
                let len = rest.bytes().take_while(|b| is_ident(*b)).count();
                (Tok::Ident(&rest[..len]), len)
            }
            _ => {
                let found = rest
                    .chars()
                    .next()
                    .map_or(String::new(), |c| format!("`{}`", c.escape_debug()));
                return Err(ParseError::at(
                    self.src,
                    start,
                    "a token of printed IR",
                    found,
                ));
            }
        };
        Ok((tok, start, start + len))
    }

    fn skip_blank(&self, mut pos: usize) -> usize {
        let bytes = self.src.as_bytes();
        loop {
            while bytes.get(pos).is_some_and(u8::is_ascii_whitespace) {
                pos += 1;
            }
            if bytes.get(pos) == Some(&b'/') && bytes.get(pos + 1) == Some(&b'/') {
                while bytes.get(pos).is_some_and(|b| *b != b'\n') {
                    pos += 1;
                }
            } else {
                return pos.min(bytes.len());
            }
        }
    }

    /// The text between the quotes of the string that starts at `start`.
    fn string(&self, start: usize) -> Result<&'a str, Box<ParseError>> {
        let bytes = self.src.as_bytes();
        let mut i = start + 1;
        while let Some(&b) = bytes.get(i) {
            match b {
                b'"' => return Ok(&self.src[start + 1..i]),
                b'\\' => i += 2,
                b'\n' => break,
                _ => i += 1,
            }
        }
        Err(ParseError::at(
            self.src,
            start,
            "a closing `\"` on the same line",
            "the end of the line",
        ))
    }

    fn prefixed(
        &self,
        start: usize,
        make: impl Fn(&'a str) -> Tok<'a>,
    ) -> Result<(Tok<'a>, usize), Box<ParseError>> {
        let rest = &self.src[start + 1..];
        let len = rest
            .bytes()
            .take_while(|b| is_ident(*b) || *b == b'-')
            .count();
        // A dash belongs to a name only inside it: `%0-> ` is a value and an arrow.
        let len = rest[..len].find("->").unwrap_or(len);
        if len == 0 {
            let prefix = &self.src[start..=start];
            return Err(ParseError::at(
                self.src,
                start,
                &format!("a name after `{prefix}`"),
                "none",
            ));
        }
        Ok((make(&rest[..len]), len + 1))
    }
}

fn number(rest: &str) -> (Tok<'_>, usize) {
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    if rest.starts_with("0x") {
        let hex = bytes[2..]
            .iter()
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        if hex > 0 {
            return (Tok::Int(&rest[..2 + hex]), 2 + hex);
        }
    }
    let whole = digits(0);
    if bytes.get(whole) != Some(&b'.') {
        return (Tok::Int(&rest[..whole]), whole);
    }
    let mut len = whole + 1 + digits(whole + 1);
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits((len + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    (Tok::Float(&rest[..len]), len)
}
