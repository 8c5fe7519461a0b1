//! The resolver and installer, `uv`, as a subprocess.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::interrupt::Interrupt;

/// Names the program to run instead of the `uv` found.
const VARIABLE: &str = "UV";
/// Indexes of uv beside the first one.
const EXTRA_INDEXES: &str = "UV_EXTRA_INDEX_URL";
/// What it says is read up to here; a resolver's answer is short.
const MOST_OUTPUT: u64 = 64 << 20;

/// A `uv` to run.
#[derive(Clone, Debug)]
pub struct Uv {
    program: PathBuf,
    offline: bool,
    interrupt: Interrupt,
}

/// Why uv did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum UvError {
    /// There is none.
    #[error("uv is needed to make environments and was not found: pip install \"coreai-audit[upgrade]\", or name Pythons that exist")]
    NotFound,
    /// It cannot be run.
    #[error("cannot run {}: {source}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It said no; one line.
    #[error("{0}")]
    Said(String),
}

impl Uv {
    /// The one named by `UV`, beside `python`, or on the search path.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(
        python: Option<&Path>,
        offline: bool,
        interrupt: &Interrupt,
    ) -> Result<Uv, UvError> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let beside = python.and_then(|p| Some(p.parent()?.join("uv")));
        let on_path = std::env::var_os("PATH").map(|path| {
            std::env::split_paths(&path)
                .map(|folder| folder.join("uv"))
                .find(|p| p.is_file())
        });
        let mut candidates = [named, beside, on_path.flatten()].into_iter().flatten();
        let program = candidates.find(|p| p.is_file()).ok_or(UvError::NotFound)?;
        Ok(Uv {
            program,
            offline,
            interrupt: interrupt.clone(),
        })
    }

    /// Whether the network is left alone.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Resolves requirements for the Python at `python`; the lock in the format of `pylock.toml`.
    /// `refresh` looks again at what uv has cached of indexes and folders.
    pub fn resolve(
        &self,
        requirements: &str,
        folder: Option<&Path>,
        python: &Path,
        refresh: bool,
    ) -> Result<String, UvError> {
        let mut command = self.command(&["pip", "compile", "--quiet", "--no-header"]);
        if refresh && !self.offline {
            command.arg("--refresh");
        }
        command.args(["--format", "pylock.toml", "--python"]);
        command.arg(python).arg("-");
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        self.run(command, Some(requirements)).map(|said| said.out)
    }

    /// Makes an empty environment that can be moved.
    pub fn venv(&self, python: &Path, folder: &Path) -> Result<(), UvError> {
        let mut command = self.command(&["venv", "--quiet", "--relocatable", "--python"]);
        command.arg(python).arg(folder);
        self.run(command, None).map(drop)
    }

    /// Installs exactly what the `pylock.toml` at `lock` says into the environment at `folder`. What is
    /// cached of the packages `anew` is built again; `credentials` are URLs of indexes with a password.
    pub fn sync(
        &self,
        lock: &Path,
        folder: &Path,
        anew: &[&str],
        credentials: &[String],
    ) -> Result<(), UvError> {
        let mut command = self.command(&["pip", "sync", "--quiet", "--link-mode", "hardlink"]);
        command.arg("--python").arg(folder).arg(lock);
        for package in anew {
            command.args(["--refresh-package", package]);
        }
        self.lend(&mut command, credentials);
        self.run(command, None).map(drop)
    }

    /// Names of the packages of the `pylock.toml` at `lock` that uv would have to download for the empty
    /// environment at `folder`; `None` where it does not tell.
    pub fn missing(
        &self,
        lock: &Path,
        folder: &Path,
        credentials: &[String],
    ) -> Result<Option<Vec<String>>, UvError> {
        let mut command = self.command(&["pip", "sync", "--verbose", "--dry-run"]);
        command.arg("--python").arg(folder).arg(lock);
        self.lend(&mut command, credentials);
        let said = self.run(command, None)?;
        Ok(parse_missing(&said.err))
    }

    /// Tells uv the passwords of indexes; a lock has URLs without them. Not as arguments, which every user
    /// of the machine can read.
    fn lend(&self, command: &mut Command, credentials: &[String]) {
        if !credentials.is_empty() {
            let mut all = credentials.to_vec();
            all.extend(std::env::var(EXTRA_INDEXES));
            command.env(EXTRA_INDEXES, all.join(" "));
        }
    }

    /// The interpreter of a version (`3.12`) or at a path.
    pub fn python(&self, wanted: &str) -> Result<PathBuf, UvError> {
        let mut command = self.command(&["python", "find", "--no-project"]);
        command.arg(wanted);
        self.run(command, None)
            .map(|said| PathBuf::from(said.out.trim()))
    }

    /// The folder of its cache.
    pub fn cache_dir(&self) -> Result<PathBuf, UvError> {
        let said = self.run(self.command(&["cache", "dir"]), None)?;
        Ok(PathBuf::from(said.out.trim()))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args);
        command.env("NO_COLOR", "1").env_remove("VIRTUAL_ENV");
        if self.offline {
            command.arg("--offline");
        }
        command
    }

    fn run(&self, mut command: Command, input: Option<&str>) -> Result<Said, UvError> {
        let failed = |source| UvError::Run {
            program: self.program.clone(),
            source,
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, guard) = self.interrupt.spawn(&mut command).map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let input = input.unwrap_or_default().to_owned();
        // Each stream has its own thread: none may wait for another.
        let (out, err) = std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(mut stdin) = stdin {
                    // A program that ends without reading says why on its own.
                    let _ = stdin.write_all(input.as_bytes());
                }
            });
            let err = scope.spawn(move || text_of(stderr));
            (text_of(stdout), err.join().unwrap_or_default())
        });
        let status = child.wait().map_err(failed)?;
        drop(guard);
        match status.success() {
            true => Ok(Said { out, err }),
            false => Err(UvError::Said(self.translate(&err))),
        }
    }

    /// What uv says when it fails, in one line.
    fn translate(&self, said: &str) -> String {
        translate(said, self.offline)
    }
}

