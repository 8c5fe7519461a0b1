//! Writes the reference trace; `docs/trace.md` describes the file.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::Dtype;

/// Key of the document in the metadata of the file.
const METADATA_KEY: &str = "coreai-audit.trace";

/// One tensor of the file.
pub(super) struct Stored<'a> {
    /// torch's name of the type.
    pub dtype: &'a str,
    /// Extents.
    pub shape: &'a [usize],
    /// Contents, row-major, little-endian.
    pub bytes: &'a [u8],
}

/// Why a trace was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// A type without a counterpart.
    #[error("no place for a {0} tensor in a safetensors file")]
    Dtype(String),
    /// Contents that do not fit their shape, or a file that cannot be made.
    #[error(transparent)]
    Format(#[from] safetensors::SafeTensorError),
    /// The file.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes `document` and its tensors, which go by running number.
pub(super) fn write(path: &Path, document: &str, tensors: &[Stored<'_>]) -> Result<(), WriteError> {
    let views = tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let view = TensorView::new(dtype(t.dtype)?, t.shape.to_vec(), t.bytes)?;
            Ok((i.to_string(), view))
        })
        .collect::<Result<Vec<_>, WriteError>>()?;
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), document.to_owned())]);
    let bytes = safetensors::serialize(views, Some(metadata))?;
    Ok(crate::files::write_atomically(path, &bytes)?)
}

fn dtype(name: &str) -> Result<Dtype, WriteError> {
    Ok(match name {
        "bool" => Dtype::BOOL,
        "uint8" => Dtype::U8,
        "int8" => Dtype::I8,
        "uint16" => Dtype::U16,
        "int16" => Dtype::I16,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "uint32" => Dtype::U32,
        "int32" => Dtype::I32,
        "float32" => Dtype::F32,
        "uint64" => Dtype::U64,
        "int64" => Dtype::I64,
        "float64" => Dtype::F64,
        _ => return Err(WriteError::Dtype(name.to_owned())),
    })
}
