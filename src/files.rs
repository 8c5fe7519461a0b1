//! Writing files so that nobody ever sees half of one.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes `bytes` under a temporary name in the same folder, then renames.
///
/// Errors carry the path.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let with_path =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = NamedTempFile::new_in(folder).map_err(with_path)?;
    file.write_all(bytes).map_err(with_path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file()
            .set_permissions(readable)
            .map_err(with_path)?;
    }
    file.persist(path).map_err(|e| with_path(e.error))?;
    Ok(())
}
