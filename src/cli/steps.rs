//! Progress of many equal steps.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// In a log, a sign of life is given this often.
const STILL_AT_IT: Duration = Duration::from_secs(30);

/// Tells on standard error how far a row of equal steps has come, once it takes a while.
pub(super) struct Steps {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: u64,
    done: u64,
    last_sign: Instant,
}

impl Steps {
    /// For `total` of `what` (a plural); `terminal` says whether standard error is one.
    pub(super) fn new(total: u64, what: &'static str, terminal: bool) -> Self {
        let bar = (terminal && total > 1).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = format!("{{wide_bar}} {{pos}}/{{len}} {what}, {{eta}} left");
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
            bar
        });
        Steps {
            bar,
            what,
            total,
            done: 0,
            last_sign: Instant::now(),
        }
    }

    /// One more is done.
    pub(super) fn tick(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if self.last_sign.elapsed() >= STILL_AT_IT && self.done < self.total {
            eprintln!("{} of {} {}", self.done, self.total, self.what);
            self.last_sign = Instant::now();
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
