//! Lines of requirements: split from one argument, read from a file with the files it includes, and what of
//! them a lock does not carry: hashes that are asked for, and where packages are looked for.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A requirements file is written by hand or by a resolver; anything larger is something else.
pub(super) const MOST_BYTES: u64 = 4 << 20;
/// More files than this do not include one another by hand.
const MOST_FILES: usize = 100;
/// Ends or begins a word that belongs to its neighbour.
const GLUE: [char; 6] = ['=', '<', '>', '~', '!', '@'];
/// Options that include another file.
const INCLUDES: &[&str] = &["-r", "--requirement", "-c", "--constraint"];
/// Options that name an index.
const INDEXES: &[&str] = &["-i", "--index-url", "--extra-index-url"];
/// Options that name a folder or page of packages.
const LINKS: &[&str] = &["-f", "--find-links"];
/// Options whose value may stand in the next word.
const WITH_VALUE: &[&str] = &[
    "-e",
    "--editable",
    "-r",
    "--requirement",
    "-c",
    "--constraint",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "--no-binary",
    "--only-binary",
];

/// Requirements of one argument, such as `torch==2.13.0 numpy<3`.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match all.last_mut() {
            Some(last) => match joint(last, word) {
                Some(between) => {
                    last.push_str(between);
                    last.push_str(word);
                }
                None => {
                    // A comma between two requirements.
                    last.truncate(last.trim_end_matches(',').len());
                    all.push(word.to_owned());
                }
            },
            None => all.push(word.to_owned()),
        }
    }
    all
}

/// What stands between two words of one requirement; `None` where the second begins another.
fn joint(last: &str, word: &str) -> Option<&'static str> {
    if WITH_VALUE.contains(&last) || word.starts_with("--hash") {
        return Some(" ");
    }
    if let Some((_, marker)) = last.split_once(';') {
        let goes_on = !is_complete(marker) || word == "and" || word == "or";
        return goes_on.then_some(" ");
    }
    if word.starts_with(';') || word == "@" || last.ends_with('@') {
        return Some(" ");
    }
    let is_open = last.matches('[').count() > last.matches(']').count();
    let glued = last.ends_with(GLUE) || word.starts_with(GLUE) || is_open;
    // `torch >=2.13, <2.15` is one requirement, `torch>=2.13, numpy` is two.
    glued.then_some("")
}

/// Whether an environment marker such as `python_version >= "3.9" and (a == b or c in d)` is at its end.
fn is_complete(marker: &str) -> bool {
    let (mut depth, mut operands, mut comparisons, mut joins) = (0_i64, 0, 0, 0);
    let mut rest = marker.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => match rest[1..].find(first) {
                Some(end) => {
                    operands += 1;
                    end + 2
                }
                None => return false,
            },
            '(' | ')' => {
                depth += if first == '(' { 1 } else { -1 };
                1
            }
            c if "<>=!~".contains(c) => {
                comparisons += 1;
                rest.len() - rest.trim_start_matches(|c| "<>=!~".contains(c)).len()
            }
            c if is_name(c) => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                match &rest[..end] {
                    "and" | "or" => joins += 1,
                    "in" => comparisons += 1,
                    "not" => {}
                    _ => operands += 1,
                }
                end
            }
            c => c.len_utf8(),
        };
        rest = rest[length..].trim_start();
    }
    depth == 0 && operands == 2 * comparisons && comparisons == joins + 1
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// The lines of a requirements file: continued ones joined, comments and empty ones left out.
pub(super) fn lines_of(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        match line.strip_suffix('\\') {
            Some(part) => open.push_str(part),
            None => lines.push(std::mem::take(&mut open) + line),
        }
    }
    lines.push(open);
    lines
        .iter()
        .map(|l| {
            let comment = l.find('#').filter(|&at| {
                let before = l[..at].chars().next_back();
                before.is_none_or(char::is_whitespace)
            });
            l[..comment.unwrap_or(l.len())].trim().to_owned()
        })
        .filter(|l| !l.is_empty())
        .collect()
}

/// Requirements with those of the files they include.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    /// Every line, in the order read.
    pub(super) lines: Vec<String>,
    /// Options that say where packages are looked for; paths are absolute.
    pub(super) indexes: Vec<String>,
    /// Package → hashes (`sha256:…`), one of which its file must have.
    pub(super) hashes: BTreeMap<String, Vec<String>>,
    /// Whether every package needs a hash.
    pub(super) all_hashed: bool,
}

/// Reads what `lines`, relative to `folder`, include.
///
/// # Errors
/// In one line, when a file cannot be read, or a hash cannot be enforced.
pub(super) fn gather(lines: &[String], folder: &Path) -> Result<Gathered, String> {
    let mut all = Gathered::default();
    let mut seen = HashSet::new();
    all.add(lines, folder, &mut seen)?;
    Ok(all)
}

