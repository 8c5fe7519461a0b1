//! `coreai-audit diff` and `coreai-audit snapshot` as a shell sees them.

use assert_cmd::Command;
use coreai_audit::contract::snapshot::Store;
use coreai_audit::contract::{self, Access, Contract, Function, Source, SourceKind, State};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A project folder: a manifest with the models `decoder` and `cnn`, and a folder of snapshots.
struct Project(TempDir);

/// What a command said and how it ended.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Project {
    fn new() -> Self {
        let project = Project(tempfile::tempdir().unwrap());
        let models =
            ["decoder", "cnn"].map(|m| format!("[models.{m}]\nrecipe = \"{m}.py:recipe\"\n"));
        fs::write(project.path("coreai-audit.toml"), models.concat()).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn store(&self) -> Store {
        Store::new(&self.path("snapshots"), false)
    }

    fn pending(&self, model: &str, contract: &Contract) {
        let info = [("torch".to_owned(), "2.13.0".to_owned())];
        self.store().store_pending(model, contract, &info).unwrap();
    }

    fn accepted(&self, model: &str, contract: &Contract) {
        self.pending(model, contract);
        self.store().accept(model).unwrap();
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path("snapshots"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, None)
    }

    fn run_with(&self, args: &[&str], ci: Option<&str>) -> Said {
        let mut command = Command::cargo_bin("coreai-audit").unwrap();
        command
            .current_dir(self.0.path())
            .env_remove("CI")
            .args(args);
        if let Some(ci) = ci {
            command.env("CI", ci);
        }
        let output = command.output().unwrap();
        Said {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn decoder() -> Contract {
    let state = |name: &str, buffer: &str| State {
        name: name.into(),
        dtype: "float16".into(),
        shape: vec![Some(1), None, Some(8)],
        access: Access::ReadWrite,
        source: Some(Source {
            kind: SourceKind::Buffer,
            name: buffer.into(),
            dtype: "float16".into(),
            aliases: vec![],
        }),
    };
    Contract {
        functions: vec![Function {
            name: "main".into(),
            export: None,
            inputs: vec![],
            states: vec![state("key_cache", "k"), state("value_cache", "v")],
            outputs: vec![],
        }],
    }
}

/// Names, order, shapes and dtypes as before, the buffers exchanged.
fn silently_swapped() -> Contract {
    let mut contract = decoder();
    let states = &mut contract.functions[0].states;
    let source = states[0].source.take();
    states[0].source = states[1].source.take();
    states[1].source = source;
    contract
}

fn grown() -> Contract {
    let mut contract = decoder();
    contract.functions[0].states[0].shape[0] = None;
    contract
}

#[test]
fn diff_reads_contracts_and_snapshots_in_any_mix() {
    let project = Project::new();
    project.write("new.json", contract::json(&silently_swapped()));
    project.accepted("decoder", &decoder());
    project.pending("decoder", &silently_swapped());
    let said = project.run(&["diff", "snapshots/decoder.snap", "new.json"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    insta::assert_snapshot!(said.out);
    let same = project.run(&["diff", "snapshots/decoder.snap.new", "new.json"]);
    assert_eq!((same.code, same.out.as_str()), (0, "no changes\n"));
}

#[test]
fn diff_exits_by_what_counts_at_the_level() {
    let project = Project::new();
    project.write("old.json", contract::json(&decoder()));
    project.write("swapped.json", contract::json(&silently_swapped()));
    project.write("grown.json", contract::json(&grown()));
    let code = |new: &str, level: &str| {
        project
            .run(&["diff", "old.json", new, "--level", level])
            .code
    };
    assert_eq!(
        ["strict", "binding", "runtime"].map(|l| code("swapped.json", l)),
        [1, 1, 0]
    );
    assert_eq!(
        ["strict", "binding", "runtime"].map(|l| code("grown.json", l)),
        [1, 0, 0]
    );
    assert_eq!(code("old.json", "strict"), 0);
    insta::assert_snapshot!(project.run(&["diff", "old.json", "grown.json"]).out);
}

#[test]
fn diff_as_json() {
    let project = Project::new();
    project.write("old.json", contract::json(&decoder()));
    project.write("new.json", contract::json(&silently_swapped()));
    let said = project.run(&["diff", "old.json", "new.json", "--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    insta::assert_snapshot!(said.out);
}

#[test]
fn hostile_files_are_refused_quickly_and_clearly() {
    let project = Project::new();
    project.write("good.json", contract::json(&decoder()));
    project.write("empty.json", "");
    project.write("binary.json", b"{\n\xff\xfe");
    project.write("nested.json", "[".repeat(1 << 20));
    project.write(
        "twice.json",
        "{\"schema_version\": 1, \"schema_version\": 1, \"functions\": []}",
    );
    project.write("future.json", "{\"schema_version\": 99, \"functions\": []}");
    project.write(
        "unknown.json",
        "{\"schema_version\": 1, \"functions\": [], \"torch\": 2}",
    );
    project.write("cut.snap", "---\nsource: x\n");
    project.write("torn.snap", "---\nsource x\n---\n{}");
    fs::create_dir(project.path("folder.aimodel")).unwrap();
    let mut huge = fs::File::create(project.path("huge.json")).unwrap();
    huge.write_all(b"[").unwrap();
    huge.set_len(1 << 30).unwrap();
    let names = [
        "missing.json",
        "empty.json",
        "folder.aimodel",
        "binary.json",
        "huge.json",
        "nested.json",
        "twice.json",
        "future.json",
        "unknown.json",
        "cut.snap",
        "torn.snap",
    ];
    let shown = names.map(|name| {
        let said = project.run(&["diff", "good.json", name]);
        assert_eq!(
            (said.code, said.out.as_str()),
            (2, ""),
            "{name}: {}",
            said.err
        );
        said.err
    });
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn check_tells_what_waits_and_what_is_orphaned() {
    let project = Project::new();
    project.accepted("cnn", &decoder());
    assert_eq!(project.run(&["snapshot", "check"]).code, 0);
    project.accepted("decoder", &decoder());
    project.pending("decoder", &silently_swapped());
    project.accepted("gone", &decoder());
    project.pending("other", &decoder());
    let said = project.run(&["snapshot", "check"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(format!("{}--- standard error ---\n{}", said.out, said.err));
    let json = project.run(&["snapshot", "check", "decoder", "--format", "json"]);
    assert_eq!(json.code, 1);
    insta::assert_snapshot!(json.out);
    assert_eq!(project.run(&["snapshot", "check", "cnn"]).code, 0);
    assert_eq!(project.run(&["snapshot", "check", "gone"]).code, 1);
}

#[test]
fn without_a_manifest_nothing_is_orphaned() {
    let project = Project::new();
    project.accepted("gone", &decoder());
    assert_eq!(project.run(&["snapshot", "check"]).code, 1);
    fs::remove_file(project.path("coreai-audit.toml")).unwrap();
    let said = project.run(&["snapshot", "check"]);
    assert_eq!((said.code, said.out.as_str()), (0, "gone  accepted\n"));
}

#[test]
fn a_snapshot_under_a_name_no_model_has_is_told() {
    let project = Project::new();
    fs::remove_file(project.path("coreai-audit.toml")).unwrap();
    project.pending("my model", &decoder());
    assert_eq!(project.run(&["snapshot", "check"]).code, 1);
    // A copy under the model's name, which is not its file's.
    let folder = project.path("snapshots");
    fs::rename(
        folder.join("my_model.snap.new"),
        folder.join("my model.snap.new"),
    )
    .unwrap();
    let said = project.run(&["snapshot", "check"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (
            1,
            "\"my model\"  new, waits for review; orphaned: no model has this snapshot\n"
        )
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_among_the_snapshots_is_refused_and_not_waited_for() {
    let project = Project::new();
    fs::create_dir_all(project.path("snapshots")).unwrap();
    let pipe = project.path("snapshots").join("pipe.snap.new");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for command in ["check", "list"] {
        let said = project.run(&["snapshot", command]);
        assert_eq!(said.code, 2);
        assert!(
            said.err.contains("pipe.snap.new: cannot be read"),
            "{}",
            said.err
        );
    }
}

#[test]
fn a_manifest_speaks_for_its_own_folder_only() {
    let project = Project::new();
    fs::create_dir(project.path("elsewhere")).unwrap();
    Store::new(&project.path("elsewhere"), false)
        .store_pending("x", &decoder(), &[])
        .unwrap();
    let listed = |args: &[&str]| project.run(&[&["snapshot", "list"], args].concat()).out;
    assert_eq!(listed(&["--dir", "elsewhere"]), "x  pending  main\n");
    let manifest = ["--dir", "elsewhere", "--manifest", "coreai-audit.toml"];
    assert_eq!(listed(&manifest), "x  pending, orphaned  main\n");
}

#[test]
fn accept_and_reject_do_what_they_say() {
    let project = Project::new();
    project.accepted("decoder", &decoder());
    project.pending("decoder", &silently_swapped());
    project.pending("cnn", &decoder());
    let said = project.run(&["snapshot", "accept", "decoder"]);
    assert_eq!((said.code, said.out.as_str()), (0, "accepted decoder\n"));
    assert_eq!(project.files(), ["cnn.snap.new", "decoder.snap"]);
    assert_eq!(
        project.store().load("decoder").unwrap().unwrap().contract,
        silently_swapped()
    );
    let said = project.run(&["snapshot", "reject", "--all", "--format", "json"]);
    assert_eq!(said.code, 0);
    assert_eq!(
        said.out,
        "{\n  \"schema_version\": 1,\n  \"rejected\": [\n    \"cnn\"\n  ]\n}\n"
    );
    assert_eq!(project.files(), ["decoder.snap"]);
    let said = project.run(&["snapshot", "accept", "--all"]);
    assert_eq!((said.code, said.out.as_str()), (0, "nothing is pending\n"));
}

#[test]
fn a_model_whose_name_is_no_file_name_is_accepted_without_a_manifest_too() {
    let project = Project::new();
    fs::remove_file(project.path("coreai-audit.toml")).unwrap();
    project.pending("in/out", &decoder());
    let said = project.run(&["snapshot", "accept", "in/out"]);
    assert_eq!((said.code, said.out.as_str()), (0, "accepted in/out\n"));
    assert_eq!(project.files(), ["in_out.snap"]);
}

#[test]
fn accept_is_all_or_nothing() {
    let project = Project::new();
    project.pending("cnn", &decoder());
    project.pending("decoder", &decoder());
    project.write("snapshots/decoder.snap.new", "---\nsource: x\n---\n{");
    let said = project.run(&["snapshot", "accept", "--all"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err
            .starts_with("error: snapshots/decoder.snap.new:4:1: "),
        "{}",
        said.err
    );
    assert_eq!(project.files(), ["cnn.snap.new", "decoder.snap.new"]);
}

#[test]
fn what_to_accept_has_to_be_said() {
    let project = Project::new();
    project.accepted("decoder", &decoder());
    for action in ["accept", "reject"] {
        assert_eq!(project.run(&["snapshot", action]).code, 2);
        assert_eq!(
            project.run(&["snapshot", action, "decoder", "--all"]).code,
            2
        );
        let said = project.run(&["snapshot", action, "decoder"]);
        assert_eq!(said.code, 2);
        assert_eq!(
            said.err,
            "error: model decoder: no pending snapshot (snapshots/decoder.snap.new does not exist); \
             `coreai-audit snapshot list` shows what there is\n"
        );
        let said = project.run(&["snapshot", action, "decodr"]);
        assert_eq!(said.code, 2);
        assert_eq!(
            said.err,
            "error: no snapshot of model decodr in snapshots: did you mean decoder?\n"
        );
    }
}

#[test]
fn nothing_is_decided_in_ci() {
    let project = Project::new();
    project.pending("decoder", &decoder());
    let said = project.run_with(&["snapshot", "accept", "--all"], Some("true"));
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: snapshots/decoder.snap.new: not accepted in an automated build (CI is set); do it locally and \
         commit the file\n"
    );
    assert_eq!(
        project
            .run_with(&["snapshot", "reject", "decoder"], Some("1"))
            .code,
        2
    );
    assert_eq!(project.files(), ["decoder.snap.new"]);
    assert_eq!(
        project.run_with(&["snapshot", "check"], Some("true")).code,
        1
    );
}

#[test]
fn a_review_needs_a_terminal() {
    let project = Project::new();
    project.pending("decoder", &decoder());
    let said = project.run(&["snapshot", "review"]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: a review needs a terminal: see what waits with `coreai-audit snapshot check`, then decide with \
         `coreai-audit snapshot accept MODEL` or `reject MODEL`\n"
    );
}

/// What the program shows on a terminal while these keys are pressed, one at each prompt.
#[cfg(unix)]
fn on_a_terminal(project: &Project, args: &[&str], keys: &[u8]) -> (i32, String) {
    use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
    use std::io::Read;

    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = fs::File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("coreai-audit"))
        .current_dir(project.0.path())
        .env_remove("CI")
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .args(args)
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal)
        .spawn()
        .unwrap();
    let mut master = fs::File::from(master);
    let mut keys = keys.iter();
    let mut shown = Vec::new();
    let mut answered = 0;
    let mut buffer = [0; 4096];
    // Reading fails when the program has closed its end.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
        let prompts = String::from_utf8_lossy(&shown).matches("[?]").count();
        while answered < prompts {
            answered += 1;
            if let Some(key) = keys.next() {
                // Keys that come before the program listens to single ones would be echoed by the terminal.
                std::thread::sleep(std::time::Duration::from_millis(100));
                master.write_all(&[*key]).unwrap();
            }
        }
    }
    (
        child.wait().unwrap().code().unwrap(),
        String::from_utf8_lossy(&shown).into_owned(),
    )
}

#[cfg(unix)]
#[test]
fn a_review_on_a_terminal_takes_single_keys() {
    let project = Project::new();
    project.accepted("decoder", &decoder());
    project.pending("decoder", &silently_swapped());
    project.pending("cnn", &decoder());
    let (code, shown) = on_a_terminal(&project, &["snapshot", "review"], b"ra");
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains("\u{1b}["),
        "no colour on a terminal: {shown}"
    );
    assert!(shown.contains("2 decided, 0 left pending"), "{shown}");
    assert_eq!(project.files(), ["decoder.snap"]);
    assert_eq!(
        project.store().load("decoder").unwrap().unwrap().contract,
        silently_swapped()
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_review_with_nothing_decided() {
    let project = Project::new();
    project.pending("cnn", &decoder());
    project.pending("decoder", &decoder());
    let (code, shown) = on_a_terminal(&project, &["snapshot", "review"], b"\x03");
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("0 decided, 2 left pending"), "{shown}");
}

#[test]
fn the_list_shows_functions_and_versions() {
    let project = Project::new();
    project.accepted("decoder", &decoder());
    project.pending("decoder", &grown());
    project.pending("cnn", &Contract::default());
    project.accepted("gone", &decoder());
    let said = project.run(&["snapshot", "list"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    insta::assert_snapshot!(said.out);
    insta::assert_snapshot!(project.run(&["snapshot", "list", "--format", "json"]).out);
}

#[test]
fn a_missing_folder_is_told() {
    let project = Project::new();
    for action in ["check", "list"] {
        let said = project.run(&["snapshot", action]);
        assert_eq!(said.code, 2);
        assert_eq!(
            said.err,
            "error: cannot list the snapshots in snapshots: run `coreai-audit gate` to make some, or name their \
             folder with --dir\n  because: No such file or directory (os error 2)\n"
        );
    }
}

#[test]
fn a_snapshot_edited_into_nonsense_is_told_with_file_and_line() {
    let project = Project::new();
    project.accepted("decoder", &decoder());
    let path = project.path("snapshots/decoder.snap");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("\"access\": \"read-write\"", "\"access\": \"rw\"");
    fs::write(&path, text).unwrap();
    let said = project.run(&["snapshot", "check"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.starts_with("error: snapshots/decoder.snap:14:87:"),
        "{}",
        said.err
    );
    assert!(
        said.err
            .contains("at `functions[0].states[0].access`: unknown variant `rw`"),
        "{}",
        said.err
    );
    assert!(Path::new(&path).exists());
}
