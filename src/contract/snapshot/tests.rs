//! Files, folders and insta as the judge of the format.

use super::*;
use crate::contract::testing::{any_contract, sample};
use crate::contract::{Contract, Impact};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn versions() -> Vec<(String, String)> {
    [
        ("coreai-audit", "0.1.0"),
        ("torch", "2.13.0"),
        ("coreai-core", "1.0.0b3"),
        ("python", "3.11"),
    ]
    .map(|(name, version)| (name.to_owned(), version.to_owned()))
    .to_vec()
}

fn snapshot() -> Snapshot {
    Snapshot {
        model: Some("kv_cache".to_owned()),
        info: versions(),
        contract: sample(),
    }
}

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(&dir.path().join("snapshots"), false);
    (dir, store)
}

/// A message without the temporary folder.
fn shown(dir: &TempDir, error: &SnapshotError) -> String {
    error
        .to_string()
        .replace(&dir.path().display().to_string(), "DIR")
}

fn files(store: &Store) -> Vec<String> {
    let Ok(entries) = fs::read_dir(store.dir()) else {
        return vec![];
    };
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn accepted(store: &Store, model: &str, contract: &Contract) {
    store.store_pending(model, contract, &versions()).unwrap();
    store.accept(model).unwrap();
}

#[test]
fn a_snapshot_is_a_header_and_the_contract() {
    insta::assert_snapshot!(snapshot().to_text());
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(
        Snapshot::parse(&snapshot().to_text(), "x").unwrap(),
        snapshot()
    );
}

/// What `cargo insta accept` does with a pending file: read it, write it as accepted.
fn accepted_by_insta(text: &str) -> (insta::Snapshot, String) {
    let dir = tempfile::tempdir().unwrap();
    let (pending, accepted) = (dir.path().join("m.snap.new"), dir.path().join("m.snap"));
    fs::write(&pending, text).unwrap();
    let read = insta::Snapshot::from_file(&pending).unwrap();
    read.save(&accepted).unwrap();
    let written = fs::read_to_string(accepted).unwrap();
    (read, written)
}

#[test]
fn insta_reads_it_and_writes_it_back_byte_for_byte() {
    let text = snapshot().to_text();
    let (read, written) = accepted_by_insta(&text);
    assert_eq!(read.metadata().expression(), Some("kv_cache"));
    assert_eq!(read.metadata().source(), Some("coreai-audit"));
    assert_eq!(written, text);
}

#[test]
fn headers_of_insta_with_more_in_them_are_read() {
    let body = crate::contract::json(&sample());
    let text = format!(
        "---\nsource: tests/models.rs\nassertion_line: 12\ndescription: \"a: b\"\n\
         expression: 'it''s'\ninfo:\n  torch: \"2.13\" \ninput_file: a.py # comment\nsnapshot_kind: text\n---\n{body}"
    );
    let read = Snapshot::parse(&text, "x").unwrap();
    assert_eq!(read.model.as_deref(), Some("it's"));
    assert_eq!(read.info, [("torch".to_owned(), "2.13".to_owned())]);
    assert_eq!(read.contract, sample());
    assert_eq!(
        Snapshot::parse(&text.replace('\n', "\r\n"), "x").unwrap(),
        read
    );
    let bare = Snapshot::parse(&format!("---\ninfo: ~\n---\n{body}"), "x").unwrap();
    assert_eq!((bare.model, bare.info), (None, vec![]));
}

#[test]
fn nonsense_is_an_error_with_file_and_line() {
    let error = |text: &str| Snapshot::parse(text, "m.snap").unwrap_err().to_string();
    let good = snapshot().to_text();
    assert_eq!(
        error("{}"),
        "m.snap:1: expected `---`, the start of a snapshot's header"
    );
    assert_eq!(
        error("---\nsource: x\n"),
        "m.snap:2: the header has no end; expected `---` before the contract"
    );
    assert_eq!(
        error("---\nsource\n---\n"),
        "m.snap:2: expected `key: value`, found `source`"
    );
    assert_eq!(
        error("---\nsource:x\n---\n"),
        "m.snap:2: expected `key: value`, found `source:x`"
    );
    assert_eq!(
        error("---\n  a: b\n---\n"),
        "m.snap:2: expected a key at the start of the line, found `a: b`"
    );
    assert_eq!(
        error("---\ninfo: [1]\n---\n"),
        "m.snap:2: expected a plain or a quoted text, found [1]"
    );
    assert_eq!(
        error("---\nexpression: \"a\n---\n"),
        "m.snap:2: expected a quoted text, found \"a"
    );
    assert_eq!(
        error("---\nexpression: 'it's'\n---\n"),
        "m.snap:2: expected a quoted text, found 'it's'"
    );
    assert_eq!(
        error("---\ninfo: 1\n---\n"),
        "m.snap:2: expected the entries of `info` on the following lines, indented"
    );
    assert_eq!(
        error("---\nsnapshot_kind: binary\n---\n"),
        "m.snap:2: expected a snapshot of text, found one of kind binary"
    );
    assert_eq!(
        error(&good.replace("\"int32\"", "32")),
        "m.snap:17:41: at `functions[0].inputs[0].dtype`: invalid type: integer `32`, expected a string"
    );
    assert_eq!(
        error("---\n---\nnothing\n"),
        "m.snap:3:2: expected ident; expected a contract in JSON, as `coreai-audit contract --format json` writes it"
    );
    assert_eq!(
        error(&good.replace("      \"states\"", "<<<<<<< ours\n      \"states\"")),
        "m.snap:20: an unresolved merge conflict; expected the contract of one side"
    );
}

#[test]
fn a_new_contract_is_pending_then_accepted_then_the_same() {
    let (_dir, store) = store();
    assert_eq!(store.check("m", &sample()).unwrap(), Status::New);
    assert_eq!(files(&store), [""; 0]);
    store.store_pending("m", &sample(), &versions()).unwrap();
    assert_eq!(files(&store), ["m.snap.new"]);
    assert_eq!(store.check("m", &sample()).unwrap(), Status::New);
    store.accept("m").unwrap();
    assert_eq!(files(&store), ["m.snap"]);
    assert_eq!(store.check("m", &sample()).unwrap(), Status::Same);
}

#[test]
fn a_changed_contract_is_told_and_rejecting_it_keeps_the_accepted_one() {
    let (_dir, store) = store();
    accepted(&store, "m", &sample());
    let mut changed = sample();
    changed.functions[0].states.swap(0, 1);
    let Status::Changed(changes) = store.check("m", &changed).unwrap() else {
        panic!("not changed")
    };
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].severity, Impact::Breaking);
    store.store_pending("m", &changed, &[]).unwrap();
    store.reject("m").unwrap();
    assert_eq!(files(&store), ["m.snap"]);
    assert_eq!(store.load("m").unwrap().unwrap().contract, sample());
}

