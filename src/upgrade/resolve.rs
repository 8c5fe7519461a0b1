//! From what was asked for to environments with a key: resolved or probed, not made yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::cache::Cache;
use super::envs::{EnvError, Envs};
use super::interrupt::Interrupt;
use super::lock::Lock;
use super::matrix::Environment;
use super::probe::probe;
use super::requirements::{gather, Gathered};
use super::spec::{EnvSpec, Source};
use super::uv::Uv;
use crate::manifest::Model;

/// What every environment that is made needs, whatever was asked for.
const BASE: [&str; 2] = ["torch", "coreai-torch"];
/// Variables of uv that change what is resolved.
const DECIDES_RESOLUTION: &str = "UV_";
/// Those that do not.
const DECIDES_NOTHING: &[&str] = &[
    "UV_CACHE_DIR",
    "UV_LINK_MODE",
    "UV_HTTP_TIMEOUT",
    "UV_OFFLINE",
];

/// How environments are resolved.
#[derive(Debug)]
pub struct Resolver<'a> {
    /// Makes environments; an error where there is no uv, told only if it is needed.
    pub envs: Result<&'a Envs, String>,
    /// Remembers locks.
    pub cache: &'a Cache,
    /// The Python that environments are made with where nothing else is said.
    pub python: &'a Path,
    /// Requirements of every environment.
    pub common: &'a [String],
    /// Resolve again what was resolved before.
    pub refresh: bool,
    /// Ends what was started.
    pub interrupt: &'a Interrupt,
}

/// An environment with a key.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Changes when anything that is installed does.
    pub key: String,
    /// How to get at it.
    pub place: Place,
    /// Version of its Python.
    pub version: String,
    /// Package → version.
    pub packages: BTreeMap<String, String>,
}

/// Where an environment is, or how to make it.
#[derive(Clone, Debug)]
pub enum Place {
    /// An interpreter that exists.
    Existing(PathBuf),
    /// To be made, or found made.
    Locked {
        /// What it is made of.
        lock: Box<Lock>,
        /// The Python to make it with.
        python: PathBuf,
        /// Options that say where packages are looked for; those with a password are needed to install.
        indexes: Vec<String>,
        /// URLs of indexes with a password.
        credentials: Vec<String>,
    },
}

/// An environment of the matrix: resolved once for each set of requirements that models have.
#[derive(Debug)]
pub struct Column {
    /// What was asked for.
    pub spec: EnvSpec,
    /// For each set of `sets`, the environment, or why there is none.
    pub by_set: Vec<Result<Resolved, String>>,
}

impl Resolver<'_> {
    /// Resolves every environment for every set of requirements.
    pub fn columns(&self, specs: &[EnvSpec], sets: &[Vec<String>]) -> Vec<Column> {
        specs
            .par_iter()
            .map(|spec| Column {
                spec: spec.clone(),
                by_set: self.column(spec, sets),
            })
            .collect()
    }

    fn column(&self, spec: &EnvSpec, sets: &[Vec<String>]) -> Vec<Result<Resolved, String>> {
        match &spec.source {
            Source::Existing(path) => {
                let probed = probe(path, self.interrupt)
                    .map(|p| Resolved {
                        key: p.key,
                        place: Place::Existing(p.python),
                        version: p.version,
                        packages: p.packages,
                    })
                    .map_err(|e| e.to_string());
                vec![probed; sets.len()]
            }
            Source::Nothing(error) => vec![Err(error.clone()); sets.len()],
            Source::Requirements { lines, folder } => sets
                .iter()
                .map(|set| self.locked(spec, lines, folder.as_deref(), set))
                .collect(),
        }
    }

    fn locked(
        &self,
        spec: &EnvSpec,
        lines: &[String],
        folder: Option<&Path>,
        set: &[String],
    ) -> Result<Resolved, String> {
        let envs = self.envs.clone()?;
        let told = |e: EnvError| e.to_string();
        let (python, version) = envs
            .python(spec.python.as_deref(), self.python)
            .map_err(told)?;
        let mut all: Vec<String> = lines.to_vec();
        let more = self.common.iter().chain(set).cloned();
        for line in BASE.map(String::from).into_iter().chain(more) {
            if !all.contains(&line) {
                all.push(line);
            }
        }
        let gathered = gather(&all, folder.unwrap_or(Path::new(".")))?;
        let question = question(&all, &gathered, folder, &version);
        let kept = self.cache.find_lock(&question);
        // What was changed may need other packages now.
        let is_old = kept.as_ref().is_some_and(|lock| !lock.holds());
        let lock = match kept {
            Some(lock) if !self.refresh && !is_old => lock,
            _ => {
                let place = (python.as_path(), version.as_str());
                let again = self.refresh || is_old;
                let lock = envs
                    .resolve(&all, folder, place, &gathered, again)
                    .map_err(told)?;
                // A lock that is not kept is resolved again next time: a branch is looked at in every run.
                if !lock.follows_a_branch(&gathered.lines) {
                    let _ = self.cache.keep_lock(&question, &lock);
                }
                lock
            }
        };
        Ok(Resolved {
            key: lock.key(),
            version,
            packages: lock.versions(),
            place: Place::Locked {
                lock: Box::new(lock),
                python,
                credentials: gathered
                    .credentials()
                    .into_iter()
                    .map(String::from)
                    .collect(),
                indexes: gathered.indexes,
            },
        })
    }
}

