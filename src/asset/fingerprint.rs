//! The semantic fingerprint: equal for two conversions of one model, different for two programs.
//!
//! Two conversions of one model give different bytes: resource keys, symbols of helper graphs, dates
//! and debug data differ. The fingerprint is a SHA-256 over what the program computes and how it is
//! called: functions by name with their ports and states, ops with attributes, wiring and types, the
//! content of constants, and the stored definitions. Helper graphs count by what they compute where
//! they are called; their names do not.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

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
    let graphs = module.graphs.iter().map(|g| (&g.name, g)).collect();
    let mut hasher = Hasher {
        graphs,
        content,
        done: HashMap::new(),
    };
    let mut all = Sink::new("module");
    let functions: Vec<&Graph> = module.graphs.iter().filter(|g| g.is_function()).collect();
    all.number(functions.len());
    for graph in functions {
        all.text(&graph.name.to_string());
        all.bytes(&hasher.graph(graph));
    }
    hasher.body(&mut all, &module.other);
    Fingerprint(all.finish())
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
    graphs: HashMap<&'m SymbolPath, &'m Graph>,
    content: &'m Contents,
    /// Hashes of graphs; `None` while one is being computed.
    done: HashMap<&'m SymbolPath, Option<[u8; 32]>>,
}

impl<'m> Hasher<'m> {
    fn graph(&mut self, graph: &'m Graph) -> [u8; 32] {
        match self.done.get(&graph.name) {
            Some(Some(hash)) => return *hash,
            // A graph that calls itself: its name must do.
            Some(None) => {
                let mut sink = Sink::new("recursion");
                sink.text(&graph.name.to_string());
                return sink.finish();
            }
            None => {}
        }
        self.done.insert(&graph.name, None);
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
        let hash = sink.finish();
        self.done.insert(&graph.name, Some(hash));
        hash
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
                Attr::Symbol(callee) if key == "callee" => match self.graphs.get(callee).copied() {
                    Some(graph) => sink.bytes(&self.graph(graph)),
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
                sink.bytes(&Sha256::digest(all));
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
