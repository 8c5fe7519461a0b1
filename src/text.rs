//! Names from untrusted files, made safe to print.
//!
//! A port may be called anything: with spaces, quotes, line breaks or terminal escape sequences. A
//! report must show such a name so that it can be told from its neighbours, and must not let it move
//! the cursor or forge a line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The name as it stands where it is plainly readable, else quoted with escapes.
///
/// Plain are non-empty names of letters, digits and `_ . - / : [ ] ' $ @ #` (which covers argument
/// paths such as `cache['k']`).
pub fn name(raw: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "_.-/:[]'$@#".contains(c);
    if !raw.is_empty() && raw.chars().all(plain) {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(format!("\"{}\"", escape(raw, true)))
    }
}

/// The text on one line: control and invisible formatting characters escaped, all else unchanged.
pub fn line(raw: &str) -> Cow<'_, str> {
    if raw.chars().any(is_unprintable) {
        Cow::Owned(escape(raw, false))
    } else {
        Cow::Borrowed(raw)
    }
}

fn escape(raw: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(raw.len() + 2);
    for c in raw.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\\' if quoted => {
                out.push('\\');
                out.push(c);
            }
            c if is_unprintable(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Control characters, and the marks that reorder, hide or break the text around them.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `1 state`, `2 states`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [init @ .., last] => {
            let init: Vec<&str> = init.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", init.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stand_as_they_are() {
        for plain in ["key_cache", "layers.0.k", "cache['k']", "größe", "a-b"] {
            assert_eq!(name(plain), plain);
        }
    }

    #[test]
    fn names_that_could_mislead_are_quoted_and_escaped() {
        assert_eq!(name(""), r#""""#);
        assert_eq!(name("a b"), r#""a b""#);
        assert_eq!(name("say \"k\"\\"), r#""say \"k\"\\""#);
        assert_eq!(name("a\nb\u{1b}[31m"), r#""a\nb\u{1b}[31m""#);
        assert_eq!(name("a\u{202e}b"), r#""a\u{202e}b""#);
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(line("say \"hi\" \\o/"), "say \"hi\" \\o/");
        assert_eq!(line("a\r\nb\u{7}"), "a\\r\\nb\\u{7}");
    }

    #[test]
    fn lists_and_counts_read_as_sentences() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(count(1, "state"), "1 state");
        assert_eq!(count(0, "state"), "0 states");
    }
}
