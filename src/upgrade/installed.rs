//! What an installer has left in an environment, compared with what was resolved: neither is trusted alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde::Deserialize;

use super::lock::{path_of, without_password, Lock, Origin, Package};
use super::requirements::normalised;

/// Metadata beyond this is not looked at, in bytes; name and version stand at its beginning.
const MOST_BYTES: u64 = 4 << 20;

/// A package that is installed.
#[derive(Debug)]
struct Installed {
    version: String,
    origin: Option<DirectUrl>,
}

/// What is read of `direct_url.json`.
#[derive(Debug, Deserialize)]
struct DirectUrl {
    url: String,
    #[serde(default)]
    subdirectory: Option<String>,
    vcs_info: Option<VcsInfo>,
}

#[derive(Debug, Deserialize)]
struct VcsInfo {
    commit_id: String,
}

/// How what is installed in the environment at `folder` differs from `lock`, in one line; `None` where it
/// does not.
pub(super) fn difference(lock: &Lock, folder: &Path) -> Option<String> {
    let mut installed = installed(folder);
    for package in &lock.packages {
        let Some(there) = installed.remove(&normalised(&package.name)) else {
            return Some(format!(
                "{} was resolved and is not installed",
                told(package)
            ));
        };
        if let Some(difference) = compare(package, &there) {
            return Some(difference);
        }
    }
    let (name, more) = installed.into_iter().next()?;
    Some(format!(
        "{name}=={} is installed and was not resolved",
        more.version
    ))
}

/// A package of which files are gone, or a file of one that was written after the environment was made
/// (`made`, where that is known).
pub(super) fn damage(folder: &Path, made: Option<SystemTime>) -> Option<String> {
    let mut found = None;
    files(folder, &mut |path, written| {
        let told = match written {
            None => "is gone",
            Some(time) if made.is_some_and(|m| time > m) => "was changed since",
            Some(_) => return true,
        };
        found = Some(format!("{} {told}", path.display()));
        false
    });
    found
}

/// When the last file of any package was written.
pub(super) fn last_written(folder: &Path) -> Option<SystemTime> {
    let mut last = None;
    files(folder, &mut |_, written| {
        last = last.max(written);
        true
    });
    last
}

/// Files of packages by their RECORDs, with the time they were written, until `each` says no. Of what is not
/// there, whole packages alone are told; compiled bytecode comes and goes, and files outside of the folder of
/// packages are scripts that installers rewrite.
fn files(folder: &Path, each: &mut dyn FnMut(&Path, Option<SystemTime>) -> bool) {
    for site in sites(folder) {
        for entry in fs::read_dir(&site).into_iter().flatten().flatten() {
            let text = text_of(&entry.path().join("RECORD"));
            let mut tops = BTreeSet::new();
            for name in text.lines().filter_map(recorded) {
                let written = fs::metadata(site.join(name)).and_then(|m| m.modified());
                let go_on = match written {
                    Ok(written) => each(&site.join(name), Some(written)),
                    Err(_) => {
                        let top = name.split('/').next().unwrap_or(name);
                        let gone = tops.insert(top) && !site.join(top).exists();
                        !gone || each(&site.join(top), None)
                    }
                };
                if !go_on {
                    return;
                }
            }
        }
    }
}

/// The path in a line of a RECORD.
fn recorded(line: &str) -> Option<&str> {
    let (path, _) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => line.split_once(',')?,
    };
    let passing = path.is_empty() || path.starts_with("..") || path.ends_with(".pyc");
    (!passing).then_some(path)
}

fn told(package: &Package) -> String {
    match &package.version {
        Some(version) => format!("{}=={version}", package.name),
        None => package.name.clone(),
    }
}

fn compare(package: &Package, there: &Installed) -> Option<String> {
    let version = package.version.as_ref();
    if version.is_some_and(|v| !same_version(v, &there.version)) {
        return Some(format!(
            "{} was resolved, and {} is installed",
            told(package),
            there.version
        ));
    }
    let from = |origin: Option<String>| origin.unwrap_or_else(|| "an index".to_owned());
    let resolved = package.origin.as_ref();
    let same = match (resolved, &there.origin) {
        (None, None) => true,
        (Some(origin), Some(direct)) => same_origin(origin, direct),
        _ => false,
    };
    (!same).then(|| {
        format!(
            "{} was resolved from {}, and is installed from {}",
            told(package),
            from(resolved.map(|o| place(&o.url, o.commit.as_deref(), o.subdirectory.as_deref()))),
            from(there.origin.as_ref().map(|d| {
                let commit = d.vcs_info.as_ref().map(|v| v.commit_id.as_str());
                place(&d.url, commit, d.subdirectory.as_deref())
            })),
        )
    })
}