impl Gathered {
    fn add(
        &mut self,
        lines: &[String],
        folder: &Path,
        seen: &mut HashSet<PathBuf>,
    ) -> Result<(), String> {
        for line in lines {
            self.lines.push(line.clone());
            if let Some(name) = value(line, INCLUDES) {
                let path = folder.join(name);
                if name.contains("://") {
                    return Err(format!("{line}: expected a file: what a list on the network holds is not known the next time"));
                }
                if !seen.insert(std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone())) {
                    continue;
                }
                if seen.len() > MOST_FILES {
                    return Err(format!(
                        "{line}: more than {MOST_FILES} files of requirements"
                    ));
                }
                let text = read(&path).map_err(|e| {
                    format!("{}: cannot read the requirements: {e}", path.display())
                })?;
                let inner = path.parent().unwrap_or(folder);
                self.add(&lines_of(&text), inner, seen)?;
            } else if let Some(url) = value(line, INDEXES) {
                let option = line.split([' ', '=']).next().unwrap_or_default();
                let option = if option.starts_with("-i") {
                    "--index-url"
                } else {
                    option
                };
                self.indexes.push(format!("{option} {url}"));
            } else if let Some(place) = value(line, LINKS) {
                let place = match place.contains("://") {
                    true => place.to_owned(),
                    false => absolute(&folder.join(place)),
                };
                self.indexes.push(format!("--find-links {place}"));
            } else if line == "--no-index" {
                self.indexes.push(line.clone());
            } else if line == "--require-hashes" {
                self.all_hashed = true;
            } else {
                self.add_hashes(line)?;
            }
        }
        Ok(())
    }

    fn add_hashes(&mut self, line: &str) -> Result<(), String> {
        let mut hashes: Vec<String> = line
            .split_whitespace()
            .filter_map(|w| Some(w.strip_prefix("--hash")?.trim_start_matches('=')))
            .map(str::to_lowercase)
            .collect();
        let requirement = line.split(" --hash").next().unwrap_or(line);
        let fragment = requirement.split_once('#').map_or("", |(_, f)| f);
        let fragment = fragment.split([' ', ';']).next().unwrap_or_default();
        for part in fragment.split('&') {
            if let Some(("sha256" | "sha384" | "sha512" | "sha1" | "md5", _)) = part.split_once('=')
            {
                hashes.push(part.replacen('=', ":", 1).to_lowercase());
            }
        }
        if hashes.is_empty() {
            return Ok(());
        }
        let name = name_of(requirement).ok_or_else(|| {
            format!("{requirement}: its hash cannot be checked without a name: write NAME @ {requirement}")
        })?;
        self.hashes.entry(name).or_default().extend(hashes);
        Ok(())
    }

    /// The URLs of indexes.
    pub(super) fn index_urls(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().filter_map(|o| value(o, INDEXES))
    }

    /// Indexes with a name and password in them.
    pub(super) fn credentials(&self) -> Vec<&str> {
        let urls = self.index_urls();
        urls.filter(|url| {
            let host = url.split_once("://").map_or("", |(_, rest)| rest);
            host.split('/').next().is_some_and(|h| h.contains('@'))
        })
        .collect()
    }
}

/// The normalised name of the package that a requirement is for, where it has one.
fn name_of(requirement: &str) -> Option<String> {
    let bare = requirement.split(['#', ';']).next()?.trim();
    let path = !bare.contains('@') && bare.contains(['/', '\\']);
    let end = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c));
    let name = match path {
        // A wheel's file name begins with it.
        true => {
            let file = bare.rsplit(['/', '\\']).next()?;
            file.strip_suffix(".whl")?.split('-').next()?
        }
        false => bare.split(end).next()?,
    };
    (!name.is_empty()).then(|| normalised(name))
}

/// A package's name as indexes compare it.
pub(super) fn normalised(name: &str) -> String {
    let mut all = String::new();
    for part in name.split(['-', '_', '.']).filter(|p| !p.is_empty()) {
        if !all.is_empty() {
            all.push('-');
        }
        all.push_str(&part.to_lowercase());
    }
    all
}

/// The value of one of `options`, as `-r FILE`, `-rFILE`, `--requirement FILE` or `--requirement=FILE`.
fn value<'l>(line: &'l str, options: &[&str]) -> Option<&'l str> {
    options.iter().find_map(|option| {
        let rest = line.strip_prefix(option)?;
        let is_short = !option.starts_with("--") && !rest.starts_with('-');
        let rest = match rest.strip_prefix('=') {
            Some(rest) => rest,
            None if is_short || rest.starts_with(char::is_whitespace) => rest,
            None => return None,
        };
        let rest = rest.trim().trim_matches(['"', '\'']);
        (!rest.is_empty()).then_some(rest)
    })
}

