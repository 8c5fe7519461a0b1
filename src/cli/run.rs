//! `coreai-audit run`: executes a function of an asset.

mod report;

use super::steps::Steps;
use super::{Context, Exit, Failure, Format, FormatArg};
use crate::runtime::files::{self, Tensors};
use crate::runtime::generate::{self, Numbers, Step};
use crate::runtime::{Class, DType, Function, Model, Port, RunError, Tensor};
use crate::text;
use report::{Report, Timing};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Execute a function of an asset on this machine
///
/// Inputs come from a file, or are made up: token ids and floats from a seed, positions by counting.
/// States start at zero or come from a file, and are carried from step to step. The time of each step
/// is measured; one that grows from step to step is the first symptom of a model that keeps no states.
///
/// In a file, NAME is the value for every step and N/NAME the one for step N (from 0). bfloat16 may be
/// stored as uint16 and 8-bit floats as uint8 bit patterns.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    coreai-audit run decoder.aimodel\n  \
    coreai-audit run --steps 32 --prompt 16 decoder.aimodel\n  \
    coreai-audit run --inputs calls.npz --states start.safetensors --save out.safetensors decoder.aimodel\n  \
    coreai-audit run --steps 64 --format json decoder.aimodel | jq .slope_ms_per_step\n\n\
    Exit codes: 0 every step ran; 2 the asset or a step could not be run.")]
pub struct Args {
    /// The directory of an asset
    #[arg(value_name = "ASSET")]
    asset: PathBuf,

    /// Which function to run; needed only where there are several
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Inputs from a .safetensors or .npz file; what is not in it is made up
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,

    /// Initial states from a .safetensors or .npz file; zeros without
    #[arg(long, value_name = "FILE")]
    states: Option<PathBuf>,

    /// How many steps to run; as many as the --inputs have, or 1, without
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,

    /// Tokens of the first step, where the extent is free; every other step has one
    #[arg(long, value_name = "TOKENS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    prompt: u32,

    /// Extent of free dimensions of states
    #[arg(long, value_name = "ROWS", default_value_t = 128)]
    capacity: u32,

    /// Made-up ids are below this
    #[arg(long, value_name = "IDS", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..))]
    vocabulary: u32,

    /// Seed of made-up values
    #[arg(long, value_name = "SEED", default_value_t = 0, display_order = 100, allow_negative_numbers = true,
        value_parser = seed)]
    seed: u64,

    /// Threads for large products
    #[arg(long, value_name = "N", default_value_t = 1, display_order = 101,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Write every output (N/NAME) and the final states (state/NAME) to a .safetensors file
    #[arg(long, value_name = "FILE", display_order = 102)]
    save: Option<PathBuf>,

    #[command(flatten)]
    format: FormatArg,
}

fn seed(word: &str) -> Result<u64, String> {
    let range = || format!("expected a whole number from 0 to {}", u64::MAX);
    word.parse().map_err(|_| range())
}

impl Args {
    pub(super) fn run(self, context: &mut Context<'_>) -> Result<Exit, Failure> {
        if let Some(save) = &self.save {
            named_rightly(save)?;
        }
        let start = Instant::now();
        let model = Model::load(&self.asset)?.with_threads(usize::from(self.threads))?;
        if let Some(save) = &self.save {
            outside(save, &self.asset)?;
        }
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        let function = self.function(&model)?;
        let given = self.given(&function)?;
        let steps = match self.steps {
            Some(steps) => steps,
            None => steps_of(&given, &function).map_err(|e| match &self.inputs {
                Some(path) => format!("{}: {e}", path.display()),
                None => e,
            })?,
        };
        let mut states = self.states(&function)?;
        let mut numbers = Numbers::seeded(self.seed);
        let mut saved: Vec<(String, Tensor)> = Vec::new();
        let mut times = Vec::new();
        let mut last = Vec::new();
        let mut past = 0;
        let mut progress = Steps::new(u64::from(steps), "steps", std::io::stderr().is_terminal());
        for i in 0..steps {
            let length = if i == 0 { self.prompt as usize } else { 1 };
            let step = self.step(past, length);
            let inputs = self.inputs(&function, &given, i, step, &mut numbers)?;
            let inputs: Vec<(&str, &Tensor)> =
                inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
            let mut bound: Vec<(&str, &mut Tensor)> =
                states.iter_mut().map(|(n, t)| (n.as_str(), t)).collect();
            let start = Instant::now();
            last = function
                .run(&inputs, &mut bound, &mut [])
                .map_err(|error| {
                    match (self.hint(&function, &given, (i, &inputs), &error), steps) {
                        (None, 1) => error.into(),
                        (Some(hint), 1) => Failure::from(format!("{error}; {hint}")),
                        (None, _) => format!("step {i} (from 0): {error}").into(),
                        (Some(hint), _) => format!("step {i} (from 0): {error}; {hint}").into(),
                    }
                })?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if self.save.is_some() {
                saved.extend(last.iter().map(|(n, t)| (format!("{i}/{n}"), t.clone())));
            }
            past += length;
            progress.tick();
        }
        drop(progress);
        if let Some(path) = &self.save {
            saved.extend(
                states
                    .iter()
                    .map(|(n, t)| (format!("state/{n}"), t.clone())),
            );
            let tensors: Vec<(String, &Tensor)> =
                saved.iter().map(|(n, t)| (n.clone(), t)).collect();
            files::write(path, &tensors)?;
        }
        let report = Report::new(
            &self.asset,
            function.name(),
            Timing {
                load_ms,
                times,
                peak_memory: peak_memory(),
            },
            &last,
            &states,
        );
        match self.format.format {
            Format::Human => report.human(&mut context.out)?,
            Format::Json => report.json(&mut context.out)?,
        }
        Ok(Exit::Good)
    }

