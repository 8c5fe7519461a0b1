//! Names of ops and attributes: how the file calls them, and how printed IR does.

/// Families whose ops are printed under `coreai.`.
const FAMILIES: [&str; 5] = [
    "primitive.",
    "dataflow.",
    "controlflow.",
    "metal.",
    "execution.",
];

/// The printed name of an op from its name in a file (without the dialect `aicode`).
///
/// `primitive.reshape_v2` → `coreai.reshape`, `broadcasting_logical_and_v1` →
/// `coreai.decomposable.broadcasting_and`, `ax.copy_with_constraints_v1` →
/// `coreaix.copy_with_constraints`.
pub(crate) fn printed(stored: &str) -> String {
    let name = bare(stored);
    if name == "dataflow.namespace" {
        return "udml.namespace".to_string();
    }
    if let Some(rest) = name.strip_prefix("ax.") {
        return format!("coreaix.{rest}");
    }
    let short = FAMILIES.iter().find_map(|f| name.strip_prefix(f));
    match short {
        Some(short) => format!("coreai.{}", logical(short)),
        // Another family is a dialect of its own: `udml.call`, `debuginfo.value`.
        None if name.contains('.') => name.to_string(),
        None => match name.strip_prefix("broadcasting_") {
            Some(rest) => format!("coreai.decomposable.broadcasting_{}", logical(rest)),
            None => format!("coreai.{name}"),
        },
    }
}

/// The name without its version.
pub(crate) fn bare(stored: &str) -> &str {
    match stored.rsplit_once("_v") {
        Some((name, version))
            if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) =>
        {
            name
        }
        _ => stored,
    }
}

/// Whether the file keeps a definition with the op: its name has no family.
pub(crate) fn is_decomposable(stored: &str) -> bool {
    !stored.contains('.')
}

fn logical(name: &str) -> &str {
    match name {
        "logical_and" => "and",
        "logical_or" => "or",
        "logical_xor" => "xor",
        other => other,
    }
}

/// The printed name of an attribute: `aicode.name` → `coreai.name`.
pub(crate) fn attribute(stored: &str) -> String {
    match stored.strip_prefix("aicode.") {
        Some(rest) => format!("coreai.{rest}"),
        None => stored.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_become_printed_names() {
        for (stored, name) in [
            ("primitive.reshape_v2", "coreai.reshape"),
            ("dataflow.read_handle_v1", "coreai.read_handle"),
            ("controlflow.while_v1", "coreai.while"),
            ("metal.metal4_kernel_v1", "coreai.metal4_kernel"),
            ("execution.target_spec_v1", "coreai.target_spec"),
            ("softmax_v1", "coreai.softmax"),
            (
                "broadcasting_add_v1",
                "coreai.decomposable.broadcasting_add",
            ),
            (
                "broadcasting_logical_xor_v1",
                "coreai.decomposable.broadcasting_xor",
            ),
            ("primitive.logical_and_v1", "coreai.and"),
            ("primitive.conv2d_v1", "coreai.conv2d"),
            ("primitive.max_pool_2d_v1", "coreai.max_pool_2d"),
            (
                "ax.copy_with_constraints_v1",
                "coreaix.copy_with_constraints",
            ),
            ("dataflow.namespace_v1", "udml.namespace"),
            ("udml.call_v1", "udml.call"),
            ("debuginfo.value_v1", "debuginfo.value"),
        ] {
            assert_eq!(printed(stored), name);
        }
    }
}
