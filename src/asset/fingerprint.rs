//! The semantic fingerprint: equal for two conversions of one model, different for two programs.
//!
//! Two conversions of one model give different bytes: resource keys, symbols of helper graphs, dates
//! and debug data differ. The fingerprint is a SHA-256 over what the program computes and how it is
//! called: functions by name with their ports and states, ops with attributes, wiring and types, the
//! content of constants, and the stored definitions. Helper graphs count by what they compute where
//! they are called; their names do not.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ir::{
    Attr, AttrDict, Body, Dense, Graph, Module, Op, Payload, Region, SymbolPath, ValueId,
};

/// Changes when the rules change, so that fingerprints of different rules never look equal.
const RULES: &str = "coreai-audit fingerprint 1";

/// Names of helper graphs' ports come from the tracer; the mark of a mutated buffer does too.
const NAME: &str = "coreai.name";
const MUTATION: &str = "MutableBuffers.buffer_mutation";

/// A SHA-256 of what a program means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Hashes of the data of resources, by where it lies in the file.
pub(super) type Contents = HashMap<Range<usize>, [u8; 32]>;

/// The fingerprint of a program read with definitions. `content` gives the hash of a resource's bytes;
/// a constant whose data is not at hand counts as its type alone.
pub(super) fn of(module: &Module, content: &Contents) -> Fingerprint {
    let mut hasher = Hasher {
        content,
        inline: HashMap::new(),
        done: HashMap::new(),
    };
    for graph in callees_first(module) {
        let hash = hasher.graph(graph);
        hasher.done.insert(&graph.name, hash);
    }
    let mut all = Sink::new("module");
    let functions: Vec<&Graph> = module.graphs.iter().filter(|g| g.is_function()).collect();
    all.number(functions.len());
    for graph in functions {
        all.text(&graph.name.to_string());
        all.bytes(&hasher.done[&graph.name]);
    }
    hasher.body(&mut all, &module.other);
    Fingerprint(all.finish())
}

/// All graphs, each behind those it calls, but for calls in a circle. Chains of calls may be long, so
/// they are not followed by recursion.
fn callees_first(module: &Module) -> Vec<&Graph> {
    let by_name: HashMap<&SymbolPath, &Graph> =
        module.graphs.iter().map(|g| (&g.name, g)).collect();
    let callees = |graph: &Graph| -> Vec<&Graph> {
        let calls = graph.body.walk().filter_map(|(_, op)| op.callee());
        calls
            .filter_map(|name| by_name.get(name).copied())
            .collect()
    };
    let mut order = Vec::with_capacity(module.graphs.len());
    let mut met = HashSet::new();
    for graph in &module.graphs {
        let mut open = vec![(graph, false)];
        while let Some((graph, called_all)) = open.pop() {
            if called_all {
                order.push(graph);
            } else if met.insert(&graph.name) {
                open.push((graph, true));
                open.extend(callees(graph).into_iter().map(|g| (g, false)));
            }
        }
    }
    order
}

/// Collects tagged, length-prefixed fields, so that no two different programs give one stream.
struct Sink(Sha256);

impl Sink {
    fn new(tag: &str) -> Sink {
        let mut sink = Sink(Sha256::new());
        sink.text(RULES);
        sink.text(tag);
        sink
    }

    fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Values count by the order of their definition, whatever their numbers are.
struct Numbers {
    of: Vec<usize>,
    next: usize,
}

impl Numbers {
    fn define(&mut self, value: ValueId) {
        self.of[value.0 as usize] = self.next;
        self.next += 1;
    }
}

struct Hasher<'m> {
    content: &'m Contents,
    /// Hashes of inline data, by where it is.
    inline: HashMap<*const u8, [u8; 32]>,
    /// Hashes of graphs.
    done: HashMap<&'m SymbolPath, [u8; 32]>,
}

impl<'m> Hasher<'m> {
    /// The hash of a graph whose callees are hashed.
    fn graph(&mut self, graph: &'m Graph) -> [u8; 32] {
        let mut sink = Sink::new("graph");
        sink.number(usize::from(graph.is_function()));
        match &graph.composite {
            Some(composite) => {
                sink.text(&composite.name);
                attrs(&mut sink, &composite.attrs);
            }
            None => sink.text(""),
        }
        let ports = graph.args.iter().map(|a| (&a.ty, &a.attrs));
        let ports = ports.chain(graph.results.iter().map(|r| (&r.ty, &r.attrs)));
        sink.number(graph.args.len());
        sink.number(graph.results.len());
        for (ty, attributes) in ports {
            sink.text(&ty.to_string());
            let mut kept = attributes.clone();
            if kept.remove(MUTATION).is_some() {
                sink.text(MUTATION);
            }
            if !graph.is_function() {
                kept.remove(NAME);
            }
            attrs(&mut sink, &kept);
        }
        attrs(&mut sink, &graph.attrs);
        self.body(&mut sink, &graph.body);
        sink.finish()
    }

    fn body(&mut self, sink: &mut Sink, body: &'m Body) {
        let mut numbers = Numbers {
            of: vec![usize::MAX; body.values.len()],
            next: 0,
        };
        self.region(sink, body, &body.region, &mut numbers);
    }

