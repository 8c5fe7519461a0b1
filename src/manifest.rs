//! The manifest: which models a project has, and what is accepted of them.
//!
//! `coreai-audit.toml`, or the table `[tool.coreai-audit]` of `pyproject.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::contract::Level;
use crate::report::IDS;

mod places;
#[cfg(test)]
mod tests;
mod upgrade;

use places::Places;
use upgrade::RawUpgrade;
pub use upgrade::Upgrade;

/// File names looked for, nearest folder first.
const FILES: [&str; 2] = ["coreai-audit.toml", "pyproject.toml"];
/// A manifest is written by hand; anything larger is something else.
const MOST_BYTES: u64 = 1 << 20;
/// A longer time is no limit, and more than the clock can add up.
const MOST_SECONDS: f64 = 1e9;

const TOP_KEYS: &[&str] = &[
    "python",
    "snapshots",
    "timeout",
    "max_memory",
    "level",
    "models",
    "upgrade",
];
const MODEL_KEYS: &[&str] = &[
    "recipe",
    "level",
    "allow",
    "steps",
    "atol",
    "rtol",
    "requirements",
];
/// More calls of an example than a reference trace can sensibly have.
const MOST_STEPS: u32 = 10_000;
const ALLOW_KEYS: &[&str] = &["id", "subject", "reason"];

/// A manifest, with paths made relative to the current folder.
#[derive(Debug)]
pub struct Manifest {
    /// The file it was read from.
    pub path: PathBuf,
    /// Interpreter or virtual environment that converts.
    pub python: Option<PathBuf>,
    /// Folder of the accepted contracts.
    pub snapshots: PathBuf,
    /// Longest time for one model, in seconds.
    pub timeout: Option<f64>,
    /// Most memory of a worker, in bytes.
    pub max_memory: Option<u64>,
    /// The models in file order.
    pub models: Vec<Model>,
    /// The environments that `upgrade` compares.
    pub upgrade: Upgrade,
}

/// One model of a manifest.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Its name; snapshots and reports go by it.
    pub name: String,
    /// The Python file of the recipe.
    pub file: PathBuf,
    /// The function in it.
    pub function: String,
    /// Which changes of the contract count.
    pub level: Level,
    /// Findings that are accepted, each with a reason.
    pub allow: Vec<Allow>,
    /// How often the example is called for the reference where the recipe gives no calls.
    pub steps: Option<u32>,
    /// Largest absolute difference from PyTorch that is accepted, instead of the default of the dtype.
    pub atol: Option<f64>,
    /// The same, relative to the largest value of the port.
    pub rtol: Option<f64>,
    /// Packages that the recipe needs in an environment that is made for it.
    pub requirements: Vec<String>,
}

/// An accepted finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Id of the finding.
    pub id: String,
    /// Only where it is about this state, port or argument.
    #[serde(default)]
    pub subject: Option<String>,
    /// Why it is accepted.
    pub reason: String,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// There is none.
    #[error("no coreai-audit.toml here or above, and no [tool.coreai-audit] in a pyproject.toml: `coreai-audit init` writes one, or name a recipe as path.py:function")]
    NotFound,
    /// It cannot be read.
    #[error("{}: cannot read the manifest", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A model was asked for that is not in it.
    #[error("{}: no model {name:?}{hint} (models: {known})", path.display())]
    NoModel {
        /// The manifest.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// `; did you mean …?`
        hint: String,
        /// The models there are.
        known: String,
    },
    /// `path.py:function` is not of that form.
    #[error("{text:?}: expected a recipe as path.py:function")]
    Recipe {
        /// What was given.
        text: String,
    },
}

/// What there is of a `pyproject.toml`.
#[derive(Deserialize)]
struct PyProject {
    tool: Tool,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "coreai-audit")]
    ours: Raw,
}

#[derive(Deserialize)]
struct Raw {
    python: Option<PathBuf>,
    snapshots: Option<PathBuf>,
    timeout: Option<f64>,
    max_memory: Option<String>,
    level: Option<Level>,
    #[serde(default)]
    models: BTreeMap<String, RawModel>,
    #[serde(default)]
    upgrade: RawUpgrade,
}

#[derive(Deserialize)]
struct RawModel {
    recipe: String,
    level: Option<Level>,
    #[serde(default)]
    allow: Vec<Allow>,
    steps: Option<u32>,
    atol: Option<f64>,
    rtol: Option<f64>,
    #[serde(default)]
    requirements: Vec<String>,
}

impl Manifest {
    /// The manifest at `path`, or the nearest one in `folder` and above it.
    pub fn find(path: Option<&Path>, folder: &Path) -> Result<Manifest, ManifestError> {
        if let Some(path) = path {
            return Manifest::read(path)?.ok_or(ManifestError::NotFound);
        }
        for folder in folder.ancestors() {
            for name in FILES {
                let candidate = folder.join(name);
                if candidate.is_file() {
                    let shown = candidate
                        .strip_prefix(folder_of_process(folder))
                        .unwrap_or(&candidate);
                    if let Some(manifest) = Manifest::read(shown)? {
                        return Ok(manifest);
                    }
                }
            }
        }
        Err(ManifestError::NotFound)
    }

