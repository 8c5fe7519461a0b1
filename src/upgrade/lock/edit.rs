//! What is changed in a resolved lock before it is installed.

use std::path::{Path, PathBuf};

use super::LockError;
use crate::upgrade::requirements::Gathered;

/// The index of uv where nothing else is said, and where its files are.
const PYPI: &str = "https://pypi.org/simple";
const PYPI_FILES: &str = "https://files.pythonhosted.org/";

/// Makes paths absolute: the lock is installed elsewhere than it was made. Nothing stays editable: an
/// environment does not change while it stands.
pub(super) fn settle(package: &mut toml::Table, folder: &Path) {
    let absolute = |table: &mut toml::Table| {
        if let Some(toml::Value::String(path)) = table.get_mut("path") {
            let joined = folder.join(&*path);
            *path = plain(&joined).display().to_string();
        }
    };
    for key in ["archive", "directory", "vcs", "sdist"] {
        if let Some(toml::Value::Table(table)) = package.get_mut(key) {
            absolute(table);
            table.remove("editable");
        }
    }
    if let Some(toml::Value::Array(wheels)) = package.get_mut("wheels") {
        let tables = wheels.iter_mut().filter_map(toml::Value::as_table_mut);
        tables.for_each(absolute);
    }
}

/// Says which index a package is from, where its files tell: uv caches what it downloads by index, and
/// would download again what it has from another one.
pub(super) fn name_index(package: &mut toml::Table, asked: &Gathered) {
    let files = package.get("wheels").and_then(|w| w.as_array());
    let files = files.into_iter().flatten().chain(package.get("sdist"));
    let urls: Option<Vec<&str>> = files.map(|f| f.get("url")?.as_str()).collect();
    let urls = urls.unwrap_or_default();
    let of_host = |index: &&str, files: &str| {
        let host = host_of(files);
        host.is_some() && urls.iter().all(|u| host_of(u) == host) && !index.is_empty()
    };
    let given = asked.index_urls();
    let mut given = given.filter(|index| of_host(index, index));
    let index = match given.next() {
        Some(index) => Some(index),
        None => Some(PYPI).filter(|index| of_host(index, PYPI_FILES)),
    };
    if let (Some(index), false) = (index, urls.is_empty() || package.contains_key("index")) {
        let index = without_password(index);
        package.insert("index".to_owned(), toml::Value::String(index));
    }
}

/// The host of a URL, without name and password.
fn host_of(url: &str) -> Option<&str> {
    let host = url.split_once("://")?.1.split('/').next()?;
    Some(host.rsplit('@').next().unwrap_or(host)).filter(|h| !h.is_empty())
}

/// A URL without the name and password in it.
pub(in crate::upgrade) fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let user = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[user..])
        }
        None => url.to_owned(),
    }
}

/// Absolute, without `.` in it.
fn plain(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.components().collect()
}

/// Leaves the files of a package that have a hash asked for; all where none is.
pub(super) fn enforce(package: &mut toml::Table, asked: &Gathered) -> Result<(), LockError> {
    let text = |key: &str| {
        package
            .get(key)
            .and_then(|v| v.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let (name, version) = (text("name"), text("version"));
    let refused = |why| LockError::NotHashed {
        package: name.clone(),
        why,
    };
    let Some(hashes) = asked.hashes.get(&name) else {
        return match asked.all_hashed {
            true => Err(refused(
                "has no hash in the requirements, and they say --require-hashes",
            )),
            false => Ok(()),
        };
    };
    if package.contains_key("directory") || package.contains_key("vcs") {
        return Err(refused(
            "has a hash in the requirements, and is no file that could be compared with it",
        ));
    }
    let mut there = Vec::new();
    let mut fits = |file: &toml::Value| {
        let of_file = file.get("hashes").and_then(|h| h.as_table());
        of_file.into_iter().flatten().any(|(kind, digits)| {
            let hash = format!("{kind}:{}", digits.as_str().unwrap_or_default());
            let fits = hashes.contains(&hash);
            there.push(hash);
            fits
        })
    };
    let mut left = false;
    if let Some(toml::Value::Array(wheels)) = package.get_mut("wheels") {
        wheels.retain(&mut fits);
        left = !wheels.is_empty();
        if !left {
            package.remove("wheels");
        }
    }
    for key in ["sdist", "archive"] {
        match package.get(key).map(&mut fits) {
            Some(true) => left = true,
            Some(false) => drop(package.remove(key)),
            None => {}
        }
    }
    if left {
        return Ok(());
    }
    let more = there.len().saturating_sub(1);
    let mut shown = there
        .into_iter()
        .next()
        .unwrap_or_else(|| "none".to_owned());
    if more > 0 {
        shown.push_str(&format!(" or one of {more} others"));
    }
    Err(LockError::Hash {
        package: format!("{name}=={version}")
            .trim_end_matches("==")
            .to_owned(),
        asked: crate::text::list(hashes),
        there: shown,
    })
}