#[test]
fn toolchain_versions_are_kept_and_never_compared() {
    let (_dir, store) = store();
    accepted(&store, "m", &sample());
    store
        .store_pending("m", &sample(), &[("torch".to_owned(), "2.15.0".to_owned())])
        .unwrap();
    assert_eq!(store.check("m", &sample()).unwrap(), Status::Same);
    assert_eq!(store.load("m").unwrap().unwrap().info, versions());
    assert_eq!(
        store.load_pending("m").unwrap().unwrap().info,
        [("torch".to_owned(), "2.15.0".to_owned())]
    );
}

#[test]
fn accepting_and_rejecting_need_something_pending() {
    let (dir, store) = store();
    let said = "model m: no pending snapshot (DIR/snapshots/m.snap.new does not exist); \
                `coreai-audit snapshot list` shows what there is";
    assert_eq!(shown(&dir, &store.accept("m").unwrap_err()), said);
    assert_eq!(shown(&dir, &store.reject("m").unwrap_err()), said);
    store.discard_pending("m").unwrap();
}

#[test]
fn a_broken_pending_file_is_not_accepted() {
    let (dir, store) = store();
    accepted(&store, "m", &sample());
    fs::write(store.pending_path("m").unwrap(), "---\n---\n{}").unwrap();
    assert_eq!(
        shown(&dir, &store.accept("m").unwrap_err()),
        "DIR/snapshots/m.snap.new:3:2: missing field `schema_version`; expected a contract in JSON, as \
         `coreai-audit contract --format json` writes it"
    );
    assert_eq!(files(&store), ["m.snap", "m.snap.new"]);
    assert_eq!(store.load("m").unwrap().unwrap().contract, sample());
    store.store_pending("m", &sample(), &[]).unwrap();
    store.discard_pending("m").unwrap();
    assert_eq!(files(&store), ["m.snap"]);
}

#[test]
fn in_ci_nothing_is_written() {
    let (dir, local) = store();
    accepted(&local, "m", &sample());
    local.store_pending("m", &Contract::default(), &[]).unwrap();
    let before = fs::read_to_string(local.accepted_path("m").unwrap()).unwrap();
    let ci = Store::new(local.dir(), true);
    assert_eq!(ci.check("m", &sample()).unwrap(), Status::Same);
    assert_eq!(
        shown(&dir, &ci.store_pending("m", &sample(), &[]).unwrap_err()),
        "DIR/snapshots/m.snap.new: not written in an automated build (CI is set); do it locally and commit the file"
    );
    assert!(matches!(
        ci.accept("m"),
        Err(SnapshotError::Ci {
            action: "accepted",
            ..
        })
    ));
    assert!(matches!(
        ci.reject("m"),
        Err(SnapshotError::Ci {
            action: "rejected",
            ..
        })
    ));
    assert!(matches!(
        ci.discard_pending("m"),
        Err(SnapshotError::Ci {
            action: "removed",
            ..
        })
    ));
    assert_eq!(files(&ci), ["m.snap", "m.snap.new"]);
    assert_eq!(
        fs::read_to_string(ci.accepted_path("m").unwrap()).unwrap(),
        before
    );
}