    /// Reads a manifest; `None` for a `pyproject.toml` without our table.
    pub fn read(path: &Path) -> Result<Option<Manifest>, ManifestError> {
        let read = |source| ManifestError::Read {
            path: path.to_owned(),
            source,
        };
        let size = fs::metadata(path).map_err(read)?.len();
        if size > MOST_BYTES {
            return Err(invalid(
                path,
                1,
                format!("{size} bytes; a manifest has at most {MOST_BYTES}"),
            ));
        }
        let text = fs::read_to_string(path).map_err(read)?;
        Manifest::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Option<Manifest>, ManifestError> {
        let at = |offset: usize| 1 + text.bytes().take(offset).filter(|b| *b == b'\n').count();
        let document = DeTable::parse(text).map_err(|e| {
            invalid(
                path,
                at(e.span().map_or(0, |s| s.start)),
                e.message().to_owned(),
            )
        })?;
        let is_pyproject = path.file_name().is_some_and(|n| n == "pyproject.toml");
        let table = if is_pyproject {
            let ours =
                table_in(document.get_ref(), "tool").and_then(|t| table_in(t, "coreai-audit"));
            match ours {
                Some(table) => table,
                None => return Ok(None),
            }
        } else {
            document.get_ref()
        };
        check_keys(table, path, &at)?;
        let order = model_order(table);
        let raw = match is_pyproject {
            true => toml::from_str(text).map(|whole: PyProject| whole.tool.ours),
            false => toml::from_str(text),
        };
        let raw = raw.map_err(|e| toml_error(path, &at, &e))?;
        let places = Places {
            table,
            path,
            at: &at,
        };
        Manifest::build(raw, order, &places).map(Some)
    }

    fn build(raw: Raw, order: Vec<String>, places: &Places<'_>) -> Result<Manifest, ManifestError> {
        let base = places.path.parent().map(Path::to_owned).unwrap_or_default();
        let level = raw.level.unwrap_or_default();
        let mut models = Vec::new();
        for name in order {
            let Some(model) = raw.models.get(&name) else {
                continue;
            };
            let wrong = |keys: &[&str], key: &str, what: String| {
                let keys = [&["models", &name, key], keys].concat();
                places.wrong(&keys, format!("models.{name}.{key}: {what}"))
            };
            let (file, function) =
                split_recipe(&model.recipe).map_err(|e| wrong(&[], "recipe", e.to_string()))?;
            for (i, allow) in model.allow.iter().enumerate() {
                let i = i.to_string();
                if allow.reason.trim().is_empty() {
                    let what = format!("{} needs a reason", allow.id);
                    return Err(wrong(&[&i, "reason"], "allow", what));
                }
                if !IDS.contains(&allow.id.as_str()) {
                    let hint = did_you_mean(&allow.id, IDS);
                    let what = format!("no finding has the id {:?}{hint}", allow.id);
                    return Err(wrong(&[&i, "id"], "allow", what));
                }
            }
            if model.steps.is_some_and(|s| s == 0 || s > MOST_STEPS) {
                let what = format!("expected a number of calls from 1 to {MOST_STEPS}");
                return Err(wrong(&[], "steps", what));
            }
            for (key, value) in [("atol", model.atol), ("rtol", model.rtol)] {
                if value.is_some_and(|v| !(v.is_finite() && v >= 0.0)) {
                    let what = "expected a number that is not negative".to_owned();
                    return Err(wrong(&[], key, what));
                }
            }
            models.push(Model {
                file: base.join(file),
                function,
                level: model.level.unwrap_or(level),
                allow: model.allow.clone(),
                steps: model.steps,
                atol: model.atol,
                rtol: model.rtol,
                requirements: model.requirements.clone(),
                name,
            });
        }
        if raw.timeout.is_some_and(|t| !(t > 0.0 && t < MOST_SECONDS)) {
            let what = "timeout: expected a positive number of seconds below a billion";
            return Err(places.wrong(&["timeout"], what.to_owned()));
        }
        let max_memory = raw.max_memory.as_deref().map(parse_bytes).transpose();
        Ok(Manifest {
            upgrade: raw.upgrade.build(&base, places)?,
            path: places.path.to_owned(),
            python: raw.python.map(|p| base.join(p)),
            snapshots: base.join(raw.snapshots.unwrap_or_else(|| PathBuf::from("snapshots"))),
            timeout: raw.timeout,
            max_memory: max_memory
                .map_err(|e| places.wrong(&["max_memory"], format!("max_memory: {e}")))?,
            models,
        })
    }

    /// The model of that name.
    pub fn model(&self, name: &str) -> Result<&Model, ManifestError> {
        self.models.iter().find(|m| m.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.models.iter().map(|m| m.name.as_str()).collect();
            ManifestError::NoModel {
                path: self.path.clone(),
                name: name.to_owned(),
                hint: did_you_mean(name, &names),
                known: if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                },
            }
        })
    }
}

