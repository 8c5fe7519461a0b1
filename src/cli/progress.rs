//! Progress of long work: a moving line on a terminal, plain lines in a log.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::convert::{Progress, Step};

/// In a log, a stage is told of when it took at least this long.
const WORTH_A_LINE: Duration = Duration::from_millis(500);
/// In a log, a sign of life is given this often.
const STILL_AT_IT: Duration = Duration::from_secs(30);

/// Tells on standard error which stage of which model is running.
pub(super) struct Reporter {
    bar: Option<ProgressBar>,
    total: usize,
    /// `[1/5] name`
    head: String,
    model_began: Instant,
    step: Option<(Step, Instant)>,
    last_sign: Instant,
}

impl Reporter {
    /// For `total` models; `terminal` says whether standard error is one.
    pub(super) fn new(total: usize, terminal: bool) -> Self {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let now = Instant::now();
        Reporter {
            bar,
            total,
            head: String::new(),
            model_began: now,
            step: None,
            last_sign: now,
        }
    }

    /// The next model begins; `index` counts from 0.
    pub(super) fn begin(&mut self, index: usize, name: &str) {
        self.head = format!("[{}/{}] {}", index + 1, self.total, crate::text::name(name));
        self.model_began = Instant::now();
        self.step = None;
        if let Some(bar) = &self.bar {
            bar.reset_elapsed();
            bar.set_message(self.head.clone());
        }
    }

    /// The model is done; `word` says how it did.
    pub(super) fn end(&mut self, word: &str) {
        self.close_step();
        let line = format!(
            "{} {word} after {:.1} s",
            self.head,
            self.model_began.elapsed().as_secs_f64()
        );
        match &self.bar {
            Some(bar) => bar.set_message(line),
            None => eprintln!("{line}"),
        }
    }

    fn close_step(&mut self) {
        if let (Some((step, since)), None) = (self.step.take(), &self.bar) {
            if since.elapsed() >= WORTH_A_LINE {
                eprintln!(
                    "{} {step} {:.1} s",
                    self.head,
                    since.elapsed().as_secs_f64()
                );
            }
        }
    }
}

impl Progress for Reporter {
    fn step(&mut self, step: Step) {
        self.close_step();
        self.step = Some((step, Instant::now()));
        self.last_sign = Instant::now();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {step}", self.head));
        }
    }

    fn tick(&mut self) {
        if let (Some((step, since)), None) = (&self.step, &self.bar) {
            if self.last_sign.elapsed() >= STILL_AT_IT {
                eprintln!(
                    "{} still in {step}, {:.0} s",
                    self.head,
                    since.elapsed().as_secs_f64()
                );
                self.last_sign = Instant::now();
            }
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
