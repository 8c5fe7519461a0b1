//! Writing files so that nobody ever sees half of one.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// A regular file in memory.
///
/// Errors are the system's.
pub fn map(file: &std::fs::File) -> io::Result<memmap2::Mmap> {
    // SAFETY: the mapping is only read. Another process that changes the file while it is mapped changes
    // what is read, which every reader here must and does bear; one that cuts it ends this process, as with
    // any mapped file.
    unsafe { memmap2::Mmap::map(file) }
}

/// Writes `bytes` under a temporary name in the same folder, then renames.
///
/// What stands there and is no file (`/dev/stdout`, a named pipe) is written to and stays what it is.
///
/// Errors carry the path.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let with_path = |error: io::Error| {
        // The temporary file's name says nothing to whoever asked for this one.
        let all = error.to_string();
        let cause = all.split(" at path \"").next().unwrap_or_default();
        io::Error::new(error.kind(), format!("{}: {cause}", path.display()))
    };
    if let Ok(there) = std::fs::metadata(path) {
        if !there.is_file() && !there.is_dir() {
            let mut open = std::fs::OpenOptions::new();
            return open
                .write(true)
                .open(path)
                .and_then(|mut f| f.write_all(bytes))
                .map_err(with_path);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_by_its_own_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone/file");
        let error = write_atomically(&path, b"one").unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{}: No such file or directory (os error 2)", path.display())
        );
    }

    #[test]
    fn a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_stays_one() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || std::fs::read(path).unwrap())
        };
        write_atomically(&path, b"all").unwrap();
        assert_eq!(reader.join().unwrap(), b"all");
        assert!(std::fs::metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_folder_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), b"x")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&folder.path().display().to_string()),
            "{error}"
        );
    }
}
