//! Which models a command is about: those named, or all of the manifest.

use std::path::Path;

use super::Failure;
use crate::manifest::{is_recipe, Manifest, ManifestError, Model};

/// The manifest; a run on recipes alone does without.
pub(super) fn manifest(path: Option<&Path>, named: &[String]) -> Result<Option<Manifest>, Failure> {
    let here = std::env::current_dir()?;
    let recipes_only = !named.is_empty() && named.iter().all(|m| is_recipe(m));
    match Manifest::find(path, &here) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(ManifestError::NotFound) if recipes_only && path.is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The models named, or all of the manifest, in order and by distinct names.
pub(super) fn models(manifest: Option<&Manifest>, named: &[String]) -> Result<Vec<Model>, Failure> {
    let mut models: Vec<Model> = Vec::new();
    if named.is_empty() {
        models.extend(manifest.iter().flat_map(|m| m.models.iter().cloned()));
    }
    for name in named {
        let model = match manifest {
            _ if is_recipe(name) => Model::from_recipe(name)?,
            Some(manifest) => manifest.model(name)?.clone(),
            None => return Err(ManifestError::NotFound.into()),
        };
        if models.iter().any(|m| m.name == model.name) {
            return Err(format!(
                "model {:?} is asked for twice; names must differ",
                model.name
            )
            .into());
        }
        models.push(model);
    }
    match models.is_empty() {
        true => Err("the manifest lists no models: add [models.NAME] with a recipe".into()),
        false => Ok(models),
    }
}