#[test]
fn models_that_would_share_a_file_are_told() {
    let (dir, store) = store();
    accepted(&store, "a/b", &sample());
    let said = "DIR/snapshots/a_b.snap: the snapshot of model a/b and of model a_b: their names differ only in \
                what file names do not tell apart; rename one of the models";
    assert_eq!(
        shown(&dir, &store.check("a_b", &sample()).unwrap_err()),
        said
    );
    assert_eq!(
        shown(
            &dir,
            &store.store_pending("a_b", &sample(), &[]).unwrap_err()
        ),
        said
    );
    assert!(matches!(
        store.list(Some(&["a/b", "a_b"])),
        Err(SnapshotError::Collision { .. })
    ));
    store.store_pending("x:y", &sample(), &[]).unwrap();
    assert!(matches!(
        store.store_pending("x y", &sample(), &[]),
        Err(SnapshotError::Collision { .. })
    ));
}

#[test]
fn a_snapshot_may_be_renamed_along_with_its_model() {
    let (_dir, store) = store();
    accepted(&store, "old", &sample());
    fs::rename(
        store.accepted_path("old").unwrap(),
        store.accepted_path("new").unwrap(),
    )
    .unwrap();
    assert_eq!(store.check("new", &sample()).unwrap(), Status::Same);
}

#[test]
fn the_list_tells_accepted_pending_and_orphaned() {
    let (_dir, store) = store();
    assert!(matches!(
        store.list(None),
        Err(SnapshotError::Folder { .. })
    ));
    assert_eq!(store.orphans(&[]).unwrap(), [""; 0]);
    for model in ["both", "gone", "in/out"] {
        accepted(&store, model, &sample());
    }
    for model in ["both", "new"] {
        store.store_pending(model, &sample(), &[]).unwrap();
    }
    fs::write(store.dir().join("README.md"), "no snapshot").unwrap();
    let listed = |known: Option<&[&str]>| -> Vec<(String, bool, bool, bool)> {
        let entries = store.list(known).unwrap().into_iter();
        entries
            .map(|e| (e.model, e.accepted, e.pending, e.orphaned))
            .collect()
    };
    let row =
        |model: &str, accepted, pending, orphaned| (model.to_owned(), accepted, pending, orphaned);
    assert_eq!(
        listed(Some(&["both", "new", "in/out", "never converted"])),
        [
            row("both", true, true, false),
            row("gone", true, false, true),
            row("in/out", true, false, false),
            row("new", false, true, false),
        ]
    );
    assert_eq!(
        listed(None),
        [
            row("both", true, true, false),
            row("gone", true, false, false),
            row("in/out", true, false, false),
            row("new", false, true, false),
        ]
    );
    assert_eq!(
        store.orphans(&["both", "in/out"]).unwrap(),
        ["gone.snap", "new.snap.new"]
    );
}

#[test]
fn a_snapshot_that_is_no_file_is_told() {
    let (dir, store) = store();
    fs::create_dir_all(store.accepted_path("m").unwrap()).unwrap();
    assert_eq!(
        shown(&dir, &store.load("m").unwrap_err()),
        "DIR/snapshots/m.snap: is a folder; expected a file with a contract"
    );
    assert!(!Path::new(store.dir()).join("m.snap.new").exists());
}

proptest! {
    #[test]
    fn any_snapshot_survives_the_round_trip_and_insta(
        model in proptest::option::of(any::<String>()),
        info in proptest::collection::vec((any::<String>(), any::<String>()), 0..3),
        contract in any_contract(),
    ) {
        // Keys have to differ and be there; insta's reader takes no others either.
        let mut info: Vec<(String, String)> = info.into_iter().filter(|(key, _)| !key.is_empty()).collect();
        info.dedup_by(|a, b| a.0 == b.0);
        let snapshot = Snapshot { model, info, contract };
        let text = snapshot.to_text();
        let (read, _) = accepted_by_insta(&text);
        prop_assert_eq!(read.metadata().expression(), snapshot.model.as_deref());
        prop_assert_eq!(Snapshot::parse(&text, "x").unwrap(), snapshot);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(---\n)?(\\PC*\n){0,3}(---\n)?\\PC*") {
        let _ = Snapshot::parse(&text, "x");
    }

    #[test]
    fn a_damaged_snapshot_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = snapshot().to_text().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Snapshot::parse(&String::from_utf8_lossy(&bytes), "x");
    }
}
