//! Progress of many cells at a time: a moving line on a terminal, plain lines in a log.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::convert::Step;
use crate::text;
use crate::upgrade::Watcher;

/// Tells on standard error what is going on.
pub(super) struct Watch {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    todo: usize,
    done: usize,
    /// What runs, by cell, with what it is doing.
    running: BTreeMap<String, String>,
    began: BTreeMap<String, Instant>,
}

impl Watch {
    /// `terminal` says whether standard error is one.
    pub(super) fn new(terminal: bool) -> Watch {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Watch {
            bar,
            state: Mutex::default(),
        }
    }

    fn with(&self, change: impl FnOnce(&mut State) -> Option<String>) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        let line = change(&mut state);
        match (&self.bar, line) {
            (None, Some(line)) => eprintln!("{line}"),
            (None, None) => {}
            (Some(bar), _) => {
                let running: Vec<String> = state
                    .running
                    .iter()
                    .map(|(cell, doing)| format!("{cell}: {doing}"))
                    .collect();
                bar.set_message(format!(
                    "[{}/{}] {}",
                    state.done,
                    state.todo,
                    running.join(" | ")
                ));
            }
        }
    }
}

fn cell(model: &str, environment: &str) -> String {
    format!("{} in {}", text::name(model), text::line(environment))
}

impl Watcher for Watch {
    fn making(&self, environment: &str) {
        let label = text::line(environment).into_owned();
        self.with(|state| {
            state.began.insert(label.clone(), Instant::now());
            state
                .running
                .insert(label.clone(), "being installed".to_owned());
            Some(format!("installing {label}"))
        });
    }

    fn made(&self, environment: &str, error: Option<&str>) {
        let label = text::line(environment).into_owned();
        self.with(|state| {
            state.running.remove(&label);
            let seconds = state
                .began
                .remove(&label)
                .map_or(0.0, |t| t.elapsed().as_secs_f64());
            Some(match error {
                None => format!("installed {label} after {seconds:.1} s"),
                Some(error) => format!("{label} cannot be installed: {}", text::line(error)),
            })
        });
    }

    fn cells(&self, todo: usize, known: usize) {
        self.with(|state| {
            state.todo = todo;
            let known = text::count(known, "result");
            (todo > 0).then(|| format!("{} to do, {known} known", text::count(todo, "conversion")))
        });
    }

    fn begin(&self, model: &str, environment: &str) {
        self.with(|state| {
            state
                .running
                .insert(cell(model, environment), String::new());
            None
        });
    }

    fn step(&self, model: &str, environment: &str, step: Step) {
        self.with(|state| {
            state
                .running
                .insert(cell(model, environment), step.to_string());
            None
        });
    }

    fn end(&self, model: &str, environment: &str, word: &str, seconds: f64) {
        let cell = cell(model, environment);
        self.with(|state| {
            state.running.remove(&cell);
            state.done += 1;
            Some(format!(
                "[{}/{}] {cell}: {word} after {seconds:.1} s",
                state.done, state.todo
            ))
        });
    }

    fn not_kept(&self, error: &std::io::Error) {
        let line = format!("warning: a result cannot be kept for the next run: {error}");
        self.with(|_| Some(line));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