fn place(url: &str, commit: Option<&str>, subdirectory: Option<&str>) -> String {
    let commit = commit.map_or(String::new(), |c| format!("@{c}"));
    let folder = subdirectory.map_or(String::new(), |f| format!("#subdirectory={f}"));
    format!("{url}{commit}{folder}")
}

fn same_origin(resolved: &Origin, there: &DirectUrl) -> bool {
    let commit = there.vcs_info.as_ref().map(|v| &v.commit_id);
    let same_place = match (path_of(&resolved.url), path_of(&there.url)) {
        (Some(a), Some(b)) => a == b || fs::canonicalize(a).ok() == fs::canonicalize(b).ok(),
        (None, None) => bare(&resolved.url) == bare(&there.url),
        _ => false,
    };
    same_place
        && resolved.commit.as_ref() == commit
        && resolved.subdirectory.as_deref() == there.subdirectory.as_deref()
}

/// A URL without the password and fragment in it, which not both have.
fn bare(url: &str) -> String {
    without_password(url.split('#').next().unwrap_or(url))
}

/// Normalised name → what is installed.
fn installed(folder: &Path) -> BTreeMap<String, Installed> {
    let mut all = BTreeMap::new();
    for site in sites(folder) {
        for entry in fs::read_dir(site).into_iter().flatten().flatten() {
            let info = entry.path();
            if info.extension().is_none_or(|e| e != "dist-info") {
                continue;
            }
            let text = text_of(&info.join("METADATA"));
            let field = |name: &str| {
                let header = text.split("\n\n").next().unwrap_or_default();
                let line = header
                    .lines()
                    .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
                line.map(|l| l.trim().to_owned())
            };
            if let (Some(name), Some(version)) = (field("Name"), field("Version")) {
                let origin = serde_json::from_str(&text_of(&info.join("direct_url.json"))).ok();
                all.insert(normalised(&name), Installed { version, origin });
            }
        }
    }
    all
}

/// The folders of packages of an environment.
fn sites(folder: &Path) -> Vec<std::path::PathBuf> {
    let lib = fs::read_dir(folder.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let mut all: Vec<_> = lib.map(|e| e.path().join("site-packages")).collect();
    all.push(folder.join("Lib").join("site-packages"));
    all
}

fn text_of(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(meta) if meta.len() <= MOST_BYTES => {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
        }
        _ => String::new(),
    }
}

/// Whether two versions are one, written in different ways (`2024.01.1` and `2024.1.1`, `1.0-beta.2` and `1.0b2`).
pub(super) fn same_version(a: &str, b: &str) -> bool {
    parts(a) == parts(b)
}