/// Reads a file of requirements.
///
/// # Errors
/// When it cannot be read, or is too large to be one.
pub(super) fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    // A device may never end, whatever it says its size is.
    let file = std::fs::File::open(path)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        let what = format!("more than {MOST_BYTES} bytes are too many");
        return Err(std::io::Error::other(what));
    }
    Ok(text)
}

fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_argument_is_split_where_requirements_end() {
        let cases: &[(&str, &[&str])] = &[
            ("torch >= 2.13, numpy<3", &["torch>=2.13", "numpy<3"]),
            ("torch >= 2.13, <2.15 six", &["torch>=2.13,<2.15", "six"]),
            (
                "shim @ file:///a/shim.whl torch",
                &["shim @ file:///a/shim.whl", "torch"],
            ),
            (
                r#"torch==2.13.0; python_version >= "3.9" six"#,
                &[r#"torch==2.13.0; python_version >= "3.9""#, "six"],
            ),
            (
                "torch ; sys_platform == 'linux' and (a > '1' or 'x y' in b) six ;python_version<'4' numpy",
                &[
                    "torch ; sys_platform == 'linux' and (a > '1' or 'x y' in b)",
                    "six ;python_version<'4'",
                    "numpy",
                ],
            ),
            ("torch;os_name not in 'nt' or a == b six", &["torch;os_name not in 'nt' or a == b", "six"]),
            ("foo[a, b] >=1 six", &["foo[a,b]>=1", "six"]),
            (
                "--extra-index-url https://e.org/x -e ./here six==1 --hash=sha256:00 -r more.txt",
                &["--extra-index-url https://e.org/x", "-e ./here", "six==1 --hash=sha256:00", "-r more.txt"],
            ),
            ("git+https://e.org/x@main#subdirectory=a torch", &["git+https://e.org/x@main#subdirectory=a", "torch"]),
            ("", &[]),
        ];
        for (text, lines) in cases {
            assert_eq!(split(text), *lines, "{text}");
        }
    }

    #[test]
    fn lines_are_joined_and_comments_dropped() {
        let text = "# ours\ntorch==2.13.0 \\\n  --hash=sha256:00  # pinned\n\nx @ https://e.org/x#subdirectory=a\nlast\\";
        assert_eq!(
            lines_of(text),
            [
                "torch==2.13.0   --hash=sha256:00",
                "x @ https://e.org/x#subdirectory=a",
                "last"
            ]
        );
    }

    #[test]
    fn what_a_lock_does_not_carry_is_gathered_from_every_file() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        write(
            "sub/more.txt",
            "-f ./wheels\n-r ../again.txt\nsix --hash=sha256:AA --hash=md5:bb\n",
        );
        write(
            "again.txt",
            "-rsub/more.txt\nname @ file:///x-1.0.tar.gz#egg=e&sha256=cc\n",
        );
        let lines: Vec<String> = [
            "--requirement=sub/more.txt",
            "--index-url https://me:secret@e.org/simple",
            "--extra-index-url=https://e.org/other@2",
            "--no-index",
            "./My_Wheel-1.0-py3-none-any.whl --hash=sha256:dd",
        ]
        .map(String::from)
        .into();
        let all = gather(&lines, dir.path()).unwrap();
        assert_eq!(all.lines.len(), 10);
        assert_eq!(
            all.indexes,
            [
                format!("--find-links {}", dir.path().join("sub/./wheels").display())
                    .replace("/./", "/"),
                "--index-url https://me:secret@e.org/simple".into(),
                "--extra-index-url https://e.org/other@2".into(),
                "--no-index".into(),
            ]
        );
        assert_eq!(all.credentials(), ["https://me:secret@e.org/simple"]);
        let hashes: Vec<(&str, String)> = all
            .hashes
            .iter()
            .map(|(name, h)| (name.as_str(), h.join(" ")))
            .collect();
        assert_eq!(
            hashes,
            [
                ("my-wheel", "sha256:dd".to_owned()),
                ("name", "sha256:cc".to_owned()),
                ("six", "sha256:aa md5:bb".to_owned()),
            ]
        );
        let said = |line: &str| gather(&[line.to_owned()], dir.path()).unwrap_err();
        assert!(said("-r gone.txt").contains("gone.txt: cannot read the requirements: "));
        assert!(said("-r /dev/zero").contains("bytes are too many"));
        assert!(said("-r https://e.org/r.txt").ends_with("is not known the next time"));
        assert_eq!(
            said("./x.tar.gz --hash=sha256:00"),
            "./x.tar.gz: its hash cannot be checked without a name: write NAME @ ./x.tar.gz"
        );
    }
}
