//! Tests of reading a lock.

use super::*;

const TEXT: &str = r#"
lock-version = "1.0"
created-by = "uv"
[[packages]]
name = "torch"
version = "2.13.0"
wheels = [{ url = "https://example.org/torch-2.13.0-cp311.whl", upload-time = 2026-07-08T16:04:07Z, size = 1000, hashes = { sha256 = "60" } }]
[[packages]]
name = "shim"
archive = { path = "shim-1.0-py3-none-any.whl", hashes = { sha256 = "aa" } }
[[packages]]
name = "mine"
directory = { path = "mine", editable = true }
[[packages]]
name = "theirs"
vcs = { type = "git", url = "https://example.org/theirs", commit-id = "abc", subdirectory = "sub" }
"#;

fn parse(text: &str, python: &str, folder: &Path) -> Result<Lock, LockError> {
    Lock::parse(text, python, folder, &Gathered::default())
}

/// A folder with what the text is about.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shim-1.0-py3-none-any.whl"), "wheel").unwrap();
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    std::fs::write(dir.path().join("mine/code.py"), "1").unwrap();
    dir
}

#[test]
fn a_lock_says_what_installs_exactly_this() {
    let dir = folder();
    let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
    let at = dir.path().display();
    assert_eq!(
        lock.lines(),
        format!(
            "mine @ file://{at}/mine\nshim @ file://{at}/shim-1.0-py3-none-any.whl\n\
             theirs @ git+https://example.org/theirs@abc#subdirectory=sub\n\
             torch==2.13.0 --hash=sha256:60\n"
        )
    );
    assert_eq!(lock.versions()["torch"], "2.13.0");
    assert!(
        lock.text.contains(&format!("path = \"{at}/mine\"\n")),
        "{}",
        lock.text
    );
    assert!(!lock.text.contains("editable"));
    let again: toml::Table = toml::from_str(&lock.text).unwrap();
    assert_eq!(again["lock-version"].as_str(), Some("1.0"));
    assert!(lock.follows_a_branch(&["theirs @ git+https://example.org/theirs@main".into()]));
    assert!(!lock.follows_a_branch(&["theirs @ git+https://example.org/theirs@abc".into()]));
}

#[test]
fn what_is_installed_decides_the_key() {
    let dir = folder();
    let key = || parse(TEXT, "3.11.7", dir.path()).unwrap().key();
    let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
    let mut seen = vec![key()];
    assert_eq!(key(), seen[0]);
    assert!(lock.holds());
    for file in ["shim-1.0-py3-none-any.whl", "mine/code.py", "mine/new.py"] {
        std::fs::write(dir.path().join(file), "another").unwrap();
        assert!(!lock.holds(), "{file}");
        assert!(!seen.contains(&key()), "{file} may change under one name");
        seen.push(key());
    }
    let other = |from: &str, to: &str| {
        parse(&TEXT.replace(from, to), "3.11.7", dir.path())
            .unwrap()
            .key()
    };
    for (from, to) in [
        ("example.org/torch", "example.com/torch"),
        ("sha256 = \"60\"", "sha256 = \"61\""),
        ("subdirectory = \"sub\"", "subdirectory = \"other\""),
    ] {
        assert!(!seen.contains(&other(from, to)), "{from} is not {to}");
    }
    let python = parse(TEXT, "3.12.0", dir.path()).unwrap().key();
    assert!(
        !seen.contains(&python),
        "another Python is another environment"
    );
    std::fs::remove_dir_all(dir.path().join("mine")).unwrap();
    assert!(!lock.holds());
    assert!(parse(TEXT, "3.11.7", dir.path())
        .unwrap_err()
        .to_string()
        .contains("/mine: "));
}

