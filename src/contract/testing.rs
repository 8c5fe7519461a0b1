//! Contracts for tests: a sample by hand, and generated ones.

use super::*;
use proptest::prelude::*;

pub(crate) fn source(kind: SourceKind, name: &str, dtype: &str) -> Option<Source> {
    Some(Source {
        kind,
        name: name.into(),
        dtype: dtype.into(),
        aliases: vec![],
    })
}

pub(crate) fn buffer(name: &str, dtype: &str) -> Option<Source> {
    source(SourceKind::Buffer, name, dtype)
}

pub(crate) fn argument(name: &str, dtype: &str) -> Option<Source> {
    source(SourceKind::Argument, name, dtype)
}

pub(crate) fn port(name: &str, dtype: &str, shape: &[Dim], source: Option<Source>) -> Port {
    Port {
        name: name.into(),
        dtype: dtype.into(),
        shape: shape.into(),
        source,
    }
}

pub(crate) fn state(name: &str, dtype: &str, shape: &[Dim], source: Option<Source>) -> State {
    State {
        name: name.into(),
        dtype: dtype.into(),
        shape: shape.into(),
        access: Access::ReadWrite,
        source,
    }
}

pub(crate) fn function(
    name: &str,
    inputs: Vec<Port>,
    states: Vec<State>,
    outputs: Vec<Port>,
) -> Function {
    Function {
        name: name.into(),
        export: None,
        inputs,
        states,
        outputs,
    }
}

pub(crate) fn contract(functions: impl Into<Vec<Function>>) -> Contract {
    Contract {
        functions: functions.into(),
    }
}

/// A decoder with two caches and a counter, and a second entry point that resets it.
pub(crate) fn sample() -> Contract {
    let cache = [Some(2), Some(1), None, Some(8)];
    let mut decode = function(
        "main",
        vec![
            port(
                "input_ids",
                "int32",
                &[Some(1), None],
                argument("input_ids", "int64"),
            ),
            port(
                "mask",
                "float16",
                &[Some(1), Some(1), None, None],
                argument("masks['causal']", "float16"),
            ),
        ],
        vec![
            state(
                "key_cache",
                "float16",
                &cache,
                buffer("layers.k", "float16"),
            ),
            state(
                "value_cache",
                "float16",
                &cache,
                buffer("layers.v", "float16"),
            ),
            state("say \"n\"\n", "int32", &[], buffer("count", "int64")),
        ],
        vec![port("logits", "float16", &[Some(1), None, Some(32)], None)],
    );
    decode.export = Some(Export { strict: false });
    if let Some(source) = &mut decode.states[0].source {
        source.aliases = vec!["shared.k".into(), "tied k".into()];
    }
    let mut reset = function("reset", vec![], vec![], vec![]);
    let mut cleared = state("key_cache", "float16", &cache, None);
    cleared.access = Access::WriteOnly;
    reset.states.push(cleared);
    contract([decode, reset])
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[abkv]{1,2}",
        1 => any::<String>(),
    ]
}

fn any_dtype() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("float16".to_owned()),
        Just("float32".to_owned()),
        Just("int32".to_owned())
    ]
}

fn any_shape() -> impl Strategy<Value = Vec<Dim>> {
    proptest::collection::vec(
        prop_oneof![
            Just(None),
            Just(Some(1)),
            Just(Some(4)),
            any::<u64>().prop_map(Some)
        ],
        0..3,
    )
}

fn any_source() -> impl Strategy<Value = Option<Source>> {
    let kind = prop_oneof![Just(SourceKind::Buffer), Just(SourceKind::Argument)];
    let aliases = prop_oneof![4 => Just(vec![]), 1 => proptest::collection::vec(any_name(), 1..3)];
    proptest::option::weighted(
        0.8,
        (kind, any_name(), any_dtype(), aliases).prop_map(|(kind, name, dtype, aliases)| Source {
            kind,
            name,
            dtype,
            aliases,
        }),
    )
}

fn any_port() -> impl Strategy<Value = Port> {
    (any_name(), any_dtype(), any_shape(), any_source()).prop_map(|(name, dtype, shape, source)| {
        Port {
            name,
            dtype,
            shape,
            source,
        }
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    prop_oneof![
        Just(Access::ReadWrite),
        Just(Access::WriteOnly),
        Just(Access::ReadOnly),
        Just(Access::Unused)
    ]
}

fn any_state() -> impl Strategy<Value = State> {
    (any_port(), any_access()).prop_map(|(p, access)| State {
        name: p.name,
        dtype: p.dtype,
        shape: p.shape,
        access,
        source: p.source,
    })
}

fn any_function() -> impl Strategy<Value = Function> {
    let ports = || proptest::collection::vec(any_port(), 0..4);
    let states = proptest::collection::vec(any_state(), 0..5);
    let export = proptest::option::of(any::<bool>().prop_map(|strict| Export { strict }));
    (any_name(), export, ports(), states, ports()).prop_map(
        |(name, export, inputs, states, outputs)| Function {
            name,
            export,
            inputs,
            states,
            outputs,
        },
    )
}

/// Any contract with distinct function names; port names, sources and shapes collide often.
pub(crate) fn any_contract() -> impl Strategy<Value = Contract> {
    proptest::collection::vec(any_function(), 0..4).prop_map(|mut functions| {
        let mut seen = std::collections::HashSet::new();
        functions.retain(|f| seen.insert(f.name.clone()));
        Contract { functions }
    })
}
