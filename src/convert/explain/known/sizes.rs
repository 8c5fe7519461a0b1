//! States that are given a value of another shape or dtype than theirs.

use super::failed;
use crate::contract::agree::source;
use crate::contract::signature::{asset_dtype, Expected, FunctionSignature};
use crate::contract::Dim;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::Finding;

const FIXED_SIZE: &str =
    "a state cannot change its size: give it a fixed capacity and write into it, or make it \
    a functional cache, an argument and an output with a dynamic dimension";

/// A buffer is bound to a value of another size.
pub(super) fn resized(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if signature.program.is_some() || !error.message.contains("copy_") {
        return None;
    }
    for written in &signature.written {
        let Some(shape) = written
            .sites
            .iter()
            .rev()
            .find_map(|s| s.value_shape.clone())
        else {
            continue;
        };
        let Some(buffer) = signature.buffers.iter().find(|b| b.name == written.name) else {
            continue;
        };
        if broadcasts(&shape, &buffer.shape) {
            continue;
        }
        return Some(
            failed(
                failure,
                format!(
                    "buffer {} is {}, the value written is {}",
                    buffer.name,
                    tuple(&buffer.shape),
                    tuple(&shape)
                ),
            )
            .about(&buffer.name)
            .with_evidence(format!(
                "torch says: {}",
                error.message.lines().next().unwrap_or_default()
            ))
            .with_fix(FIXED_SIZE),
        );
    }
    None
}

/// A state is given a value of another shape or dtype than it has.
pub(super) fn written_type(
    failure: &Failure,
    _: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    let program = signature.program.as_ref()?;
    for expected in program.expected() {
        let Some(mutation) = expected.mutation else {
            continue;
        };
        let (Some(is), Some(written)) = (&expected.placeholder.shape, &mutation.shape) else {
            continue;
        };
        let dtypes = (
            expected.placeholder.dtype.as_deref()?,
            mutation.dtype.as_deref().unwrap_or("?"),
        );
        let same_dtype = asset_dtype(dtypes.0) == asset_dtype(dtypes.1);
        if is == written && same_dtype {
            continue;
        }
        return Some(written_type_finding(
            failure, &expected, signature, is, written, dtypes,
        ));
    }
    None
}

fn written_type_finding(
    failure: &Failure,
    expected: &Expected<'_>,
    signature: &FunctionSignature,
    is: &[Dim],
    written: &[Dim],
    dtypes: (&str, &str),
) -> Finding {
    let source = source(expected, signature);
    let name = source
        .name
        .rsplit('.')
        .next()
        .unwrap_or(&source.name)
        .to_owned();
    let (message, fix) = if is != written {
        let fix = if broadcasts(written, is) {
            format!("expand it before copy_ ({name}.copy_(value.expand_as({name}))); slice assignment ({name}[:] = value) works")
        } else {
            FIXED_SIZE.to_owned()
        };
        (
            format!(
                "{source} is {}, the value written is {}",
                tuple(is),
                tuple(written)
            ),
            fix,
        )
    } else {
        (
            format!(
                "{source} is {}, the value written is {}",
                dtypes.0, dtypes.1
            ),
            format!("cast the value before it is written (value.to({name}.dtype))"),
        )
    };
    let mut finding = failed(failure, message).about(source.name);
    for site in &expected.placeholder.sites {
        finding = finding.with_evidence(format!("written at {}", site.describe()));
    }
    finding.with_fix(fix)
}

/// `(1, ?, 4)`, as torch writes a shape.
fn tuple(shape: &[Dim]) -> String {
    let items: Vec<String> = shape
        .iter()
        .map(|d| d.map_or("?".to_owned(), |n| n.to_string()))
        .collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    from.len() <= to.len()
        && from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(a, b)| a == b || (*a == Some(1) && *b != Some(0)))
}
