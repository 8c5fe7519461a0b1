//! The ids of findings; they are stable, because manifests accept findings by id.

/// Every id, sorted. `docs/findings.md` says what each means.
pub const IDS: &[&str] = &[
    "aliased-buffers",
    "argument-order",
    "asset-not-placed",
    "asset-unreadable",
    "conversion-failed",
    "default-names",
    "descriptor-refused",
    "duplicate-or-shadowed-name",
    "eager-refuses",
    "extra-output",
    "functions-disagree",
    "hash-mismatch",
    "int64-narrowed",
    "ir-unreadable",
    "markers-without-handles",
    "missing-package",
    "mutated-parameter",
    "name-order-mismatch",
    "not-observed",
    "out-of-memory",
    "output-vanished",
    "placeholder-order",
    "promoted-input",
    "python-state-frozen",
    "readings-disagree",
    "recipe-error",
    "shared-example-tensor",
    "snapshot-unusable",
    "state-never-written",
    "state-without-token",
    "timed-out",
    "token-without-state",
    "training-mode",
    "unexpected-port",
    "unmarked-state",
    "unnamed-port",
    "unused-exception",
    "worker-died",
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