/// Begin lines of uv's that are no error: warnings, what its log tells, headings.
const NO_ERROR: &[&str] = &[
    "warning:", "DEBUG ", "TRACE ", "INFO ", "WARN ", "[stderr]", "[stdout]", "--- std",
];

struct Said {
    out: String,
    err: String,
}

fn text_of(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is still worth showing.
        let _ = stream.take(MOST_OUTPUT).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_missing(log: &str) -> Option<Vec<String>> {
    const MARK: &str = "Identified uncached distribution: ";
    let names: Vec<String> = log
        .lines()
        .filter_map(|l| Some(l.split_once(MARK)?.1))
        .map(|d| d.split(['=', ' ']).next().unwrap_or(d).to_owned())
        .collect();
    let told = log.lines().find_map(|l| {
        let count = l.trim().strip_prefix("Would download ")?;
        count.split(' ').next()?.parse::<usize>().ok()
    });
    // The log's wording is uv's own business: it counts only where it agrees with the summary.
    (told.unwrap_or(0) == names.len()).then_some(names)
}

fn translate(said: &str, offline: bool) -> String {
    let lines = || {
        let bare = said.lines().map(|l| {
            l.trim()
                .trim_start_matches(['×', '╰', '─', '▶', '│', '├', ' '])
        });
        bare.filter(|l| !l.is_empty() && !NO_ERROR.iter().any(|n| l.starts_with(n)))
    };
    let text = lines().collect::<Vec<_>>().join(" ");
    let hint = match offline {
        true => "; with --offline only what is in uv's cache can be installed",
        false => "",
    };
    if text.contains("No solution found") {
        return format!("no such set of versions: {}{hint}", because(&text));
    }
    if text.contains("No space left on device") || text.contains("os error 28") {
        return "the disk is full: free some space, name another place with --env-dir, or `coreai-audit upgrade envs prune`".to_owned();
    }
    let unreachable = [
        "dns error",
        "error sending request",
        "Failed to fetch",
        "Connect",
    ];
    if unreachable.iter().any(|u| text.contains(u)) && !offline {
        let place = text.split('`').nth(1).unwrap_or("the package index");
        return format!("the network is needed and {place} cannot be reached: with --offline only what is in uv's cache is used");
    }
    let short: String = reason(lines()).chars().take(400).collect();
    match short.is_empty() {
        true => format!("uv failed and said nothing{hint}"),
        false => format!("uv: {short}{hint}"),
    }
}

/// What failed and the deepest of its causes: of a program that was run, the last line it said.
fn reason<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let (mut what, mut cause) = ("", "");
    let mut in_hint = false;
    for line in lines {
        if let Some(error) = line.strip_prefix("error: ") {
            (what, cause, in_hint) = (error, "", false);
        } else if line.starts_with("hint:") {
            in_hint = true;
        } else if what.is_empty() {
            what = line;
        } else if !in_hint {
            let line = ["cause: ", "Caused by: "]
                .iter()
                .find_map(|p| line.strip_prefix(p))
                .unwrap_or(line);
            cause = match cause {
                // Two hashes that differ are one cause.
                c if c.ends_with(':') || line.ends_with(':') || line.starts_with("sha") => {
                    if c.is_empty() {
                        line
                    } else {
                        c
                    }
                }
                _ => line,
            };
        }
    }
    match cause.is_empty() || what.contains(cause) {
        true => what.to_owned(),
        false => format!("{}: {cause}", what.trim_end_matches(':')),
    }
}

