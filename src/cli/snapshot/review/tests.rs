//! A review with keys pressed by hand.

use super::*;
use crate::contract::testing::sample;
use crate::contract::Contract;
use crate::report::Paint;
use tempfile::TempDir;

/// `first` waits with a changed contract, `second` with its first one.
fn waiting() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path(), false);
    let info = |torch: &str| [("torch".to_owned(), torch.to_owned())];
    store
        .store_pending("first", &sample(), &info("2.13.0"))
        .unwrap();
    store.accept("first").unwrap();
    store
        .store_pending("first", &swapped(), &info("2.15.0"))
        .unwrap();
    store.store_pending("second", &sample(), &[]).unwrap();
    (dir, store)
}

/// The sample with the sources of its two caches exchanged.
fn swapped() -> Contract {
    let mut contract = sample();
    let [key, value, ..] = contract.functions[0].states.as_mut_slice() else {
        panic!("two states")
    };
    std::mem::swap(&mut key.source, &mut value.source);
    contract
}

fn reviewed(store: &Store, keys: &[Key]) -> (Exit, String) {
    let mut keys = keys.iter().cloned();
    let mut key = || {
        keys.next()
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    };
    let models = ["first".to_owned(), "second".to_owned()];
    let mut shown = Vec::new();
    let exit = review(
        store,
        &models,
        &mut Stream::new(&mut shown, Paint::PLAIN),
        &mut key,
    )
    .unwrap();
    (exit, String::from_utf8(shown).unwrap())
}

fn is_pending(store: &Store, model: &str) -> bool {
    store.load_pending(model).unwrap().is_some()
}

#[test]
fn what_a_person_sees() {
    let (_dir, store) = waiting();
    let (_, shown) = reviewed(&store, &[Key::Char('?'), Key::Char('a'), Key::Char('s')]);
    insta::assert_snapshot!(shown);
}

#[test]
fn each_key_does_what_it_says() {
    let (_dir, store) = waiting();
    let (exit, _) = reviewed(&store, &[Key::Char('a'), Key::Char('r')]);
    assert_eq!(exit, Exit::Good);
    assert_eq!(store.load("first").unwrap().unwrap().contract, swapped());
    assert_eq!(store.load("second").unwrap(), None);
    assert!(!is_pending(&store, "first") && !is_pending(&store, "second"));
}

#[test]
fn what_is_skipped_stays_pending() {
    let (_dir, store) = waiting();
    let (exit, _) = reviewed(&store, &[Key::Char('s'), Key::Char('a')]);
    assert_eq!(exit, Exit::Found);
    assert!(is_pending(&store, "first") && !is_pending(&store, "second"));
}

#[test]
fn quitting_and_a_closed_terminal_leave_the_rest() {
    for keys in [&[Key::Char('q')][..], &[Key::CtrlC], &[]] {
        let (_dir, store) = waiting();
        let (exit, _) = reviewed(&store, keys);
        assert_eq!(exit, Exit::Found);
        assert!(is_pending(&store, "first") && is_pending(&store, "second"));
    }
}

#[test]
fn what_was_decided_elsewhere_is_passed_over() {
    let (_dir, store) = waiting();
    store.reject("first").unwrap();
    let (exit, shown) = reviewed(&store, &[Key::Char('a')]);
    assert_eq!(exit, Exit::Good);
    assert!(shown.ends_with("2 decided, 0 left pending\n"), "{shown}");
}

#[test]
fn nothing_pending_needs_no_key() {
    let (dir, store) = waiting();
    drop(dir);
    let mut shown = Vec::new();
    let mut key = || panic!("asked for a key");
    let exit = review(
        &store,
        &[],
        &mut Stream::new(&mut shown, Paint::PLAIN),
        &mut key,
    )
    .unwrap();
    assert_eq!(
        (exit, shown.as_slice()),
        (Exit::Good, &b"nothing is pending\n"[..])
    );
}
