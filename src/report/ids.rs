//! The ids of findings; they are stable, because manifests accept findings by id.

/// Every id, sorted. `docs/findings.md` says what each means.
pub const IDS: &[&str] = &[
    "aliased-buffers",
    "argument-order",
    "asset-not-placed",
    "asset-unreadable",
    "cache-copied-per-step",
    "conversion-failed",
    "default-names",
    "descriptor-refused",
    "duplicate-or-shadowed-name",
    "eager-refuses",
    "empty-reduction",
    "extra-output",
    "float-int-float",
    "functions-disagree",
    "handle-returned",
    "hash-mismatch",
    "initial-value-lost",
    "int64-narrowed",
    "interpreter-died",
    "interpreter-differs",
    "interpreter-refuses",
    "ir-unreadable",
    "markers-without-handles",
    "missing-package",
    "mutated-parameter",
    "name-order-mismatch",
    "narrow-integer-saturates",
    "no-prefix-reuse",
    "no-reference",
    "not-compared",
    "not-observed",
    "not-reproducible",
    "not-run",
    "out-of-memory",
    "output-vanished",
    "placeholder-order",
    "promoted-input",
    "python-state-frozen",
    "randomness-dropped",
    "readings-disagree",
    "reads-unwritten-rows",
    "recipe-error",
    "run-failed",
    "runtime-index-write",
    "shared-example-tensor",
    "snapshot-unusable",
    "state-never-written",
    "state-without-token",
    "swapped-binding",
    "timed-out",
    "token-without-state",
    "training-mode",
    "unexpected-port",
    "unknown-encoding",
    "unmarked-state",
    "unnamed-port",
    "unused-exception",
    "values-differ",
    "worker-died",
    "write-in-unexpected-row",
    "write-lost",
    "wrong-number-of-names",
];

#[cfg(test)]
mod tests {
    use super::IDS;

    #[test]
    fn every_id_is_documented_and_every_documented_id_exists() {
        let text = include_str!("../../docs/findings.md");
        for id in IDS {
            assert!(
                text.contains(&format!("`{id}`")),
                "docs/findings.md lacks {id}"
            );
        }
        for row in text.lines().filter(|l| l.starts_with("| `")) {
            let cell = row
                .trim_start_matches("| ")
                .split(" | ")
                .next()
                .unwrap_or_default();
            for id in cell.split(", ").map(|i| i.trim_matches('`')) {
                assert!(
                    IDS.contains(&id),
                    "docs/findings.md has {id}, which nothing finds"
                );
            }
        }
    }

    #[test]
    fn ids_are_sorted() {
        assert!(IDS.is_sorted());
    }
}
