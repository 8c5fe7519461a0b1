//! What stands at a path: an asset, a bundle of assets, or something else.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Error;
use super::{metadata, Asset, PROGRAM};

/// What was found at a path.
#[derive(Debug)]
pub enum Found {
    /// One asset.
    Asset(Box<Asset>),
    /// A directory of several assets with metadata of its own.
    Bundle(Bundle),
}

/// A directory with a `metadata.json` that names the assets inside by their role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The directory.
    pub path: PathBuf,
    /// The bundle's name.
    pub name: Option<String>,
    /// `llm`, `vlm`, `diffusion`, `segmenter`, …
    pub kind: Option<String>,
    /// Version of the bundle's metadata (`0.2`).
    pub metadata_version: Option<String>,
    /// The assets, by role.
    pub components: Vec<Component>,
}

/// One asset of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its role (`main`, `vision`, …); the directory's name where the metadata does not name it.
    pub role: String,
    /// Where it should be.
    pub path: PathBuf,
}

/// Finds out what stands at a path.
///
/// # Errors
/// When nothing does, when it cannot be read, and when it is something this crate does not read: the
/// error says what it is.
pub fn open(path: &Path) -> Result<Found, Error> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, "open", e))?;
    if !about.is_dir() {
        return Err(Error::not_an_asset(path, describe_file(path)));
    }
    if std::fs::symlink_metadata(path.join(PROGRAM)).is_ok() {
        return Asset::open(path).map(|a| Found::Asset(Box::new(a)));
    }
    if let Some(what) = foreign(path) {
        return Err(Error::not_an_asset(path, what));
    }
    match bundle(path)? {
        Some(bundle) => Ok(Found::Bundle(bundle)),
        None => Err(Error::not_an_asset(
            path,
            format!("expected an asset (a directory with {PROGRAM}) or a bundle of assets, found a directory with neither"),
        )),
    }
}

fn describe_file(path: &Path) -> String {
    let is = |name: &str| path.file_name().is_some_and(|n| n == name);
    if is(PROGRAM) || is(super::HASH) {
        return "expected the asset's directory, found a file inside it; name the directory"
            .to_string();
    }
    foreign(path).unwrap_or_else(|| "expected a directory (.aimodel), found a file".to_string())
}

/// What a path with a known extension is, where it is no asset.
fn foreign(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    Some(match extension {
        "aimodelc" => {
            "this is a compiled asset (.aimodelc), for one kind of Apple hardware; inspect the \
             .aimodel it was compiled from"
        }
        "aimodelx" => {
            "this is a packed asset (.aimodelx), which only Apple's tools unpack; inspect the \
             .aimodel it was made from"
        }
        "aimodelintermediates" => {
            "this holds debug references of a compilation (.aimodelintermediates), not a program"
        }
        "mlpackage" | "mlmodel" | "mlmodelc" => "this is a Core ML model, not a Core AI asset",
        "aimodel" if path.is_dir() => {
            return Some(format!("expected {PROGRAM} inside the asset, found none: the asset is incomplete"))
        }
        _ => return None,
    }
    .to_string())
}

/// A bundle, where the directory is one: by its metadata, else by assets directly inside.
fn bundle(path: &Path) -> Result<Option<Bundle>, Error> {
    let Some(object) = metadata::read(path)? else {
        return Ok(None);
    };
    let wrong = |key: &str, expected: &str| {
        let what = format!("key `{key}`: expected {expected}, found another value");
        Error::not_an_asset(&path.join(metadata::FILE), what)
    };
    let text = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(wrong(key, "a string")),
    };
    let mut components = Vec::new();
    if let Some(assets) = object.get("assets") {
        let Value::Object(assets) = assets else {
            return Err(wrong("assets", "an object of paths by role"));
        };
        for (role, file) in assets {
            let Some(file) = file.as_str().filter(|f| inside(f)) else {
                return Err(wrong(&format!("assets.{role}"), "a path inside the bundle"));
            };
            components.push(Component {
                role: role.clone(),
                path: path.join(file),
            });
        }
    }
    let entries = std::fs::read_dir(path).map_err(|e| Error::io(path, "list", e))?;
    let mut unnamed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(path, "list", e))?.path();
        let is_asset = entry.extension().is_some_and(|e| e == "aimodel") && entry.is_dir();
        if is_asset && !components.iter().any(|c| c.path == entry) {
            let role = entry
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            unnamed.push(Component { role, path: entry });
        }
    }
    unnamed.sort_by(|a, b| a.role.cmp(&b.role));
    components.extend(unnamed);
    if components.is_empty() {
        return Ok(None);
    }
    Ok(Some(Bundle {
        path: path.to_path_buf(),
        name: text("name")?,
        kind: text("kind")?,
        metadata_version: text("metadata_version")?,
        components,
    }))
}

/// Whether a relative path stays inside.
fn inside(file: &str) -> bool {
    use std::path::Component as C;
    !file.is_empty()
        && Path::new(file)
            .components()
            .all(|c| matches!(c, C::Normal(_) | C::CurDir))
}