    /// What to do about an error for which a value that was made up may be to blame.
    fn hint(
        &self,
        function: &Function,
        given: &Tensors,
        (i, inputs): (u32, &[(&str, &Tensor)]),
        error: &RunError,
    ) -> Option<String> {
        // Whether a made-up input of this kind holds the number.
        let made_up = |positions: bool, number: u64| {
            let ports = function.inputs().iter().zip(inputs);
            let mut ports = ports.filter(|(p, _)| {
                matches!(p.dtype.class(), Class::Int { .. })
                    && generate::is_position(&p.name) == positions
                    && !given.contains_key(&p.name)
                    && !given.contains_key(&format!("{i}/{}", p.name))
            });
            ports.any(|(_, (_, t))| t.reals().is_some_and(|v| v.contains(&(number as f64))))
        };
        let RunError::Op { what, .. } = error else {
            return None;
        };
        let (index, extent) = outside_of(what)?;
        // The first position that is too large is the extent itself.
        if index == extent && made_up(true, index) {
            return Some(self.beyond(function, extent));
        }
        made_up(false, index).then(|| {
            format!(
                "ids are made up below {}: give the number the model knows with --vocabulary",
                self.vocabulary
            )
        })
    }

    /// What to do where positions that were made up have left a dimension of this extent.
    fn beyond(&self, function: &Function, extent: u64) -> String {
        let free = |p: &Port| p.shape.contains(&None);
        let larger = match function.states().iter().any(free) {
            true if u64::from(self.capacity) == extent => ", or more rows with --capacity",
            _ => "",
        };
        format!(
            "positions are made up by counting and have reached {extent}, beyond the capacity: give fewer --steps or a \
             shorter --prompt{larger}"
        )
    }

    fn step(&self, past: usize, length: usize) -> Step {
        Step {
            past,
            length,
            capacity: self.capacity as usize,
            vocabulary: u64::from(self.vocabulary),
        }
    }

    fn function(&self, model: &Model) -> Result<Function, Failure> {
        if let Some(name) = &self.function {
            return Ok(model.function(name)?);
        }
        match model.function_names().as_slice() {
            [only] => Ok(model.function(only)?),
            names if names.contains(&"main") => Ok(model.function("main")?),
            [] => Err(format!("{}: the asset has no function", self.asset.display()).into()),
            names => Err(format!(
                "{}: the asset has several functions; choose one with --function: {}",
                self.asset.display(),
                names.join(", ")
            )
            .into()),
        }
    }

    /// The inputs of the file. An entry that no port, or no step, asks for is a mistake worth telling.
    fn given(&self, function: &Function) -> Result<Tensors, Failure> {
        let Some(path) = &self.inputs else {
            return Ok(Tensors::new());
        };
        let fits = |entry: &str, dtype: DType, shape: &[usize]| {
            let (step, found) = entry_of(function, entry).ok_or_else(|| {
                format!("{} has no input of this name", text::name(function.name()))
            })?;
            if let Some((n, steps)) = step.zip(self.steps).filter(|(n, steps)| n >= steps) {
                let run = match steps {
                    1 => " 0 alone".into(),
                    _ => format!("s 0 to {}", steps - 1),
                };
                return Err(format!(
                    "there is no step {n}: --steps {steps} runs step{run}; give --steps {} or more, or leave this entry out",
                    u64::from(n) + 1,
                ));
            }
            files::fits_port(found, dtype, shape)
        };
        Ok(files::read(path, &fits)?)
    }

