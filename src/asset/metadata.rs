//! `metadata.json` of an asset.

use std::io::Read;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::error::{self, Error};
use super::json::Unique;

/// The metadata file of an asset, and of a bundle of assets.
pub(super) const FILE: &str = "metadata.json";

/// Larger metadata is not believed.
const MAX_BYTES: u64 = 16 << 20;

/// What an asset says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metadata {
    /// `2.0` in every asset seen; loaders refuse others, and a file without it.
    pub asset_version: Option<String>,
    /// The package that wrote it (`coreai-core 1.0.0b3`). The 0.4.0 converter's writer left it out.
    pub producer: Option<String>,
    /// `YYYYMMDDThhmmssZ`.
    pub creation_date: Option<String>,
    /// Free text.
    pub author: Option<String>,
    /// Free text.
    pub license: Option<String>,
    /// Free text.
    pub description: Option<String>,
    /// The creator's own entries, any JSON.
    pub creator_defined: Option<Value>,
}

/// The JSON object in a directory's metadata file; `None` where there is no such file.
pub(super) fn read(directory: &Path) -> Result<Option<serde_json::Map<String, Value>>, Error> {
    let path = directory.join(FILE);
    let Some(file) = error::open_file_if_there(&path)? else {
        return Ok(None);
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|e| Error::io(&path, "read", e))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::not_an_asset(
            &path,
            format!("expected at most {MAX_BYTES} bytes of JSON, found more"),
        ));
    }
    // Loaders pass over a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    match serde_json::from_slice(text) {
        Ok(Unique(Value::Object(object))) => Ok(Some(object)),
        Ok(_) => Err(Error::not_an_asset(
            &path,
            "expected a JSON object, found another value",
        )),
        Err(e) => Err(Error::not_an_asset(
            &path,
            format!("expected a JSON object: {e}"),
        )),
    }
}

impl Metadata {
    /// Picks the known entries; each must be a text.
    pub(super) fn from_object(
        path: &Path,
        mut object: serde_json::Map<String, Value>,
    ) -> Result<Metadata, Error> {
        let mut text = |key: &str| match object.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                let what = format!("key `{key}`: expected a string, found another value");
                Err(Error::not_an_asset(&path.join(FILE), what))
            }
        };
        Ok(Metadata {
            asset_version: text("assetVersion")?,
            producer: text("producer")?,
            creation_date: text("creationDate")?,
            author: text("author")?,
            license: text("license")?,
            description: text("description")?,
            creator_defined: object.remove("creatorDefinedMetadata"),
        })
    }
}