/// The facts of a chain "Because A and B, we can conclude that C. And because D, …", without the
/// conclusions drawn on the way.
fn because(text: &str) -> String {
    let Some(at) = text.find("Because ") else {
        return text.trim_start_matches("error: ").to_owned();
    };
    let chain = text[at..].split(" hint: ").next().unwrap_or_default();
    let mut facts: Vec<String> = Vec::new();
    for sentence in chain.split(". And because ") {
        let sentence = sentence.trim_start_matches("Because ");
        let given = sentence
            .split(", we can conclude that ")
            .next()
            .unwrap_or(sentence);
        for fact in given.split(" and ") {
            let fact = fact.trim().trim_end_matches([',', '.']).to_owned();
            if !fact.is_empty() && !facts.contains(&fact) {
                facts.push(fact);
            }
        }
    }
    crate::text::list(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_cannot_be_is_told_in_one_line() {
        let said = "  × No solution found when resolving dependencies:\n  \
            ╰─▶ Because coreai-torch>=0.4.3 depends on coreai-core==1.0.0b3 and you require\n      \
            coreai-torch==0.4.3, we can conclude that you require coreai-core==1.0.0b3.\n      \
            And because you require coreai-core==1.0.0b2, we can conclude that your\n      \
            requirements are unsatisfiable.\n";
        assert_eq!(
            translate(said, false),
            "no such set of versions: coreai-torch>=0.4.3 depends on coreai-core==1.0.0b3, \
             you require coreai-torch==0.4.3 and you require coreai-core==1.0.0b2"
        );
        let said = "error: No solution found when resolving dependencies\n  cause: Because there is no version of torch==9.13.0 and you require torch==9.13.0, we can conclude that your requirements are unsatisfiable.\n";
        assert_eq!(
            translate(said, false),
            "no such set of versions: there is no version of torch==9.13.0 and you require torch==9.13.0"
        );
        assert!(translate(said, true)
            .ends_with("; with --offline only what is in uv's cache can be installed"));
    }

    #[test]
    fn a_full_disk_and_a_dead_network_are_told_as_what_they_are() {
        let full = "error: Failed to install: torch-2.13.0.whl (torch==2.13.0)\n  Caused by: failed to copy file: No space left on device (os error 28)\n";
        assert!(translate(full, false).starts_with("the disk is full: "));
        let dead = "error: Failed to fetch: `https://pypi.org/simple/torch/`\n  Caused by: Request failed after 3 retries\n  Caused by: dns error: failed to lookup address information\n";
        assert_eq!(
            translate(dead, false),
            "the network is needed and https://pypi.org/simple/torch/ cannot be reached: with --offline only what is in uv's cache is used"
        );
        assert_eq!(translate("error: Broken\n", false), "uv: Broken");
        assert_eq!(translate("", false), "uv failed and said nothing");
    }

    #[test]
    fn of_a_chain_of_causes_what_failed_and_why_is_told() {
        let subdirectory = "DEBUG uv 0.13.9\nDEBUG Searching for Python\nUsing Python 3.11.7 environment at: E\nTRACE x\n\
            error: Failed to download and build `m @ git+file:///g#subdirectory=no`\n  \
            cause: The source distribution `git+file:///g#subdirectory=no` has no subdirectory `no`\n";
        assert_eq!(
            translate(subdirectory, false),
            "uv: Failed to download and build `m @ git+file:///g#subdirectory=no`: The source distribution \
             `git+file:///g#subdirectory=no` has no subdirectory `no`"
        );
        let build = "error: Failed to build `bad @ file:///bad`\n  cause: The build backend returned an error\n  \
            cause: Call to `setuptools.build_meta` failed (exit status: 1)\n\n         [stderr]\n         \
            Traceback (most recent call last):\n           File \"<string>\", line 1, in <module>\n         \
            RuntimeError: no compiler for you\n\nhint: Build failures usually indicate a problem with the package\n";
        assert_eq!(
            translate(build, false),
            "uv: Failed to build `bad @ file:///bad`: RuntimeError: no compiler for you"
        );
        let branch = "error: Failed to download and build `m @ git+file:///g@no`\n  cause: Git operation failed\n  \
            cause: process didn't exit successfully: `git fetch` (exit status: 128)\n         --- stderr\n         \
            fatal: couldn't find remote ref refs/tags/no\n";
        assert_eq!(
            translate(branch, false),
            "uv: Failed to download and build `m @ git+file:///g@no`: fatal: couldn't find remote ref refs/tags/no"
        );
        let hash = "error: Failed to download `six==1.16.0`\n  cause: Hash mismatch for `six==1.16.0`\n\n         \
            Expected:\n           sha256:00\n\n         Computed:\n           sha256:8a\n";
        assert_eq!(
            translate(hash, false),
            "uv: Failed to download `six==1.16.0`: Hash mismatch for `six==1.16.0`"
        );
    }

    #[test]
    fn what_must_be_downloaded_is_believed_only_where_log_and_summary_agree() {
        let log = "DEBUG Identified uncached distribution: torch==2.9.1\nDEBUG Identified uncached distribution: shim @ file:///s.whl\nWould download 2 packages\nWould install 3 packages\n";
        assert_eq!(parse_missing(log).unwrap(), ["torch", "shim"]);
        assert_eq!(
            parse_missing("Would install 3 packages\n").unwrap(),
            [""; 0]
        );
        assert_eq!(parse_missing("Would download 2 packages\n"), None);
    }
}