#[test]
fn a_hash_that_is_asked_for_is_enforced() {
    let dir = folder();
    let parsed = |hashes: &[(&str, &str)], all_hashed: bool| {
        let hashes = hashes
            .iter()
            .map(|(n, h)| ((*n).to_owned(), vec![(*h).to_owned()]));
        let asked = Gathered {
            hashes: hashes.collect(),
            all_hashed,
            ..Gathered::default()
        };
        Lock::parse(TEXT, "3.11.7", dir.path(), &asked)
    };
    let said = |hashes: &[(&str, &str)], all| parsed(hashes, all).unwrap_err().to_string();
    assert_eq!(
        parsed(&[("torch", "sha256:60"), ("shim", "sha256:aa")], false)
            .unwrap()
            .key(),
        parse(TEXT, "3.11.7", dir.path()).unwrap().key()
    );
    assert_eq!(
        said(&[("torch", "sha256:61")], false),
        "torch==2.13.0: none of its files has a hash that the requirements ask for (sha256:61): expected sha256:60"
    );
    assert_eq!(
        said(&[("shim", "md5:aa")], false),
        "shim: none of its files has a hash that the requirements ask for (md5:aa): expected sha256:aa"
    );
    assert_eq!(
        said(&[("mine", "sha256:aa")], false),
        "mine: has a hash in the requirements, and is no file that could be compared with it"
    );
    assert_eq!(
        said(&[("torch", "sha256:60")], true),
        "shim: has no hash in the requirements, and they say --require-hashes"
    );
    // Of several files, those with a hash that is asked for are left.
    let two = TEXT.replace("hashes = { sha256 = \"60\" } }]", "hashes = { sha256 = \"60\" } }, { url = \"https://example.org/torch-2.13.0-cp312.whl\", hashes = { sha256 = \"70\" } }]");
    let asked = Gathered {
        hashes: [("torch".to_owned(), vec!["sha256:70".to_owned()])].into(),
        ..Gathered::default()
    };
    let lock = Lock::parse(&two, "3.11.7", dir.path(), &asked).unwrap();
    assert!(lock.text.contains("cp312") && !lock.text.contains("cp311"));
}

#[test]
fn the_index_is_named_where_the_files_tell_it() {
    let dir = folder();
    let index = |host: &str| {
        let asked = Gathered {
            indexes: vec!["--extra-index-url https://me:secret@example.com/whl/cpu".into()],
            ..Gathered::default()
        };
        let text = TEXT.replace(
            "https://example.org/torch",
            &format!("https://{host}/torch"),
        );
        let lock = Lock::parse(&text, "3.11.7", dir.path(), &asked).unwrap();
        let table: toml::Table = toml::from_str(&lock.text).unwrap();
        let named = table["packages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|p| p.get("index"));
        named
            .map(|i| i.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(index("files.pythonhosted.org"), ["https://pypi.org/simple"]);
    assert_eq!(index("example.com"), ["https://example.com/whl/cpu"]);
    assert_eq!(index("example.net"), [""; 0]);
}

#[test]
fn a_url_of_a_file_is_its_path() {
    assert_eq!(path_of("file:///a%20b/%C3%A4%zz"), Some("/a b/ä%zz".into()));
    assert_eq!(path_of("https://example.org/a"), None);
}

#[test]
fn disk_is_counted_for_what_is_missing() {
    let dir = folder();
    let lock = parse(TEXT, "3.11.7", dir.path()).unwrap();
    assert_eq!(lock.disk(Some(&[])), FRAME);
    assert_eq!(lock.disk(Some(&["torch".into()])), FRAME + 1750);
    assert_eq!(
        lock.disk(None),
        FRAME + ((1000 + 3 * UNKNOWN_SIZE) as f64 * UNPACKED) as u64
    );
}

#[test]
fn what_is_no_lock_is_refused() {
    assert!(parse("packages = 3", "3.11", Path::new(".")).is_err());
    let bare = "[[packages]]\nname = \"x\"\n";
    assert_eq!(
        parse(bare, "3.11", Path::new(".")).unwrap_err().to_string(),
        "uv's lock has no version and no place for x"
    );
}
