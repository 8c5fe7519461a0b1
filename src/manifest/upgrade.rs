//! The environments of an upgrade, as the manifest lists them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::{table_in, unknown_key, ManifestError, Places};
use crate::upgrade::EnvSpec;

const UPGRADE_KEYS: &[&str] = &["requirements", "env"];
const ENV_KEYS: &[&str] = &["name", "requirements", "file", "existing", "python"];

/// What the manifest says of upgrades.
#[derive(Clone, Debug, Default)]
pub struct Upgrade {
    /// Requirements of every environment.
    pub requirements: Vec<String>,
    /// The environments in file order.
    pub environments: Vec<EnvSpec>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawUpgrade {
    #[serde(default)]
    requirements: Vec<String>,
    #[serde(default)]
    env: Vec<RawEnv>,
}

#[derive(Deserialize)]
struct RawEnv {
    name: String,
    requirements: Option<Vec<String>>,
    file: Option<PathBuf>,
    existing: Option<PathBuf>,
    python: Option<String>,
}

impl RawUpgrade {
    /// Paths are relative to the manifest's folder `base`.
    pub(super) fn build(self, base: &Path, places: &Places<'_>) -> Result<Upgrade, ManifestError> {
        let environments = self.env.into_iter().enumerate().map(|(i, env)| {
            environment(env, base).map_err(|(key, message)| {
                places.wrong(&["upgrade", "env", &i.to_string(), key], message)
            })
        });
        Ok(Upgrade {
            requirements: self.requirements,
            environments: environments.collect::<Result<_, _>>()?,
        })
    }
}

pub(super) fn check_keys(
    table: &DeTable<'_>,
    path: &Path,
    at: &dyn Fn(usize) -> usize,
) -> Result<(), ManifestError> {
    let Some(upgrade) = table_in(table, "upgrade") else {
        return Ok(());
    };
    unknown_key(upgrade, UPGRADE_KEYS, "upgrade.", path, at)?;
    if let Some(DeValue::Array(envs)) = upgrade.get("env").map(|e| e.get_ref()) {
        for env in envs.iter() {
            if let DeValue::Table(env) = env.get_ref() {
                unknown_key(env, ENV_KEYS, "upgrade.env.", path, at)?;
            }
        }
    }
    Ok(())
}

/// One `[[upgrade.env]]`; an error says which key it is about.
fn environment(raw: RawEnv, base: &Path) -> Result<EnvSpec, (&'static str, String)> {
    if raw.name.trim().is_empty() {
        let what = "upgrade.env: expected a name for each environment";
        return Err(("name", what.to_owned()));
    }
    let said = |message: &str| format!("upgrade.env {:?}: {message}", raw.name);
    let made = match (&raw.requirements, &raw.file, &raw.existing) {
        (Some(lines), None, None) => {
            let folder = Some(base.to_owned()).filter(|b| !b.as_os_str().is_empty());
            EnvSpec::requirements(&raw.name, lines.clone(), folder)
        }
        // `gate` reads the manifest too, and needs none of them.
        (None, Some(file), None) => EnvSpec::file(&raw.name, &base.join(file))
            .or_else(|error| EnvSpec::misplaced(&raw.name, error)),
        (None, None, Some(path)) => Ok(EnvSpec::existing(&raw.name, &base.join(path))),
        _ => {
            let what = "expected one of requirements, file and existing";
            return Err(("name", said(what)));
        }
    };
    let key = match raw.file {
        Some(_) => "file",
        None => "requirements",
    };
    let mut spec = made.map_err(|e| (key, said(&e.to_string())))?;
    if raw.python.is_some() {
        spec.python = raw.python;
    }
    Ok(spec)
}
