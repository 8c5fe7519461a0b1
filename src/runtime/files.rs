//! Tensors in files: `.safetensors` and `.npz`.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use super::tensor::count;
use super::{DType, Tensor};
use crate::asset::json::Unique;
use crate::files::{map, write_atomically};

/// Why a file of tensors cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file itself.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It could not be written; the source names it.
    #[error("{0}")]
    Write(std::io::Error),
    /// Its contents.
    #[error("{}: {what}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// What is wrong, and with which entry.
        what: String,
    },
}

/// Named tensors.
pub type Tensors = BTreeMap<String, Tensor>;

/// Reads a `.safetensors` or `.npz` file, by its extension. `fits` is asked before the values of an entry
/// are read, so that nothing is unpacked that nobody can use.
///
/// # Errors
/// When it cannot be read, is neither or no regular file, an entry is of a type no function takes or there
/// twice, or `fits` refuses one.
pub fn read(path: &Path, fits: &Fits<'_>) -> Result<Tensors, FileError> {
    let contents = |what: String| FileError::Contents {
        path: path.into(),
        what,
    };
    let io = |source| FileError::Io {
        path: path.into(),
        source,
    };
    let extension = path.extension().and_then(|e| e.to_str());
    if !matches!(extension, Some("safetensors" | "npz")) {
        return Err(contents(
            "expected a file called *.safetensors or *.npz".into(),
        ));
    }
    // Opening a pipe would wait for its other end, and a device may never end.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(contents("expected a file, found something else".into()));
    }
    let file = std::fs::File::open(path).map_err(io)?;
    if extension == Some("npz") {
        return read_npz(std::io::BufReader::new(file), fits).map_err(contents);
    }
    let map = map(&file).map_err(io)?;
    read_safetensors(&map, fits).map_err(contents)
}

/// Whether an entry of this name, type and shape can be used; the error says what is expected.
pub type Fits<'a> = dyn Fn(&str, DType, &[usize]) -> Result<(), String> + 'a;

fn read_safetensors(bytes: &[u8], fits: &Fits<'_>) -> Result<Tensors, String> {
    use safetensors::{Dtype, SafeTensors};
    let all = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    // Of two entries of one name the library keeps the last.
    let (length, _) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
    let header = bytes.get(8..length + 8).ok_or("is no safetensors file")?;
    serde_json::from_slice::<Unique>(header).map_err(|e| e.to_string())?;
    let mut out = Tensors::new();
    let mut entries = all.tensors();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, view) in entries {
        let dtype = match view.dtype() {
            Dtype::BOOL => DType::Bool,
            Dtype::U8 => DType::U8,
            Dtype::I8 => DType::I8,
            Dtype::U16 => DType::U16,
            Dtype::I16 => DType::I16,
            Dtype::U32 => DType::U32,
            Dtype::I32 => DType::I32,
            Dtype::U64 => DType::U64,
            Dtype::I64 => DType::I64,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            Dtype::C64 => DType::C32,
            Dtype::F8_E5M2 => DType::F8E5M2,
            Dtype::F8_E4M3 => DType::F8E4M3,
            Dtype::F8_E8M0 => DType::F8E8M0,
            other => return Err(format!("entry {name} is of type {other:?}")),
        };
        let wrong = |e: String| format!("entry {name}: {e}");
        fits(&name, dtype, view.shape()).map_err(wrong)?;
        let tensor = Tensor::from_bytes(dtype, view.shape(), view.data());
        out.insert(name.clone(), tensor.map_err(|e| wrong(e.to_string()))?);
    }
    Ok(out)
}

fn read_npz(file: impl Read + Seek, fits: &Fits<'_>) -> Result<Tensors, String> {
    let mut archive = zip::ZipArchive::new(file).map_err(|e| e.to_string())?;
    let mut out = Tensors::new();
    for i in 0..archive.len() {
        let entry = archive.by_index(i).map_err(|e| e.to_string())?;
        let name = entry.name().map_err(|e| e.to_string())?;
        let name = name.trim_end_matches(".npy").to_string();
        let size = entry.size();
        let own = |dtype, shape: &[usize]| fits(&name, dtype, shape);
        let tensor = read_npy(entry, size, own).map_err(|e| format!("entry {name}: {e}"))?;
        if out.insert(name.clone(), tensor).is_some() {
            return Err(format!("there are two entries called {name:?}"));
        }
    }
    Ok(out)
}

