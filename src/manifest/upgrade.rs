//! The environments of an upgrade, as the manifest lists them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::{table_in, unknown_key, ManifestError};
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
    pub(super) fn build(self, base: &Path) -> Result<Upgrade, String> {
        let environments = self.env.into_iter().map(|env| environment(env, base));
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

/// One `[[upgrade.env]]`.
fn environment(raw: RawEnv, base: &Path) -> Result<EnvSpec, String> {
    if raw.name.trim().is_empty() {
        return Err("upgrade.env: expected a name for each environment".to_owned());
    }
    let said = |message: String| format!("upgrade.env {:?}: {message}", raw.name);
    let mut spec = match (&raw.requirements, &raw.file, &raw.existing) {
        (Some(lines), None, None) => {
            let folder = Some(base.to_owned()).filter(|b| !b.as_os_str().is_empty());
            EnvSpec::requirements(&raw.name, lines.clone(), folder)
        }
        // `gate` reads the manifest too, and needs none of them.
        (None, Some(file), None) => EnvSpec::file(&raw.name, &base.join(file))
            .or_else(|error| EnvSpec::misplaced(&raw.name, error)),
        (None, None, Some(path)) => Ok(EnvSpec::existing(&raw.name, &base.join(path))),
        _ => {
            return Err(said(
                "expected one of requirements, file and existing".to_owned(),
            ))
        }
    }
    .map_err(|e| said(e.to_string()))?;
    if raw.python.is_some() {
        spec.python = raw.python;
    }
    Ok(spec)
}