impl Model {
    /// A model given on the command line as `path.py:function`; it goes by the function's name.
    pub fn from_recipe(text: &str) -> Result<Model, ManifestError> {
        let (file, function) = split_recipe(text)?;
        Ok(Model {
            name: function.clone(),
            file,
            function,
            level: Level::default(),
            allow: Vec::new(),
            steps: None,
            atol: None,
            rtol: None,
            requirements: Vec::new(),
        })
    }
}

/// Whether a command-line argument is a recipe and not the name of a model.
pub fn is_recipe(text: &str) -> bool {
    text.contains(".py")
}

fn split_recipe(text: &str) -> Result<(PathBuf, String), ManifestError> {
    let wrong = || ManifestError::Recipe {
        text: text.to_owned(),
    };
    let (file, function) = text.rsplit_once(':').ok_or_else(wrong)?;
    let identifier =
        function.chars().all(|c| c.is_alphanumeric() || c == '_') && !function.is_empty();
    if !identifier || Path::new(file).extension().is_none_or(|e| e != "py") {
        return Err(wrong());
    }
    Ok((PathBuf::from(file), function.to_owned()))
}

fn check_keys(
    table: &DeTable<'_>,
    path: &Path,
    at: &dyn Fn(usize) -> usize,
) -> Result<(), ManifestError> {
    unknown_key(table, TOP_KEYS, "", path, at)?;
    upgrade::check_keys(table, path, at)?;
    let Some(models) = table_in(table, "models") else {
        return Ok(());
    };
    for (name, model) in models.iter() {
        let DeValue::Table(model) = model.get_ref() else {
            let line = at(name.span().start);
            let message = format!("models.{}: expected a table with `recipe`", name.get_ref());
            return Err(invalid(path, line, message));
        };
        let place = format!("models.{}.", name.get_ref());
        unknown_key(model, MODEL_KEYS, &place, path, at)?;
        let Some(DeValue::Array(allows)) = model.get("allow").map(|a| a.get_ref()) else {
            continue;
        };
        for allow in allows.iter() {
            if let DeValue::Table(allow) = allow.get_ref() {
                unknown_key(allow, ALLOW_KEYS, &format!("{place}allow."), path, at)?;
            }
        }
    }
    Ok(())
}

fn unknown_key(
    table: &DeTable<'_>,
    known: &[&str],
    place: &str,
    path: &Path,
    at: &dyn Fn(usize) -> usize,
) -> Result<(), ManifestError> {
    for (key, _) in table.iter() {
        let name: &str = key.get_ref();
        if !known.contains(&name) {
            let message = format!(
                "unknown key {place}{name}{} (keys: {})",
                did_you_mean(name, known),
                known.join(", ")
            );
            return Err(invalid(path, at(key.span().start), message));
        }
    }
    Ok(())
}

/// Names of the models, in file order.
fn model_order(table: &DeTable<'_>) -> Vec<String> {
    let mut order: Vec<(String, usize)> = table_in(table, "models")
        .map(|models| {
            models
                .iter()
                .map(|(k, _)| (k.get_ref().to_string(), k.span().start))
                .collect()
        })
        .unwrap_or_default();
    order.sort_by_key(|(_, offset)| *offset);
    order.into_iter().map(|(name, _)| name).collect()
}

fn table_in<'a, 'b>(table: &'a DeTable<'b>, key: &str) -> Option<&'a DeTable<'b>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn toml_error(path: &Path, at: &dyn Fn(usize) -> usize, error: &toml::de::Error) -> ManifestError {
    invalid(
        path,
        at(error.span().map_or(0, |s| s.start)),
        error.message().to_owned(),
    )
}

fn invalid(path: &Path, line: usize, message: String) -> ManifestError {
    ManifestError::Invalid {
        path: path.to_owned(),
        line,
        message,
    }
}

/// `; did you mean "recipe"?`, or nothing.
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|k| (strsim::jaro_winkler(word, k), k))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| format!("; did you mean {k:?}?"))
        .unwrap_or_default()
}

/// What to strip so that a manifest in the current folder is shown by its name alone.
fn folder_of_process(folder: &Path) -> &Path {
    match std::env::current_dir() {
        Ok(current) if current == folder => folder,
        _ => Path::new(""),
    }
}

/// `8GB`, `512 MiB`, `1000000`: bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("{text:?}: expected a size such as 8GB or 512MiB")),
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("{text:?}: expected a size such as 8GB or 512MiB"))?;
    if value <= 0.0 || value * scale >= u64::MAX as f64 {
        return Err(format!("{text:?}: expected a size above zero"));
    }
    Ok((value * scale) as u64)
}
