//! What a function does with each of its states.
//!
//! Reads and writes of a handle are ordered by tokens alone. A read sees the value on entry unless a
//! write of the same handle lies before it on its chain of tokens; chains are followed through
//! regions and into the private graphs a handle is passed to.

use std::collections::HashMap;
use std::rc::Rc;

use super::Access;
use crate::ir::dataflow::{self, HandleUse};
use crate::ir::{Body, Graph, Module, Op, OpId, SymbolPath, ValueDef, ValueId};

/// Calls and forks of chains may nest this deep.
const MAX_DEPTH: usize = 400;
/// Steps along chains in one module. Beyond, a read counts as one of the value on entry.
const MAX_STEPS: usize = 1 << 20;

/// The uses of each value of a body.
type Uses = Vec<Vec<(OpId, usize)>>;

/// Answers for the graphs of one module.
pub(super) struct Accesses<'m> {
    graphs: HashMap<&'m SymbolPath, &'m Graph>,
    uses: HashMap<*const Body, Rc<Uses>>,
    steps: usize,
    covered: HashMap<(usize, ValueId), bool>,
    /// Arguments of the loops that are looked at, behind a write as long as nothing says otherwise.
    assumed: Vec<(usize, ValueId)>,
    frames: usize,
}

/// A body that is entered, with the call that entered it.
struct Frame<'f, 'm> {
    id: usize,
    body: &'m Body,
    handle: ValueId,
    caller: Option<(&'f Frame<'f, 'm>, &'m Op)>,
    depth: usize,
}

#[derive(Default)]
struct Seen {
    read: bool,
    write: bool,
}

impl<'m> Accesses<'m> {
    pub(super) fn new(module: &'m Module) -> Accesses<'m> {
        Accesses {
            graphs: module.graphs.iter().map(|g| (&g.name, g)).collect(),
            uses: HashMap::new(),
            steps: 0,
            covered: HashMap::new(),
            assumed: Vec::new(),
            frames: 0,
        }
    }

    /// What `graph` does with the handle among its arguments.
    pub(super) fn of(&mut self, graph: &'m Graph, handle: ValueId) -> Access {
        self.frames = 1;
        self.covered.clear();
        let mut seen = Seen::default();
        let frame = Frame {
            id: 0,
            body: &graph.body,
            handle,
            caller: None,
            depth: 0,
        };
        self.visit(&frame, &mut seen);
        match (seen.read, seen.write) {
            (true, true) => Access::ReadWrite,
            (true, false) => Access::ReadOnly,
            (false, true) => Access::WriteOnly,
            (false, false) => Access::Unused,
        }
    }

    fn uses(&mut self, body: &'m Body) -> Rc<Uses> {
        Rc::clone(
            self.uses
                .entry(std::ptr::from_ref(body))
                .or_insert_with(|| Rc::new(dataflow::uses(body))),
        )
    }

    fn visit(&mut self, frame: &Frame<'_, 'm>, seen: &mut Seen) {
        let uses = self.uses(frame.body);
        for (id, place) in &uses[frame.handle.0 as usize] {
            let op = frame.body.op(*id);
            self.steps += 1;
            match dataflow::handle_use(op, *place) {
                HandleUse::Write { .. } => seen.write = true,
                HandleUse::Read { value, token } => {
                    // A read whose value nothing uses makes no difference.
                    let used = !uses[value.0 as usize].is_empty();
                    if used && !seen.read && !self.is_covered(frame, token) {
                        seen.read = true;
                    }
                }
                HandleUse::Passed { operand } => self.passed(frame, op, operand, seen),
            }
        }
    }

    fn passed(&mut self, frame: &Frame<'_, 'm>, op: &'m Op, operand: usize, seen: &mut Seen) {
        // To return a handle, which no runtime accepts, is no use of the state.
        if op.is("coreai.output") {
            return;
        }
        let callee = op.is("coreai.invoke").then(|| self.callee(op)).flatten();
        match callee.and_then(|g| Some((g, g.args.get(operand)?.value))) {
            Some((graph, handle)) if frame.depth < MAX_DEPTH && self.steps < MAX_STEPS => {
                let id = self.frames;
                self.frames += 1;
                let inner = Frame {
                    id,
                    body: &graph.body,
                    handle,
                    caller: Some((frame, op)),
                    depth: frame.depth + 1,
                };
                self.visit(&inner, seen);
            }
            // An op that is not known may do anything.
            _ => {
                *seen = Seen {
                    read: true,
                    write: true,
                }
            }
        }
    }

    fn callee(&self, op: &Op) -> Option<&'m Graph> {
        op.callee().and_then(|name| self.graphs.get(name).copied())
    }

