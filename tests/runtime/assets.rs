//! Every entry point of every asset at hand runs, on made-up inputs.

use std::path::{Path, PathBuf};

use coreai_audit::runtime::generate::{input, state, Numbers, Step};
use coreai_audit::runtime::{Function, Model, Tensor};

use super::archive;

fn assets(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "aimodel") {
            found.push(path);
        } else if path.is_dir() {
            assets(&path, found);
        }
    }
}

/// Two calls, the second with the states of the first.
fn called(function: &Function) -> Result<(), String> {
    let mut numbers = Numbers::seeded(1);
    let mut step = Step {
        past: 0,
        length: 4,
        capacity: 32,
        vocabulary: 60,
    };
    let zeros = |p| state(p, step).expect("memory");
    let mut states: Vec<(&str, Tensor)> = function
        .states()
        .iter()
        .map(|p| (p.name.as_str(), zeros(p)))
        .collect();
    for _ in 0..2 {
        let mut made = |p| input(p, step, &mut numbers).expect("memory");
        let inputs: Vec<(&str, Tensor)> = function
            .inputs()
            .iter()
            .map(|p| (p.name.as_str(), made(p)))
            .collect();
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (*n, t)).collect();
        let mut states: Vec<(&str, &mut Tensor)> =
            states.iter_mut().map(|(n, t)| (*n, t)).collect();
        let outputs = function
            .run(&inputs, &mut states, &mut [])
            .map_err(|e| e.to_string())?;
        if outputs.len() != function.outputs().len() {
            return Err(format!("{} outputs", outputs.len()));
        }
        step.past += step.length;
        step.length = 1;
    }
    Ok(())
}

#[test]
fn every_entry_point_runs() {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into("assets.tar.zst", root.path());
    let mut found = Vec::new();
    assets(root.path(), &mut found);
    found.sort();
    let (mut count, mut failed) = (0, Vec::new());
    for path in &found {
        let model = Model::load(path).unwrap_or_else(|e| panic!("{e}"));
        let model = model.with_threads(2).expect("threads");
        for name in model.function_names() {
            count += 1;
            if let Err(e) = called(&model.function(name).expect("a function")) {
                let asset = path.strip_prefix(root.path()).expect("inside");
                failed.push(format!("{} {name}: {e}", asset.display()));
            }
        }
    }
    // What is made up for its mask does not fit what is made up for its caches.
    let misfit = "hostcache_decoder.aimodel main: graph sdpa_sunbkzhl: coreai.decomposable.broadcasting_add (op 6): \
                  shapes [1, 2, 1, 5] and [1, 1, 1, 4] do not broadcast";
    assert_eq!(failed, [misfit]);
    assert_eq!((found.len(), count), (30, 41));
}