/// One array: a header in the syntax of a Python dictionary, then the values.
fn read_npy(
    mut from: impl Read,
    size: u64,
    fits: impl Fn(DType, &[usize]) -> Result<(), String>,
) -> Result<Tensor, String> {
    let mut fixed = [0u8; 10];
    from.read_exact(&mut fixed).map_err(|e| e.to_string())?;
    if &fixed[..6] != b"\x93NUMPY" {
        return Err("is no array".into());
    }
    if !(1..=3).contains(&fixed[6]) {
        return Err(format!("is of version {} of the format", fixed[6]));
    }
    let (mut length, mut start) = (usize::from(u16::from_le_bytes([fixed[8], fixed[9]])), 10u64);
    if fixed[6] > 1 {
        let mut more = [0u8; 2];
        from.read_exact(&mut more).map_err(|e| e.to_string())?;
        length |= usize::from(u16::from_le_bytes(more)) << 16;
        start += 2;
    }
    if length > 1 << 16 {
        return Err("has a header beyond all bounds".into());
    }
    let mut header = vec![0u8; length];
    from.read_exact(&mut header).map_err(|e| e.to_string())?;
    let header = String::from_utf8_lossy(&header);
    let (dtype, shape) = npy_header(&header)?;
    let bytes = count(&shape).and_then(|n| n.checked_mul(dtype.size()));
    let claimed = size.checked_sub(start + length as u64);
    let Some(bytes) = bytes.filter(|b| claimed == Some(*b as u64)) else {
        return Err(format!(
            "holds another number of bytes than {shape:?} of {dtype} takes"
        ));
    };
    fits(dtype, &shape)?;
    let mut tensor = Tensor::zeros(dtype, &shape).map_err(|e| e.to_string())?;
    let own = tensor.bytes_mut().map_err(|e| e.to_string())?;
    debug_assert_eq!(own.len(), bytes);
    from.read_exact(own).map_err(|e| e.to_string())?;
    // The sum over all bytes is compared where they end.
    from.read(&mut [0]).map_err(|e| e.to_string())?;
    if dtype == DType::Bool {
        own.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    Ok(tensor)
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`
fn npy_header(header: &str) -> Result<(DType, Vec<usize>), String> {
    let after = |key: &str| -> Result<&str, String> {
        let (_, rest) = header
            .split_once(&format!("'{key}':"))
            .ok_or_else(|| format!("has no {key}"))?;
        Ok(rest.trim_start())
    };
    if !after("fortran_order")?.starts_with("False") {
        return Err("is in column order; store it in row order".into());
    }
    let descr = after("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split('\'').next());
    let dtype = match descr
        .unwrap_or_default()
        .trim_start_matches(['<', '|', '='])
    {
        "b1" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C32,
        "c16" => DType::C64,
        "V2" => DType::BF16,
        other => return Err(format!("is of type {other}")),
    };
    let shape = after("shape")?;
    let shape = shape.strip_prefix('(').and_then(|s| s.split(')').next());
    let dims = shape.ok_or("has no shape")?.split(',').map(str::trim);
    let dims = dims.filter(|d| !d.is_empty());
    let dims: Option<Vec<usize>> = dims.map(|d| d.parse().ok()).collect();
    Ok((dtype, dims.ok_or("has no shape of numbers")?))
}

/// Values whose file format lacks their type are stored as bit patterns: `uint16` becomes bfloat16 and
/// `uint8` an 8-bit float or a boolean where the port asks for one. Anything else stays.
#[must_use]
pub fn as_port(tensor: Tensor, wanted: DType) -> Tensor {
    if !is_pattern(tensor.dtype(), wanted) {
        return tensor;
    }
    Tensor::from_bytes(wanted, tensor.shape(), &tensor.bytes()).unwrap_or(tensor)
}

/// Whether a stored type holds the bit patterns of a port's.
fn is_pattern(stored: DType, wanted: DType) -> bool {
    match stored {
        DType::U16 => wanted == DType::BF16,
        DType::U8 => wanted.small_float().is_some() || wanted.is_narrow_int(),
        _ => false,
    }
}

/// Whether an entry of this type and shape can be given for a port.
///
/// # Errors
/// What the port takes.
pub fn fits_port(port: &super::Port, dtype: DType, shape: &[usize]) -> Result<(), String> {
    let extents = port.shape.len() == shape.len()
        && port
            .shape
            .iter()
            .zip(shape)
            .all(|(wanted, have)| wanted.is_none_or(|w| w == *have as u64));
    if extents && (dtype == port.dtype || is_pattern(dtype, port.dtype)) {
        return Ok(());
    }
    Err(format!(
        "is {dtype} {}, but {} is {} {}",
        super::error::shape(shape),
        crate::text::name(&port.name),
        port.dtype,
        super::error::extents(&port.shape)
    ))
}

/// Writes a `.safetensors` file. Types the format lacks are stored as `uint8` bit patterns.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, tensors: &[(String, &Tensor)]) -> Result<(), FileError> {
    use safetensors::{tensor::TensorView, Dtype};
    let contents = |what: String| FileError::Contents {
        path: path.into(),
        what,
    };
    if path.extension().is_some_and(|e| e == "npz" || e == "npy") {
        let what = "safetensors are written here; give it a name that ends in .safetensors";
        return Err(contents(what.into()));
    }
    let bytes: Vec<_> = tensors.iter().map(|(_, t)| t.bytes()).collect();
    let mut views = Vec::new();
    for ((name, t), bytes) in tensors.iter().zip(&bytes) {
        let dtype = match t.dtype() {
            DType::Bool => Dtype::BOOL,
            DType::I8 => Dtype::I8,
            DType::U16 => Dtype::U16,
            DType::I16 => Dtype::I16,
            DType::U32 => Dtype::U32,
            DType::I32 => Dtype::I32,
            DType::U64 => Dtype::U64,
            DType::I64 => Dtype::I64,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            DType::C32 => Dtype::C64,
            DType::F8E5M2 => Dtype::F8_E5M2,
            DType::F8E4M3 => Dtype::F8_E4M3,
            DType::F8E8M0 => Dtype::F8_E8M0,
            other if other.size() == 1 => Dtype::U8,
            other => {
                return Err(contents(format!(
                    "{name} is {other}, which cannot be stored"
                )))
            }
        };
        let view = TensorView::new(dtype, t.shape().to_vec(), bytes);
        views.push((name, view.map_err(|e| contents(e.to_string()))?));
    }
    let file = safetensors::serialize(views, None).map_err(|e| contents(e.to_string()))?;
    write_atomically(path, &file).map_err(FileError::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_arrays_are_read() {
        let header = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }";
        assert_eq!(npy_header(header), Ok((DType::F16, vec![2, 3])));
        let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (), }";
        assert_eq!(npy_header(header), Ok((DType::Bool, vec![])));
        let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }";
        assert_eq!(npy_header(header), Err("is of type >f4".into()));
    }

    #[test]
    fn what_is_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.safetensors");
        let a = Tensor::from_values(&[2], &[1.5f32, -2.0]).unwrap();
        let b = Tensor::from_bytes(DType::Bool, &[1], &[1]).unwrap();
        write(&path, &[("a".into(), &a), ("b".into(), &b)]).unwrap();
        let back = read(&path, &|_, _, _| Ok(())).unwrap();
        assert_eq!(back["a"].values::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(
            (back["b"].dtype(), &*back["b"].bytes()),
            (DType::Bool, &[1u8][..])
        );
    }

    /// A safetensors file with this header and so many bytes of values.
    fn told(header: &str, values: usize) -> String {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + values, 0);
        let any = read_safetensors(&bytes, &|_, _, _| Ok(()));
        any.map(|t| t.len().to_string()).unwrap_or_else(|e| e)
    }

    #[test]
    fn entries_of_one_name_and_headers_that_lie_are_refused() {
        let entry = |name: &str, from: usize| {
            let to = from + 4;
            format!(r#""{name}":{{"dtype":"F32","shape":[1],"data_offsets":[{from},{to}]}}"#)
        };
        let two = |a: &str, b: &str| format!("{{{},{}}}", entry(a, 0), entry(b, 4));
        assert_eq!(told(&two("a", "b"), 8), "2");
        let twice = told(&format!("{{{},{}}}", entry("a", 0), entry("a", 0)), 4);
        assert!(twice.starts_with(r#"the key "a" occurs twice"#), "{twice}");
        assert!(told(&two("a", "b"), 9).contains("not fully covered"));
        assert!(told("{", 0).contains("header"));
    }

    /// An archive with one array of a million zero bytes, not compressed.
    fn write_zeros(path: &Path) {
        let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
        let stored = zip::write::SimpleFileOptions::default();
        let stored = stored.compression_method(zip::CompressionMethod::Stored);
        zip.start_file("x.npy", stored).unwrap();
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1048576,), }";
        let mut array = b"\x93NUMPY\x01\x00".to_vec();
        array.extend((header.len() as u16).to_le_bytes());
        array.extend(header.as_bytes());
        array.resize(array.len() + (1 << 20), 0);
        std::io::Write::write_all(&mut zip, &array).unwrap();
        zip.finish().unwrap();
    }

    #[test]
    fn values_that_do_not_fit_their_checksum_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.npz");
        write_zeros(&path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1 << 19] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let told = read(&path, &|_, _, _| Ok(())).unwrap_err().to_string();
        assert!(told.ends_with("t.npz: entry x: Invalid checksum"), "{told}");
    }

    #[test]
    fn what_nobody_can_use_is_not_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.npz");
        write_zeros(&path);
        assert_eq!(read(&path, &|_, _, _| Ok(())).unwrap()["x"].len(), 1 << 20);
        let refused = read(&path, &|name, dtype, shape| {
            Err(format!("{name} {dtype} {shape:?}"))
        });
        let told = refused.unwrap_err().to_string();
        assert!(
            told.ends_with("t.npz: entry x: x uint8 [1048576]"),
            "{told}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_device_or_a_pipe_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (name, made) in [("z.safetensors", "/dev/zero"), ("z.npz", "/dev/zero")] {
            let path = dir.path().join(name);
            std::os::unix::fs::symlink(made, &path).unwrap();
            let told = read(&path, &|_, _, _| Ok(())).unwrap_err().to_string();
            assert!(
                told.ends_with("expected a file, found something else"),
                "{told}"
            );
        }
    }

    #[test]
    fn arrays_that_lie_about_their_size_are_refused() {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 9), }";
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        let size = bytes.len() as u64;
        let error = read_npy(&bytes[..], size, |_, _| Ok(())).unwrap_err();
        assert!(
            error.starts_with("holds another number of bytes"),
            "{error}"
        );
    }
}
