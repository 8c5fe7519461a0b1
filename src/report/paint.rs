//! Colour, decided once per stream.

use console::Style;
use std::fmt::Display;

/// Colours text, or leaves it alone.
///
/// The decision is a value, not a global: standard output may be a pipe while standard error is a
/// terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// Whether ANSI styles are written.
    pub color: bool,
}

impl Paint {
    /// No colour.
    pub const PLAIN: Paint = Paint { color: false };

    /// Paint with or without colour.
    pub fn new(color: bool) -> Self {
        Paint { color }
    }

    fn apply<'a>(self, style: Style, text: impl Display + 'a) -> impl Display + 'a {
        style.force_styling(self.color).apply_to(text)
    }

    /// What stands out without being good or bad.
    pub fn bold<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().bold(), text)
    }

    /// What may be skipped.
    pub fn dim<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().dim(), text)
    }

    /// Bad, or removed.
    pub fn red<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().red(), text)
    }

    /// Bad, and the first thing to read.
    pub fn alarm<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().red().bold(), text)
    }

    /// Good, or added.
    pub fn green<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().green(), text)
    }

    /// Worth a look.
    pub fn yellow<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().yellow().bold(), text)
    }

    /// Names, commands and hints.
    pub fn cyan<'a>(self, text: impl Display + 'a) -> impl Display + 'a {
        self.apply(Style::new().cyan(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_written_only_when_asked_for() {
        assert_eq!(Paint::PLAIN.red("x").to_string(), "x");
        assert_eq!(
            Paint::new(true).red("x").to_string(),
            "\u{1b}[31mx\u{1b}[0m"
        );
    }
}