fn parts(version: &str) -> Vec<String> {
    let version = version.trim().to_lowercase();
    let mut all = Vec::new();
    let mut rest = version.trim_start_matches('v');
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let same = |c: char| c.is_ascii_digit() == is_digit && c.is_ascii_alphanumeric();
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let part = match &rest[..end] {
            // A separator.
            "" => {
                let end = first.len_utf8();
                if first == '+' {
                    all.push("+".to_owned());
                }
                rest = &rest[end..];
                continue;
            }
            "alpha" => "a",
            "beta" => "b",
            "c" | "pre" | "preview" => "rc",
            "rev" | "r" => "post",
            digits if is_digit => match digits.trim_start_matches('0') {
                "" => "0",
                digits => digits,
            },
            word => word,
        };
        all.push(part.to_owned());
        rest = &rest[end..];
    }
    // `2.0` and `2.0.0`: a release ends where something else than a number comes.
    let release = all
        .iter()
        .take_while(|p| p.starts_with(|c: char| c.is_ascii_digit()))
        .count();
    let zeros = all[..release]
        .iter()
        .rev()
        .take_while(|p| *p == "0")
        .count();
    let kept = release - zeros;
    all.drain(kept..release);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(folder: &Path, name: &str, version: &str, direct: Option<&str>) {
        let info = folder.join(format!(
            "lib/python3.11/site-packages/{name}-{version}.dist-info"
        ));
        fs::create_dir_all(&info).unwrap();
        let text =
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9\n");
        fs::write(info.join("METADATA"), text).unwrap();
        if let Some(direct) = direct {
            fs::write(info.join("direct_url.json"), direct).unwrap();
        }
    }

    fn package(name: &str, version: Option<&str>, origin: Option<(&str, Option<&str>)>) -> Package {
        Package {
            name: name.into(),
            version: version.map(str::to_owned),
            requirement: name.into(),
            size: None,
            origin: origin.map(|(url, commit)| Origin {
                url: url.into(),
                commit: commit.map(str::to_owned),
                subdirectory: commit.map(|_| "sub".to_owned()),
            }),
            local: Vec::new(),
        }
    }

    #[test]
    fn what_is_installed_is_compared_with_what_was_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let direct = r#"{"url":"file:///my%20place","dir_info":{}}"#;
        let git = r#"{"url":"https://e.org/g","vcs_info":{"vcs":"git","commit_id":"abc"},"subdirectory":"sub"}"#;
        install(dir.path(), "Py_Yaml", "6.00", None);
        install(dir.path(), "mine", "1.0", Some(direct));
        install(dir.path(), "theirs", "1.0", Some(git));
        let yaml = || package("py-yaml", Some("6.0"), None);
        let mine = || package("mine", None, Some(("file:///my place", None)));
        let theirs = || {
            package(
                "theirs",
                Some("1.0"),
                Some(("https://e.org/g", Some("abc"))),
            )
        };
        let said = |packages: Vec<Package>| {
            let lock = Lock {
                python: "3.11.7".into(),
                packages,
                text: String::new(),
            };
            difference(&lock, dir.path()).unwrap_or_else(|| "the same".to_owned())
        };
        assert_eq!(said(vec![yaml(), mine(), theirs()]), "the same");
        assert_eq!(
            said(vec![yaml(), mine()]),
            "theirs==1.0 is installed and was not resolved"
        );
        assert_eq!(
            said(vec![
                yaml(),
                mine(),
                theirs(),
                package("six", Some("1"), None)
            ]),
            "six==1 was resolved and is not installed"
        );
        assert_eq!(
            said(vec![
                package("py-yaml", Some("6.1"), None),
                mine(),
                theirs()
            ]),
            "py-yaml==6.1 was resolved, and 6.00 is installed"
        );
        assert_eq!(
            said(vec![yaml(), package("mine", None, None), theirs()]),
            "mine was resolved from an index, and is installed from file:///my%20place"
        );
        assert_eq!(
            said(vec![yaml(), mine(), package("theirs", None, Some(("https://e.org/g", Some("abd"))))]),
            "theirs was resolved from https://e.org/g@abd#subdirectory=sub, and is installed from https://e.org/g@abc#subdirectory=sub"
        );
        assert_eq!(
            said(vec![
                package("py-yaml", None, Some(("https://e.org/y.whl", None))),
                mine(),
                theirs()
            ]),
            "py-yaml was resolved from https://e.org/y.whl, and is installed from an index"
        );
    }

    #[test]
    fn an_environment_that_lost_a_package_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        install(dir.path(), "six", "1.0", None);
        let site = dir.path().join("lib/python3.11/site-packages");
        let record = "six.py,sha256=0,1\n../../../bin/six,,\nsix/a.py,,\n\"six/b,c.py\",,\nsix-1.0.dist-info/RECORD,,\n__pycache__/six.pyc,,\n";
        fs::write(site.join("six-1.0.dist-info/RECORD"), record).unwrap();
        fs::write(site.join("six.py"), "").unwrap();
        fs::create_dir(site.join("six")).unwrap();
        assert_eq!(damage(dir.path(), None), None);
        fs::remove_dir(site.join("six")).unwrap();
        assert_eq!(
            damage(dir.path(), None),
            Some(format!("{} is gone", site.join("six").display()))
        );
    }

    #[test]
    fn an_environment_in_which_a_file_was_written_since_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        install(dir.path(), "six", "1.0", None);
        let site = dir.path().join("lib/python3.11/site-packages");
        fs::write(
            site.join("six-1.0.dist-info/RECORD"),
            "six.py,,\nsix.pyc,,\n",
        )
        .unwrap();
        fs::write(site.join("six.py"), "").unwrap();
        let made = last_written(dir.path()).unwrap();
        assert_eq!(damage(dir.path(), Some(made)), None);
        fs::write(site.join("six.pyc"), "").unwrap();
        let later = made + std::time::Duration::from_secs(10);
        let file = fs::File::options().write(true).open(site.join("six.py"));
        file.unwrap().set_modified(later).unwrap();
        assert_eq!(
            damage(dir.path(), Some(made)),
            Some(format!(
                "{} was changed since",
                site.join("six.py").display()
            ))
        );
        assert_eq!(damage(dir.path(), Some(later)), None);
    }

    #[test]
    fn versions_are_compared_however_they_are_written() {
        for (a, b) in [
            ("2024.01.1", "2024.1.1"),
            ("1.0-beta.2", "1.0b2"),
            ("v2.0", "2.0.0"),
            ("1.0.C1", "1rc1"),
            ("2.13.0+CPU", "2.13+cpu"),
        ] {
            assert!(same_version(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("2.13.0", "2.13.0+cpu"),
            ("1.10", "1.1"),
            ("1.0b2", "1.0b20"),
            ("2.0", "0.2"),
        ] {
            assert!(!same_version(a, b), "{a} {b}");
        }
    }

    #[test]
    fn passwords_and_fragments_are_no_difference() {
        assert_eq!(
            bare("https://me:secret@e.org/a@b#sha256=0"),
            "https://e.org/a@b"
        );
    }
}
