//! What a command may know about its surroundings, and where it writes.

use super::Color;
use crate::report::Paint;
use std::io::{self, IsTerminal, Write};

/// Streams and facts about the process, read once; commands look at nothing else.
pub struct Context<'a> {
    /// Results.
    pub out: Stream<'a>,
    /// Everything else meant for a person: progress, notes, errors.
    pub err: Stream<'a>,
    /// Whether a person can be asked: standard input and standard error are a terminal.
    pub interactive: bool,
    /// Whether this is an automated build (`CI` set to anything but an empty word, `0` or `false`).
    pub ci: bool,
}

impl Context<'_> {
    /// The surroundings of this process.
    pub fn of_process(color: Color) -> Context<'static> {
        let (out, err) = (io::stdout(), io::stderr());
        let plain_asked = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        let colored = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain_asked,
        };
        let (out_color, err_color) = (colored(out.is_terminal()), colored(err.is_terminal()));
        let interactive = io::stdin().is_terminal() && err.is_terminal();
        Context {
            out: Stream::new(out, Paint::new(out_color)),
            err: Stream::new(err, Paint::new(err_color)),
            interactive,
            ci: std::env::var("CI").is_ok_and(|v| is_ci(&v)),
        }
    }
}

fn is_ci(value: &str) -> bool {
    !matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "" | "0" | "false" | "no"
    )
}

/// A stream with its colours, which outlives its reader.
///
/// When the reader has gone (`coreai-audit … | head`), what is still written is dropped: the command
/// finishes and its exit code stays that of what it found.
pub struct Stream<'a> {
    sink: Box<dyn Write + 'a>,
    /// Colour or not.
    pub paint: Paint,
    closed: bool,
}

impl<'a> Stream<'a> {
    /// A stream over any writer.
    pub fn new(sink: impl Write + 'a, paint: Paint) -> Self {
        Stream {
            sink: Box::new(sink),
            paint,
            closed: false,
        }
    }

    fn unless_closed<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let result = self.sink.write(bytes);
        self.unless_closed(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let result = self.sink.flush();
        self.unless_closed(result, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let mut stream = Stream::new(Gone, Paint::PLAIN);
        assert!(writeln!(stream, "one").is_ok());
        assert!(stream.flush().is_ok());
    }

    #[test]
    fn ci_is_what_ci_systems_set() {
        for yes in ["true", "1", "woodpecker"] {
            assert!(is_ci(yes), "{yes}");
        }
        for no in ["", "0", "false", "False", "no"] {
            assert!(!is_ci(no), "{no:?}");
        }
    }
}
