//! Putting the contract of the converted asset, and what is known of its program, into a trace.

use std::io::{self, Write};
use std::path::Path;

use serde_json::Value as Json;

use super::{Trace, TraceError, KEY};
use crate::check::Hints;
use crate::contract::{self, Contract};

impl Trace {
    /// Writes the trace to `target` (which may be its own file) with this contract, and these hints, in
    /// its document.
    /// The tensors are copied as they are; the file appears under its name when it is whole.
    ///
    /// # Errors
    /// [`TraceError::Write`] when it cannot be written.
    pub fn write_with_contract(
        &self,
        contract: &Contract,
        hints: &Hints,
        target: &Path,
    ) -> Result<(), TraceError> {
        let (header, data) = self.with_header(contract, hints)?;
        let io = |source| TraceError::Write {
            path: target.into(),
            source,
        };
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        write(&mut file, &header, data).map_err(io)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let readable = std::fs::Permissions::from_mode(0o644);
            file.as_file().set_permissions(readable).map_err(io)?;
        }
        file.persist(target).map_err(|e| io(e.error))?;
        Ok(())
    }

    /// The same trace with this contract, in its own file: see [`Trace::write_with_contract`].
    ///
    /// # Errors
    /// As there.
    pub fn with_contract(self, contract: &Contract, hints: &Hints) -> Result<Trace, TraceError> {
        let path = self.path.clone();
        self.write_with_contract(contract, hints, &path)?;
        drop(self);
        Trace::open(&path)
    }

    /// The header with the contract in it, and the bytes behind it.
    fn with_header(
        &self,
        contract: &Contract,
        hints: &Hints,
    ) -> Result<(Vec<u8>, &[u8]), TraceError> {
        let wrong = |what: String| TraceError::file(&self.path, what);
        let length = self.map.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
        let end = length
            .and_then(|n| usize::try_from(n).ok())
            .and_then(|n| n.checked_add(8));
        let (Some(end), Some(text)) = (end, end.and_then(|end| self.map.get(8..end))) else {
            return Err(wrong("has no header".into()));
        };
        let json = |e: serde_json::Error| wrong(format!("header: {e}"));
        let mut header: Json = serde_json::from_slice(text).map_err(json)?;
        let slot = header
            .get_mut("__metadata__")
            .and_then(|m| m.get_mut(KEY))
            .ok_or_else(|| wrong(format!("has no {KEY} in its metadata")))?;
        let mut document: Json = slot
            .as_str()
            .map_or(Ok(Json::Null), serde_json::from_str)
            .map_err(json)?;
        let contract: Json = serde_json::from_str(&contract::json(contract)).map_err(json)?;
        if let Json::Object(map) = &mut document {
            map.insert("contract".into(), contract);
            map.insert("hints".into(), serde_json::to_value(hints).map_err(json)?);
        }
        *slot = Json::String(document.to_string());
        let mut header = header.to_string().into_bytes();
        // The data behind the header is aligned by blanks at its end.
        header.resize(header.len().next_multiple_of(8), b' ');
        Ok((header, self.map.get(end..).unwrap_or_default()))
    }
}

fn write(to: &mut impl Write, header: &[u8], data: &[u8]) -> io::Result<()> {
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(header)?;
    to.write_all(data)?;
    to.flush()
}