    fn region(
        &mut self,
        sink: &mut Sink,
        body: &'m Body,
        region: &'m Region,
        numbers: &mut Numbers,
    ) {
        sink.number(region.blocks.len());
        for block in &region.blocks {
            sink.number(block.args.len());
            for arg in &block.args {
                sink.text(&body.ty(*arg).to_string());
                numbers.define(*arg);
            }
            sink.number(block.ops.len());
            for id in &block.ops {
                let op = body.op(*id);
                self.op(sink, body, op, numbers);
                for result in &op.results {
                    numbers.define(*result);
                }
                sink.number(op.regions.len());
                for inner in &op.regions {
                    self.region(sink, body, inner, numbers);
                }
            }
        }
    }

    fn op(&mut self, sink: &mut Sink, body: &'m Body, op: &'m Op, numbers: &Numbers) {
        sink.text(&op.name);
        sink.number(op.operands.len());
        for operand in &op.operands {
            sink.number(numbers.of[operand.0 as usize]);
        }
        sink.number(op.results.len());
        for result in &op.results {
            sink.text(&body.ty(*result).to_string());
        }
        sink.number(op.attrs.len());
        for (key, value) in &op.attrs {
            sink.text(key);
            match value {
                Attr::Dense(data) => self.constant(sink, data),
                Attr::Symbol(callee) if key == "callee" => match self.done.get(callee) {
                    Some(hash) => sink.bytes(hash),
                    // Not in the program, or a graph that calls itself: its name must do.
                    None => sink.text(&callee.to_string()),
                },
                value => sink.text(&value.to_string()),
            }
        }
        match &op.definition {
            Some(definition) => {
                sink.text("definition");
                self.body(sink, definition);
            }
            None => sink.text(""),
        }
    }

    fn constant(&mut self, sink: &mut Sink, data: &Dense) {
        sink.text(&data.ty.to_string());
        match &data.payload {
            Payload::Splat(one) => {
                sink.text("splat");
                sink.bytes(one);
            }
            Payload::Elements(all) => {
                sink.text("elements");
                // Constants may share their data; it is alive as long as the module.
                let hash = self
                    .inline
                    .entry(Arc::as_ptr(all).cast())
                    .or_insert_with(|| Sha256::digest(all).into());
                sink.bytes(hash);
            }
            Payload::Resource { data, .. } => {
                match data.as_ref().and_then(|d| self.content.get(&d.range())) {
                    Some(hash) => {
                        sink.text("elements");
                        sink.bytes(hash);
                    }
                    None => sink.text("absent"),
                }
            }
            Payload::Elided => sink.text("absent"),
        }
    }
}

fn attrs(sink: &mut Sink, attrs: &AttrDict) {
    sink.number(attrs.len());
    for (key, value) in attrs {
        sink.text(key);
        sink.text(&value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;

    const T: &str = "tensor<2xf32>";

    fn fingerprint(text: &str) -> Fingerprint {
        of(
            &parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")),
            &Contents::new(),
        )
    }

    fn chain(length: usize, op: &str) -> String {
        let mut text = format!("module {{ coreai.graph private @g0(%x: {T}) -> {T} {{ %0 = coreai.{op} %x : {T} -> {T}\ncoreai.output %0 : {T} }}\n");
        for i in 1..length {
            text.push_str(&format!(
                "coreai.graph private @g{i}(%x: {T}) -> {T} {{ %0 = coreai.invoke @g{}(%x) : ({T}) -> {T}\ncoreai.output %0 : {T} }}\n",
                i - 1
            ));
        }
        text + &format!(
            "coreai.graph @main(%x: {T}) -> {T} {{ %0 = coreai.invoke @g{}(%x) : ({T}) -> {T}\ncoreai.output %0 : {T} }} }}",
            length - 1
        )
    }

    #[test]
    fn a_change_at_the_end_of_a_long_chain_of_calls_shows() {
        let (a, b) = (
            fingerprint(&chain(5_000, "exp")),
            fingerprint(&chain(5_000, "tanh")),
        );
        assert_ne!(a, b);
        assert_eq!(a, fingerprint(&chain(5_000, "exp")));
    }

    #[test]
    fn names_and_places_of_helpers_do_not_count() {
        let text = chain(3, "exp");
        assert_eq!(
            fingerprint(&text),
            fingerprint(&text.replace("@g", "@helper_7f3a_"))
        );
        let helper =
            format!("coreai.graph private @unused(%x: {T}) -> {T} {{ coreai.output %x : {T} }}\n");
        assert_eq!(
            fingerprint(&text),
            fingerprint(&text.replacen("module { ", &format!("module {{ {helper}"), 1))
        );
    }

    #[test]
    fn graphs_that_call_in_a_circle_have_a_fingerprint() {
        let text = format!(
            "module {{ coreai.graph @a(%x: {T}) -> {T} {{ %0 = coreai.invoke @b(%x) : ({T}) -> {T}\ncoreai.output %0 : {T} }}\n\
             coreai.graph @b(%x: {T}) -> {T} {{ %0 = coreai.invoke @a(%x) : ({T}) -> {T}\ncoreai.output %0 : {T} }} }}"
        );
        assert_eq!(fingerprint(&text), fingerprint(&text));
    }
}