    fn states(&self, function: &Function) -> Result<Vec<(String, Tensor)>, Failure> {
        let mut given = match &self.states {
            None => Tensors::new(),
            Some(path) => files::read(path, &|entry, dtype, shape| {
                let named = |name: &str| function.states().iter().find(|p| p.name == name);
                match named(entry).or_else(|| named(entry.strip_prefix("state/")?)) {
                    Some(port) => files::fits_port(port, dtype, shape),
                    // What --save has written holds outputs, too.
                    None if is_output(function, entry) => Ok(()),
                    None => Err(format!(
                        "{} has no state of this name",
                        text::name(function.name())
                    )),
                }
            })?,
        };
        let mut states = Vec::new();
        for port in function.states() {
            let stored = format!("state/{}", port.name);
            let value = match (given.remove(&port.name), given.remove(&stored)) {
                (Some(_), Some(_)) => {
                    let name = text::name(&port.name);
                    return Err(format!(
                        "two values for the state {name}: {name} and state/{name}"
                    )
                    .into());
                }
                (Some(t), None) | (None, Some(t)) => files::as_port(t, port.dtype),
                (None, None) => generate::state(port, self.step(0, 1))?,
            };
            states.push((port.name.clone(), value));
        }
        Ok(states)
    }

    fn inputs(
        &self,
        function: &Function,
        given: &Tensors,
        i: u32,
        step: Step,
        numbers: &mut Numbers,
    ) -> Result<Vec<(String, Tensor)>, Failure> {
        let one = |port: &Port, numbers: &mut Numbers| -> Result<Tensor, Failure> {
            let own = given.get(&format!("{i}/{}", port.name));
            match own.or_else(|| given.get(&port.name)) {
                Some(t) => Ok(files::as_port(t.clone(), port.dtype)),
                None => Ok(generate::input(port, step, numbers)?),
            }
        };
        let ports = function.inputs().iter();
        ports
            .map(|p| Ok((p.name.clone(), one(p, numbers)?)))
            .collect()
    }
}

/// The port an entry of a file of inputs is for, and the step, where it is for one alone. A name with a slash
/// is a port's own before it is a step's.
fn entry_of<'f>(function: &'f Function, entry: &str) -> Option<(Option<u32>, &'f Port)> {
    let port = |name: &str| function.inputs().iter().find(|p| p.name == name);
    if let Some(found) = port(entry) {
        return Some((None, found));
    }
    let (step, name) = entry.split_once('/')?;
    let n = step.parse().ok().filter(|n: &u32| n.to_string() == step)?;
    Some((Some(n), port(name)?))
}

/// How many steps the inputs of a file are for; where some are left out, a number in a file is no order to run
/// as many.
fn steps_of(given: &Tensors, function: &Function) -> Result<u32, String> {
    let steps = given
        .keys()
        .filter_map(|entry| entry_of(function, entry)?.0);
    let steps: BTreeSet<u32> = steps.collect();
    let Some(last) = steps.last().copied() else {
        return Ok(1);
    };
    if u64::from(last) + 1 == steps.len() as u64 {
        return Ok(last.saturating_add(1));
    }
    Err(format!(
        "the inputs are for step {last} (from 0) and {} before it, not for all: say with --steps how many to run",
        steps.len() - 1
    ))
}

/// The index and the extent of which an op says that they do not go together.
fn outside_of(what: &str) -> Option<(u64, u64)> {
    let (_, what) = what.split_once("index ")?;
    let (index, extent) = what.split_once(" is outside a dimension of ")?;
    Some((index.parse().ok()?, extent.parse().ok()?))
}

/// Refuses, before anything runs, a name under which what is written would not be read again.
fn named_rightly(save: &Path) -> Result<(), Failure> {
    if save.extension().is_some_and(|e| e == "safetensors") {
        return Ok(());
    }
    let what = "safetensors are written here; give it a name that ends in .safetensors";
    Err(format!("{}: {what}", save.display()).into())
}

/// Refuses to write into the asset that is run.
fn outside(save: &Path, asset: &Path) -> Result<(), Failure> {
    let folder = match save.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (Ok(folder), Ok(asset)) = (folder.canonicalize(), asset.canonicalize()) else {
        return Ok(());
    };
    if folder.starts_with(&asset) {
        return Err(format!("{}: lies inside the asset that is run", save.display()).into());
    }
    Ok(())
}

/// Whether `--save` calls an output so: the step and its name.
fn is_output(function: &Function, entry: &str) -> bool {
    entry.split_once('/').is_some_and(|(step, name)| {
        step.parse::<u32>().is_ok() && function.outputs().iter().any(|p| p.name == name)
    })
}

/// The most memory this process has had at a time, in bytes, mapped weights that were touched included;
/// `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
