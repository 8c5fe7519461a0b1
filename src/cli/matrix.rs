//! Showing an upgrade's matrix, as run or as joined from parts.

use std::io::Write;

use super::{Context, Exit, Failure, Format};
use crate::upgrade::{self, Matrix};

/// Shows it and says how the command exits.
pub(super) fn show(
    matrix: &Matrix,
    format: Format,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    match format {
        Format::Human => {
            let paint = context.out.paint;
            write!(context.out, "{}", upgrade::table(matrix, paint))?;
            write!(context.out, "\n{}", upgrade::details(matrix, paint)?)?;
        }
        Format::Json => {
            let document = upgrade::document(matrix);
            writeln!(context.out, "{}", serde_json::to_string_pretty(&document)?)?;
        }
    }
    Ok(match matrix.exit() {
        0 => Exit::Good,
        1 => Exit::Found,
        _ => Exit::Failed,
    })
}
