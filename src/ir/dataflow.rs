//! Questions about where values come from and go to.

use super::graph::{Body, Op, OpId, ValueDef, ValueId};

/// The op that defines a value; `None` for arguments of graphs and blocks.
pub fn defining_op(body: &Body, value: ValueId) -> Option<(OpId, &Op)> {
    match body.def(value) {
        ValueDef::Result { op, .. } => Some((op, body.op(op))),
        ValueDef::Entry { .. } | ValueDef::BlockArg { .. } => None,
    }
}

/// The uses of every value, by value: the op and the operand's place, in program order.
pub fn uses(body: &Body) -> Vec<Vec<(OpId, usize)>> {
    let mut uses = vec![Vec::new(); body.values.len()];
    for (id, op) in body.walk() {
        for (place, value) in op.operands.iter().enumerate() {
            if let Some(list) = uses.get_mut(value.0 as usize) {
                list.push((id, place));
            }
        }
    }
    uses
}

/// What an op does with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandleUse {
    /// `read_handle`: the result is the state's value.
    Read {
        /// The value read.
        value: ValueId,
        /// The token that orders the read.
        token: ValueId,
    },
    /// `write_handle`.
    Write {
        /// The value written.
        value: ValueId,
        /// The token that orders the write.
        token: ValueId,
    },
    /// The handle is passed on: to a graph, or to an op that is not known.
    Passed {
        /// The operand's place.
        operand: usize,
    },
}

/// The uses of a handle in program order, those in nested regions included.
pub fn handle_uses(body: &Body, handle: ValueId) -> Vec<(OpId, HandleUse)> {
    let mut found = Vec::new();
    for (id, op) in body.walk() {
        for (place, operand) in op.operands.iter().enumerate() {
            if *operand == handle {
                found.push((id, handle_use(op, place)));
            }
        }
    }
    found
}

/// What `op` does with the handle at operand `place`.
pub fn handle_use(op: &Op, place: usize) -> HandleUse {
    match (&*op.name, place, &op.operands[..], &op.results[..]) {
        ("coreai.read_handle", 0, [_, token], [value, ..]) => HandleUse::Read {
            value: *value,
            token: *token,
        },
        ("coreai.write_handle", 0, [_, value, token], _) => HandleUse::Write {
            value: *value,
            token: *token,
        },
        _ => HandleUse::Passed { operand: place },
    }
}
