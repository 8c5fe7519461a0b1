//! Test data packed as `tests/data/*.tar.zst`.

use std::io::Read;

/// The files of an archive, by path, in archive order.
pub fn unpack(archive: &str) -> Vec<(String, Vec<u8>)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(archive);
    let file = std::fs::File::open(&path).expect("the archive is part of the repository");
    let decoder = ruzstd::decoding::StreamingDecoder::new(file).expect("a zstd file");
    let mut files = Vec::new();
    for entry in tar::Archive::new(decoder).entries().expect("a tar file") {
        let mut entry = entry.expect("a whole entry");
        let name = entry.path().expect("a path").to_string_lossy().into_owned();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).expect("the entry's data");
        files.push((name, data));
    }
    files
}

/// Writes the files of an archive below a directory.
pub fn unpack_into(archive: &str, root: &std::path::Path) {
    for (name, data) in unpack(archive) {
        let path = root.join(&name);
        if name.ends_with('/') {
            continue;
        }
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, data).expect("a file");
    }
}
