//! Programs put into forms that run faster, with the same values.
//!
//! A rule is one file here and one line in `RULES`. Rules work on a copy of a graph's body before it is
//! planned; where nothing fits, nothing is copied.

mod attention;
mod grouped;
mod layer_update;
mod packed;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::constants::constant;
use super::tensor::Tensor;
use crate::ir::{Attr, Block, Body, Dense, Element, Op, OpId, Payload, Type, ValueDef, ValueId};

/// A rule: tries to replace what leads to the op at `place` of the entry block.
type Rule = fn(&Editor<'_>, place: usize) -> Option<Edit>;

/// Rules in the order of their passes: the later ones look for what the earlier ones leave.
const PASSES: &[&[Rule]] = &[
    &[layer_update::rule, packed::rule, grouped::rule],
    &[attention::rule],
];

/// The attribute of an op in an outlined body that has its number in the body it comes from.
pub(super) const NUMBER: &str = "coreaix.number";

/// For each op that was put in, the op of the program it stands for: messages name that one.
pub(super) type Origins = HashMap<OpId, OpId>;

/// The body with every rule applied where it fits.
pub(super) fn rewrite(body: &Body) -> (Cow<'_, Body>, Origins) {
    let mut body = Cow::Borrowed(body);
    let mut origins = Origins::new();
    for rules in PASSES {
        let mut place = 0;
        while let Some(entry) = body.entry() {
            if place >= entry.ops.len() {
                break;
            }
            let editor = Editor::new(&body, entry);
            let edit = rules.iter().find_map(|rule| rule(&editor, place));
            match edit {
                Some(edit) => place = edit.apply(body.to_mut(), place, &mut origins),
                None => place += 1,
            }
        }
    }
    (body, origins)
}

/// What a rule looks at.
pub(super) struct Editor<'b> {
    pub body: &'b Body,
    entry: &'b Block,
}

/// An op to be added: name, operands, type of the result.
pub(super) struct NewOp {
    name: &'static str,
    operands: Vec<Source>,
    ty: Type,
    value: Option<Dense>,
    /// The op whose regions it takes over.
    regions: Option<OpId>,
    /// What it does, in other ops.
    definition: Option<Arc<Body>>,
    /// The op of the program it stands for; the replaced one without.
    origin: Option<OpId>,
}

/// An operand of an added op.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A value that is there.
    Old(ValueId),
    /// The result of the added op at this place.
    New(usize),
}

/// Ops that take the place of one op, whose result the last of them computes.
#[derive(Default)]
pub(super) struct Edit {
    ops: Vec<NewOp>,
    /// Ops that compute nothing any more.
    dead: Vec<OpId>,
    /// What ops added from now on stand for.
    origin: Option<OpId>,
}

impl<'b> Editor<'b> {
    fn new(body: &'b Body, entry: &'b Block) -> Editor<'b> {
        Editor { body, entry }
    }

    /// The number of the op at a place of the entry block.
    pub fn id(&self, place: usize) -> OpId {
        self.entry.ops[place]
    }

    /// Ops of the entry block as a body of their own that returns one of their results. `args` are all the
    /// values they use that none of them computes; `None` where that is not so.
    pub fn outline(&self, ops: &[OpId], args: &[ValueId], result: ValueId) -> Option<Body> {
        let mut body = Body::default();
        let mut block = Block::default();
        let mut own: HashMap<ValueId, ValueId> = HashMap::new();
        for (index, arg) in args.iter().enumerate() {
            let def = ValueDef::Entry {
                index: u32::try_from(index).ok()?,
            };
            let value = body.add_value(self.body.ty(*arg).clone(), def);
            own.entry(*arg).or_insert(value);
            block.args.push(value);
        }
        let operands = |op: &Op, own: &HashMap<ValueId, ValueId>| -> Option<Vec<ValueId>> {
            op.operands.iter().map(|v| own.get(v).copied()).collect()
        };
        for id in self.entry.ops.iter().filter(|id| ops.contains(id)) {
            let mut op = self.body.op(*id).clone();
            op.operands = operands(&op, &own)?;
            let value = i128::from(id.0);
            let ty = Element::si(32);
            op.attrs.insert(NUMBER.into(), Attr::Int { value, ty });
            let number = OpId(u32::try_from(body.ops.len()).ok()?);
            let results = std::mem::take(&mut op.results);
            for (index, was) in results.into_iter().enumerate() {
                let def = ValueDef::Result {
                    op: number,
                    index: u32::try_from(index).ok()?,
                };
                let value = body.add_value(self.body.ty(was).clone(), def);
                own.insert(was, value);
                op.results.push(value);
            }
            body.ops.push(op);
            block.ops.push(number);
        }
        let mut end = Op::new("coreai.yield");
        end.operands = vec![*own.get(&result)?];
        block.ops.push(OpId(u32::try_from(body.ops.len()).ok()?));
        body.ops.push(end);
        body.region.blocks.push(block);
        Some(body)
    }

    /// The op at a place of the entry block.
    pub fn op(&self, place: usize) -> &'b Op {
        self.body.op(self.entry.ops[place])
    }

    /// The op that computes a value, if it is one of the entry block's with a single result.
    pub fn source(&self, value: ValueId) -> Option<(OpId, &'b Op)> {
        match self.body.def(value) {
            ValueDef::Result { op, .. } => {
                let found = self.body.op(op);
                (found.parent.is_none() && found.results.len() == 1).then_some((op, found))
            }
            ValueDef::Entry { .. } | ValueDef::BlockArg { .. } => None,
        }
    }

    /// How often a value is used, in nested code too.
    pub fn uses(&self, value: ValueId) -> usize {
        let of = |op: &Op| op.operands.iter().filter(|v| **v == value).count();
        self.body.ops.iter().map(of).sum()
    }

    /// A small constant.
    pub fn constant(&self, value: ValueId) -> Option<Tensor> {
        let (_, op) = self.source(value)?;
        match op.attrs.get("value") {
            Some(Attr::Dense(d)) if op.is("coreai.constant") => {
                let small = d.tensor()?.elements()? <= 4096;
                small.then(|| constant(d).ok()).flatten()
            }
            _ => None,
        }
    }

    /// The integers of a small constant.
    pub fn ints(&self, value: ValueId) -> Option<Vec<i64>> {
        Some(self.constant(value)?.ints().ok()?.into_vec())
    }
}

