//! Modules, graphs, ops and values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::attr::{Attr, AttrDict, Composite};
use super::types::{SymbolPath, Type};

/// A program: its graphs in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The module's own symbol, where it has one.
    pub name: Option<String>,
    /// Attributes of the module (an asset does not keep them).
    pub attrs: AttrDict,
    /// Entry points and private helpers, in file order.
    pub graphs: Vec<Graph>,
    /// Module-level ops that are neither graphs nor namespaces (a target specification, …).
    pub other: Body,
}

impl Module {
    /// The graph with this path.
    pub fn graph(&self, name: &SymbolPath) -> Option<&Graph> {
        self.graphs.iter().find(|g| &g.name == name)
    }

    /// What consumers call each graph: the parts of its name joined. The runtime lifts graphs out of
    /// their namespaces one after the other; where a name is taken, a number makes it another (`a_b_0`).
    pub fn flat_names(&self) -> Vec<String> {
        let top = |g: &&Graph| g.name.0.len() < 2;
        let mut taken: HashSet<String> = self
            .graphs
            .iter()
            .filter(top)
            .map(|g| g.name.0.join("_"))
            .collect();
        let mut next: HashMap<String, usize> = HashMap::new();
        let names = self.graphs.iter().map(|graph| {
            let joined = graph.name.0.join("_");
            if graph.name.0.len() < 2 || taken.insert(joined.clone()) {
                return joined;
            }
            let number = next.entry(joined.clone()).or_default();
            loop {
                let numbered = format!("{joined}_{number}");
                *number += 1;
                if taken.insert(numbered.clone()) {
                    return numbered;
                }
            }
        });
        names.collect()
    }
}

/// One graph: a function of the asset, or a private helper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Namespaces and name.
    pub name: SymbolPath,
    /// Not an entry point.
    pub private: bool,
    /// May not be inlined.
    pub no_inline: bool,
    /// To be compiled apart.
    pub externalize: bool,
    /// What the graph stands for, where it is a composite.
    pub composite: Option<Composite>,
    /// Arguments in order; the value is the entry block's.
    pub args: Vec<Arg>,
    /// Results in order.
    pub results: Vec<Outcome>,
    /// Further attributes.
    pub attrs: AttrDict,
    /// The ops and the types of all values.
    pub body: Body,
}

impl Graph {
    /// Whether consumers see the graph as a function: not private, and not the body of a composite.
    ///
    /// A composite that was specialised stays behind as a public graph under a symbol with a random
    /// suffix; the vendor's summary leaves it out (its runtime lists it all the same).
    pub fn is_function(&self) -> bool {
        !self.private && self.composite.is_none()
    }
}

/// What an argument (`arg`) or result (`result`) without a name is called by its position: as no converter
/// calls anything, so that it is not taken for a name.
pub fn unnamed(what: &str, position: usize) -> String {
    format!("%{what}{position}")
}

/// An argument of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Its type.
    pub ty: Type,
    /// Its attributes (`coreai.name`, `MutableBuffers.buffer_mutation`, …).
    pub attrs: AttrDict,
    /// The value inside the body.
    pub value: ValueId,
}

/// A result of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its type.
    pub ty: Type,
    /// Its attributes (`coreai.name`, …).
    pub attrs: AttrDict,
}

/// Index of a value in its [`Body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Index of an op in its [`Body`]; ops are numbered in program order, an op before those in its
/// regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueDef {
    /// Argument `index` of the body's entry block.
    Entry {
        /// Position among the arguments.
        index: u32,
    },
    /// Argument `index` of a block of a region of `op`.
    BlockArg {
        /// The op that owns the region.
        op: OpId,
        /// Which of its regions.
        region: u32,
        /// Which block of the region.
        block: u32,
        /// Position among the block's arguments.
        index: u32,
    },
    /// Result `index` of `op`.
    Result {
        /// The op.
        op: OpId,
        /// Position among its results.
        index: u32,
    },
}

/// A value: its type and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    /// Its definition.
    pub def: ValueDef,
}

/// Ops with the values they define: the body of a graph, or the stored definition of an op.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// All values, by [`ValueId`].
    pub values: Vec<Value>,
    /// All ops, nested ones included, by [`OpId`].
    pub ops: Vec<Op>,
    /// The entry block first; a body without blocks is a declaration.
    pub region: Region,
}

impl Body {
    /// The op.
    ///
    /// # Panics
    /// When the id is of another body.
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }

    /// The type of a value.
    ///
    /// # Panics
    /// When the id is of another body.
    pub fn ty(&self, id: ValueId) -> &Type {
        &self.values[id.0 as usize].ty
    }

    /// Where a value comes from.
    ///
    /// # Panics
    /// When the id is of another body.
    pub fn def(&self, id: ValueId) -> ValueDef {
        self.values[id.0 as usize].def
    }

    /// The entry block, where there is a body.
    pub fn entry(&self) -> Option<&Block> {
        self.region.blocks.first()
    }

    /// The ops of a block in order, without those in nested regions.
    pub fn block_ops<'a>(&'a self, block: &'a Block) -> impl Iterator<Item = (OpId, &'a Op)> + 'a {
        block.ops.iter().map(|id| (*id, self.op(*id)))
    }

    /// All ops in program order, nested regions included.
    pub fn walk(&self) -> impl Iterator<Item = (OpId, &Op)> {
        self.ops
            .iter()
            .enumerate()
            .map(|(i, op)| (OpId(i as u32), op))
    }

    /// Adds a value.
    pub fn add_value(&mut self, ty: Type, def: ValueDef) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value { ty, def });
        id
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The name in printed IR (`coreai.read_handle`).
    pub name: Arc<str>,
    /// The op whose region holds this one.
    pub parent: Option<OpId>,
    /// Values used.
    pub operands: Vec<ValueId>,
    /// Values defined.
    pub results: Vec<ValueId>,
    /// Properties and attributes together; defaults are filled in.
    pub attrs: AttrDict,
    /// Nested code.
    pub regions: Vec<Region>,
    /// The definition stored in an asset for a decomposable op. Printed IR does not have it.
    pub definition: Option<Arc<Body>>,
    /// The name in an asset, with family and version (`primitive.reshape_v2`).
    pub stored_name: Option<Arc<str>>,
    /// Where in the source it came from, when read with locations.
    pub location: Option<Location>,
}

impl Op {
    /// An op without operands, results and attributes.
    pub fn new(name: impl Into<Arc<str>>) -> Op {
        Op {
            name: name.into(),
            parent: None,
            operands: Vec::new(),
            results: Vec::new(),
            attrs: AttrDict::new(),
            regions: Vec::new(),
            definition: None,
            stored_name: None,
            location: None,
        }
    }

    /// Whether the op has this printed name.
    pub fn is(&self, name: &str) -> bool {
        &*self.name == name
    }

    /// The graph an `invoke` calls.
    pub fn callee(&self) -> Option<&SymbolPath> {
        self.attrs.get("callee").and_then(Attr::as_symbol)
    }
}

/// Nested code: blocks, nearly always one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// The blocks in order.
    pub blocks: Vec<Block>,
}

/// A list of ops with arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Arguments.
    pub args: Vec<ValueId>,
    /// Ops in order.
    pub ops: Vec<OpId>,
}

/// A source location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file, where one is named.
    pub file: Option<Arc<str>>,
    /// 1-based line; 0 where unknown.
    pub line: u64,
    /// 1-based column; 0 where unknown.
    pub column: u64,
    /// The location as printed.
    pub text: Arc<str>,
}
