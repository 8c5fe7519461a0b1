//! Where in a manifest something stands.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{invalid, ManifestError};

/// A manifest as it is written.
pub(super) struct Places<'a> {
    /// Our table of the file.
    pub table: &'a DeTable<'a>,
    /// The file.
    pub path: &'a Path,
    /// The line of an offset.
    pub at: &'a dyn Fn(usize) -> usize,
}

impl Places<'_> {
    /// An error about a key: first the tables it is in, and the numbers of elements of arrays. It names the line
    /// of the last of them that is written.
    pub fn wrong(&self, keys: &[&str], message: String) -> ManifestError {
        let (mut offset, mut table) = (0, Some(self.table));
        let mut keys = keys.iter();
        while let (Some(within), Some(key)) = (table, keys.next()) {
            let Some((key, value)) = within.get_key_value(*key) else {
                break;
            };
            offset = key.span().start;
            table = match value.get_ref() {
                DeValue::Table(inner) => Some(inner),
                DeValue::Array(all) => {
                    let number = keys.next().and_then(|n| n.parse::<usize>().ok());
                    let element = number.and_then(|n| all.get(n));
                    offset = element.map_or(offset, |e| e.span().start);
                    match element.map(|e| e.get_ref()) {
                        Some(DeValue::Table(inner)) => Some(inner),
                        _ => None,
                    }
                }
                _ => None,
            };
        }
        invalid(self.path, (self.at)(offset), message)
    }
}