impl Edit {
    /// Adds an op.
    pub fn op(&mut self, name: &'static str, operands: Vec<Source>, ty: Type) -> Source {
        self.ops.push(NewOp {
            name,
            operands,
            ty,
            value: None,
            regions: None,
            definition: None,
            origin: self.origin,
        });
        Source::New(self.ops.len() - 1)
    }

    /// Adds an op with a definition, whose arguments are the operands behind the first.
    pub fn op_with_definition(
        &mut self,
        name: &'static str,
        operands: Vec<Source>,
        ty: Type,
        definition: Body,
    ) -> Source {
        let added = self.op(name, operands, ty);
        if let Some(op) = self.ops.last_mut() {
            op.definition = Some(Arc::new(definition));
        }
        added
    }

    /// Adds an op that takes over the regions of one that computes nothing any more.
    pub fn op_with_regions(
        &mut self,
        name: &'static str,
        operands: Vec<Source>,
        ty: Type,
        from: OpId,
    ) -> Source {
        let added = self.op(name, operands, ty);
        if let Some(op) = self.ops.last_mut() {
            op.regions = Some(from);
        }
        added
    }

    /// Says which op of the program those that are added from now on stand for.
    pub fn stand_for(&mut self, op: OpId) {
        self.origin = Some(op);
    }

    /// Adds a constant of 32-bit integers.
    pub fn ints(&mut self, dims: &[u64], values: &[i32]) -> Source {
        let ty = Type::tensor(
            dims.iter().map(|d| Some(*d)).collect::<Vec<_>>(),
            Element::si(32),
        );
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(Dense {
            ty,
            payload: Payload::from_elements(bytes, 4),
        })
    }

    /// Adds a constant.
    pub fn constant(&mut self, value: Dense) -> Source {
        self.ops.push(NewOp {
            name: "coreai.constant",
            operands: Vec::new(),
            ty: value.ty.clone(),
            value: Some(value),
            regions: None,
            definition: None,
            origin: self.origin,
        });
        Source::New(self.ops.len() - 1)
    }

    /// Says that an op computes nothing any more.
    pub fn remove(&mut self, op: OpId) {
        self.dead.push(op);
    }

    /// Puts the new ops where the old one was; returns the place behind them.
    fn apply(self, body: &mut Body, place: usize, origins: &mut Origins) -> usize {
        let Some(entry) = body.region.blocks.first() else {
            return place + 1;
        };
        let old = entry.ops[place];
        let kept = body.op(old).results.clone();
        let mut results: Vec<ValueId> = Vec::new();
        let mut added = Vec::new();
        let count = self.ops.len();
        for (i, new) in self.ops.into_iter().enumerate() {
            let id = OpId(body.ops.len() as u32);
            let result = match kept.first() {
                Some(result) if i + 1 == count => *result,
                _ => body.add_value(new.ty, ValueDef::Result { op: id, index: 0 }),
            };
            body.values[result.0 as usize].def = ValueDef::Result { op: id, index: 0 };
            let mut op = Op::new(new.name);
            op.operands = new
                .operands
                .iter()
                .map(|s| match s {
                    Source::Old(v) => *v,
                    Source::New(i) => results[*i],
                })
                .collect();
            op.results = vec![result];
            op.definition = new.definition;
            if let Some(value) = new.value {
                op.attrs.insert("value".into(), Attr::Dense(value));
            }
            if let Some(from) = new.regions {
                op.regions = std::mem::take(&mut body.ops[from.0 as usize].regions);
                for block in op.regions.iter().flat_map(|r| &r.blocks) {
                    for inner in &block.ops {
                        body.ops[inner.0 as usize].parent = Some(id);
                    }
                }
            }
            let stands_for = new.origin.unwrap_or(old);
            let first = origins.get(&stands_for).copied().unwrap_or(stands_for);
            origins.insert(id, first);
            results.push(result);
            added.push(id);
            body.ops.push(op);
        }
        // An op that is gone from its block is never planned; without operands it uses nothing.
        for id in self.dead.iter().chain([&old]) {
            body.ops[id.0 as usize].operands.clear();
        }
        let entry = &mut body.region.blocks[0];
        let before = entry.ops[..place]
            .iter()
            .filter(|id| !self.dead.contains(id))
            .count();
        entry.ops.splice(place..=place, added);
        entry.ops.retain(|id| !self.dead.contains(id));
        before + count
    }
}