    /// Whether a write of the handle lies before this token.
    fn is_covered(&mut self, frame: &Frame<'_, 'm>, token: ValueId) -> bool {
        let (mut at, mut frame) = (token, frame);
        // All tokens of a chain have one answer, up to where it forks.
        let mut walked = Vec::new();
        // Straight chains are long: follow them in a loop, and recurse at forks only.
        let answer = loop {
            if self.assumed.contains(&(frame.id, at)) {
                break true;
            }
            if let Some(known) = self.covered.get(&(frame.id, at)) {
                break *known;
            }
            self.steps += 1;
            if self.steps > MAX_STEPS {
                break false;
            }
            walked.push((frame.id, at));
            let (op, index) = match frame.body.def(at) {
                ValueDef::Entry { index } => match frame.caller {
                    Some((outer, call)) => match call.operands.get(index as usize) {
                        Some(value) => {
                            (at, frame) = (*value, outer);
                            continue;
                        }
                        None => break false,
                    },
                    None => break false,
                },
                ValueDef::BlockArg {
                    op, region, index, ..
                } => {
                    let owner = frame.body.op(op);
                    let forwarded = match (owner.is("coreai.while"), region) {
                        (true, 0) if !self.again(frame, owner, at, index as usize) => None,
                        (true, 0) => owner.operands.get(index as usize).copied(),
                        (true, 1) => terminator(frame.body, owner, 0)
                            .and_then(|t| t.operands.get(index as usize + 1).copied()),
                        _ => None,
                    };
                    match forwarded {
                        Some(value) => {
                            at = value;
                            continue;
                        }
                        None => break false,
                    }
                }
                ValueDef::Result { op, index } => (frame.body.op(op), index as usize),
            };
            let next = match &*op.name {
                "coreai.write_handle" if op.operands.first() == Some(&frame.handle) => break true,
                "coreai.write_handle" => op.operands.get(2).copied(),
                "coreai.read_handle" => op.operands.get(1).copied(),
                "coreai.while" => {
                    terminator(frame.body, op, 0).and_then(|t| t.operands.get(index + 1).copied())
                }
                "coreai.join_token" => break self.any(frame, op),
                "coreai.if" => break self.all_branches(frame, op, index),
                "coreai.invoke" => break self.after_call(frame, op, index),
                _ => None,
            };
            match next {
                Some(value) => at = value,
                None => break false,
            }
        };
        for token in walked {
            self.covered.insert(token, answer);
        }
        answer
    }

    /// Whether a write lies before what a loop's body hands to the next turn as argument `index`, if one lies
    /// before the argument itself.
    fn again(
        &mut self,
        frame: &Frame<'_, 'm>,
        op: &'m Op,
        argument: ValueId,
        index: usize,
    ) -> bool {
        let yielded = terminator(frame.body, op, 1).and_then(|t| t.operands.get(index).copied());
        let Some(yielded) = yielded.filter(|v| *v != argument) else {
            return true;
        };
        // What is found under the assumption may not outlive it.
        let known = std::mem::take(&mut self.covered);
        self.assumed.push((frame.id, argument));
        let answer = self.deeper(frame, yielded);
        self.assumed.pop();
        self.covered = known;
        answer
    }

    fn any(&mut self, frame: &Frame<'_, 'm>, op: &'m Op) -> bool {
        op.operands.iter().any(|v| self.deeper(frame, *v))
    }

    fn all_branches(&mut self, frame: &Frame<'_, 'm>, op: &'m Op, index: usize) -> bool {
        let body = frame.body;
        !op.regions.is_empty()
            && (0..op.regions.len()).all(|region| {
                terminator(body, op, region)
                    .and_then(|t| t.operands.get(index).copied())
                    .is_some_and(|v| self.deeper(frame, v))
            })
    }

    fn after_call(&mut self, frame: &Frame<'_, 'm>, op: &'m Op, index: usize) -> bool {
        let Some(graph) = self.callee(op) else {
            return false;
        };
        let handle = op.operands.iter().position(|v| *v == frame.handle);
        let result = graph
            .body
            .entry()
            .and_then(|b| b.ops.last())
            .map(|id| graph.body.op(*id));
        let value = result.and_then(|t| t.operands.get(index).copied());
        let (Some(value), true) = (value, frame.depth < MAX_DEPTH) else {
            return false;
        };
        // Without the handle among the arguments the callee writes nothing, but may pass a token on.
        let handle = handle
            .and_then(|place| graph.args.get(place))
            .map_or(ValueId(u32::MAX), |a| a.value);
        let id = self.frames;
        self.frames += 1;
        let inner = Frame {
            id,
            body: &graph.body,
            handle,
            caller: Some((frame, op)),
            depth: frame.depth + 1,
        };
        self.is_covered(&inner, value)
    }

    /// One level deeper in forks of the chain.
    fn deeper(&mut self, frame: &Frame<'_, 'm>, value: ValueId) -> bool {
        if frame.depth >= MAX_DEPTH {
            return false;
        }
        let fork = Frame {
            id: frame.id,
            body: frame.body,
            handle: frame.handle,
            caller: frame.caller,
            depth: frame.depth + 1,
        };
        self.is_covered(&fork, value)
    }
}

/// The last op of a region's first block.
fn terminator<'m>(body: &'m Body, op: &'m Op, region: usize) -> Option<&'m Op> {
    op.regions
        .get(region)?
        .blocks
        .first()?
        .ops
        .last()
        .map(|id| body.op(*id))
}