/// Everything that decides a resolution but what the index holds.
fn question(lines: &[String], gathered: &Gathered, folder: Option<&Path>, version: &str) -> String {
    let mut text = format!("resolution 2\npython {version}\n{}\n", lines.join("\n"));
    text.push_str(&format!(
        "with all included\n{}\n",
        gathered.lines.join("\n")
    ));
    if let Some(folder) = folder.and_then(|f| std::path::absolute(f).ok()) {
        text.push_str(&format!("in {}\n", folder.display()));
    }
    let mut variables: Vec<(String, String)> = std::env::vars()
        .filter(|(k, _)| k.starts_with(DECIDES_RESOLUTION))
        .filter(|(k, _)| !DECIDES_NOTHING.contains(&k.as_str()))
        .collect();
    variables.sort();
    for (name, value) in variables {
        text.push_str(&format!("{name}={value}\n"));
    }
    text
}

/// The distinct sets of requirements of models, and which one each model has.
pub fn sets(models: &[Model]) -> (Vec<Vec<String>>, Vec<usize>) {
    let mut sets: Vec<Vec<String>> = Vec::new();
    let of = models
        .iter()
        .map(|model| {
            let mut set = model.requirements.clone();
            set.sort();
            set.dedup();
            match sets.iter().position(|s| *s == set) {
                Some(at) => at,
                None => {
                    sets.push(set);
                    sets.len() - 1
                }
            }
        })
        .collect();
    (sets, of)
}

impl Column {
    /// The environment as reports show it: where models differ in requirements, that of the first set.
    pub fn shown(&self) -> Environment {
        let (asked, existing) = match &self.spec.source {
            Source::Existing(path) => (vec![path.display().to_string()], true),
            Source::Requirements { lines, .. } => (lines.clone(), false),
            Source::Nothing(_) => (vec![self.spec.label.clone()], false),
        };
        let first_good = self.by_set.iter().find_map(|r| r.as_ref().ok());
        Environment {
            label: self.spec.label.clone(),
            asked,
            existing,
            python: first_good.map(|r| r.version.clone()),
            packages: first_good.map(|r| r.packages.clone()).unwrap_or_default(),
            error: self.by_set.iter().find_map(|r| r.as_ref().err().cloned()),
        }
    }
}

/// uv for making environments, or why there is none.
pub fn envs(
    root: PathBuf,
    python: &Path,
    offline: bool,
    interrupt: &Interrupt,
) -> Result<Envs, String> {
    Uv::find(Some(python), offline, interrupt)
        .map(|uv| Envs::new(root, uv, interrupt.clone()))
        .map_err(|e| e.to_string())
}
