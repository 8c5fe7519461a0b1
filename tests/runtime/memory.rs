//! Real decoders write into the caller's states: the values stay where they are in memory.

use coreai_audit::runtime::generate::{self, Numbers, Step};
use coreai_audit::runtime::{Model, Tensor};

use super::archive;

/// The states of an asset that lie elsewhere after three steps.
fn moved(archive: &str, asset: &str) -> Vec<String> {
    let root = tempfile::tempdir().expect("a directory");
    archive::unpack_into(archive, root.path());
    let model = Model::load(&root.path().join(asset).join("model.aimodel"));
    let function = model.expect("a model").function("main").expect("main");
    let step = |past| Step {
        past,
        length: 1,
        capacity: 64,
        vocabulary: 32,
    };
    let mut numbers = Numbers::seeded(1);
    let mut states: Vec<(String, Tensor)> = Vec::new();
    for port in function.states() {
        let zeros = generate::state(port, step(0)).expect("zeros");
        states.push((port.name.clone(), zeros));
    }
    let before: Vec<_> = states.iter().map(|(_, t)| t.address()).collect();
    for past in 0..3 {
        let inputs: Vec<(String, Tensor)> = function
            .inputs()
            .iter()
            .map(|p| {
                let value = generate::input(p, step(past), &mut numbers);
                (p.name.clone(), value.expect("a value"))
            })
            .collect();
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let mut states: Vec<(&str, &mut Tensor)> =
            states.iter_mut().map(|(n, t)| (n.as_str(), t)).collect();
        function
            .run(&inputs, &mut states, &mut [])
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let after = states.into_iter().zip(before);
    after
        .filter(|((_, t), address)| t.address() != *address)
        .map(|((name, _), _)| name)
        .collect()
}

#[test]
fn caches_of_decoders_stay_where_they_are() {
    let none: [&str; 0] = [];
    assert_eq!(
        moved("calls-qwen3-bf16.tar.zst", "qwen3_tiny_macos_bf16"),
        none
    );
    assert_eq!(
        moved(
            "calls-hybrid.tar.zst",
            "compressed--qwen3_tiny_w4_block32_bf16"
        ),
        none
    );
}

#[test]
fn caches_written_by_index_stay_where_they_are() {
    let none: [&str; 0] = [];
    assert_eq!(moved("calls-writers.tar.zst", "indexput_kv"), none);
}
