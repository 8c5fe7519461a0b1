//! Programs prepared for execution: kernels found, constants in place, last uses known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::constants::constant;
use super::exec::Exec;
use super::ops::{self, Combiner, Declared, Kernel, Val};
use super::tensor::{count, OpResult, Tensor};
use super::{rewrite, DType};
use crate::ir::{
    Attr, AttrDict, Block, Body, Graph, Module, Op, OpId, Region, SymbolPath, Type, ValueId,
};

/// How deep stored definitions and regions may be nested.
const MAX_NESTING: usize = 24;

/// Bytes of weights worth reading ahead.
const LARGE: usize = 1 << 18;

/// A value an instruction reads; after its last use it is moved, not shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub slot: u32,
    pub last: bool,
}

/// A block: its arguments, its instructions, what it hands on.
pub(super) struct Code {
    pub args: Vec<u32>,
    pub instrs: Vec<Instr>,
    pub yields: Vec<Operand>,
}

/// One instruction.
pub(super) struct Instr {
    pub name: Arc<str>,
    pub index: u32,
    pub kind: Kind,
    pub operands: Vec<Operand>,
    pub results: Vec<u32>,
    pub declared: Vec<Option<Declared>>,
    /// Values nobody needs afterwards.
    pub drops: Vec<u32>,
    pub attrs: AttrDict,
    /// The constant it multiplies with, where that is large.
    pub weights: Option<u32>,
    /// The constant that the next product of the block multiplies with.
    pub ahead: Option<u32>,
}

/// What an instruction does.
pub(super) enum Kind {
    Kernel(Kernel),
    /// The definition stored with the op.
    Definition(Box<Plan>),
    /// A kernel for several ops, and these for values it is not made for. Behind the first operand, which
    /// tells the kernel what the others are, operands are the definition's arguments.
    Attempt(Attempt, Box<Plan>),
    /// Another graph, by its position.
    Invoke(usize),
    If(Code, Code),
    While(Code, Code),
    Reduce(How),
    ReduceIndex(Code),
    ScatterNd(Combiner),
    CreateToken,
    ReadHandle {
        /// The next use of the handle overwrites it: the value is moved out.
        take: bool,
    },
    WriteHandle,
}

/// A kernel that may find its operands to be none it is made for.
pub(super) type Attempt = fn(&[Tensor]) -> OpResult<Option<Tensor>>;

/// How values are combined: a known operation, or code.
pub(super) enum How {
    Known(Combiner),
    Code(Code),
}

/// A body ready for execution.
pub(super) struct Plan {
    pub slots: usize,
    pub constants: Vec<Option<Val>>,
    pub code: Code,
}

/// What was found while planning one graph.
pub(super) struct Planner<'m> {
    graphs: HashMap<&'m SymbolPath, usize>,
    /// Names of ops without a kernel, and how often they occur.
    pub unsupported: BTreeMap<String, usize>,
}

/// The type of a tensor value; `None` for handles, tokens and whatever is no tensor.
pub(super) fn declared(ty: &Type) -> Option<Declared> {
    match ty {
        Type::Tensor(t) => Some(Declared {
            dtype: DType::from_element(t.element)?,
            dims: t.dims.clone(),
        }),
        _ => None,
    }
}

/// Short names of ops whose result is no larger than their operands together.
const NO_LARGER: &[&str] = &[
    "add",
    "cast",
    "concat",
    "divide",
    "equal",
    "floor_divide",
    "gather_nd",
    "get_shape",
    "greater",
    "maximum",
    "minimum",
    "mul",
    "not",
    "reduce",
    "reshape",
    "shrink_dims",
    "slice",
    "sub",
    "where",
    "broadcast_shapes",
    "expand_dims",
    "broadcasting_add",
    "broadcasting_mul",
    "broadcasting_sub",
    "reduce_product",
];

impl<'m> Planner<'m> {
    pub fn new(module: &'m Module) -> Planner<'m> {
        let graphs = module.graphs.iter().enumerate();
        Planner {
            graphs: graphs.map(|(i, g)| (&g.name, i)).collect(),
            unsupported: BTreeMap::new(),
        }
    }

    /// Plans a graph.
    pub fn graph(&mut self, graph: &Graph) -> OpResult<Plan> {
        let (body, origins) = rewrite::rewrite(&graph.body);
        let mut plan = self.body(&body, 0)?;
        // Whoever reads of an op that failed knows the program as it was written.
        written(&mut plan.code.instrs, &body, &origins);
        Ok(plan)
    }

    fn body(&mut self, body: &Body, depth: usize) -> OpResult<Plan> {
        if depth > MAX_NESTING {
            return Err(format!("definitions nested deeper than {MAX_NESTING}"));
        }
        let entry = body.entry().ok_or("a graph without a body")?;
        let mut constants = vec![None; body.values.len()];
        let code = self.block(body, entry, &mut constants, depth)?;
        Ok(Plan {
            slots: body.values.len(),
            constants,
            code,
        })
    }

    fn region(
        &mut self,
        body: &Body,
        region: Option<&Region>,
        constants: &mut Vec<Option<Val>>,
        depth: usize,
    ) -> OpResult<Code> {
        let block = match region.map(|r| r.blocks.as_slice()) {
            Some([block]) => block,
            _ => return Err("a region that is not one block".into()),
        };
        if depth > MAX_NESTING {
            return Err(format!("regions nested deeper than {MAX_NESTING}"));
        }
        self.block(body, block, constants, depth + 1)
    }

    fn block(
        &mut self,
        body: &Body,
        block: &Block,
        constants: &mut Vec<Option<Val>>,
        depth: usize,
    ) -> OpResult<Code> {
        let mut code = Code {
            args: block.args.iter().map(|v| v.0).collect(),
            instrs: Vec::new(),
            yields: Vec::new(),
        };
        for (place, id) in block.ops.iter().enumerate() {
            let op = body.op(*id);
            if is_terminator(op) {
                code.yields = op.operands.iter().map(|v| plain(*v)).collect();
                break;
            }
            let what = |e: String| format!("{} (op {}): {e}", op.name, id.0);
            if op.is("coreai.constant") {
                let dense = match op.attrs.get("value") {
                    Some(Attr::Dense(d)) => d,
                    _ => return Err(what("no value".into())),
                };
                if let Some(result) = op.results.first() {
                    constants[result.0 as usize] =
                        Some(Val::Tensor(constant(dense).map_err(what)?));
                }
                continue;
            }
            let kind = self
                .kind(body, block, place, op, constants, depth)
                .map_err(what)?;
            let Some(kind) = kind else {
                let name = op.name.to_string();
                *self.unsupported.entry(name).or_default() += 1;
                continue;
            };
            let instr = Instr {
                name: op.name.clone(),
                index: id.0,
                kind,
                operands: op.operands.iter().map(|v| plain(*v)).collect(),
                results: op.results.iter().map(|v| v.0).collect(),
                declared: op.results.iter().map(|v| declared(body.ty(*v))).collect(),
                drops: Vec::new(),
                attrs: op.attrs.clone(),
                weights: None,
                ahead: None,
            };
            if !self.fold(body, op, &instr, constants) {
                code.instrs.push(instr);
            }
        }
        last_uses(body, block, &mut code, constants);
        weights(&mut code, constants);
        Ok(code)
    }

    /// How to execute an op; `None` where this runtime cannot.
    fn kind(
        &mut self,
        body: &Body,
        block: &Block,
        place: usize,
        op: &Op,
        constants: &mut Vec<Option<Val>>,
        depth: usize,
    ) -> OpResult<Option<Kind>> {
        let short = op.name.strip_prefix("coreai.").unwrap_or(&op.name);
        Ok(Some(match short {
            "create_token" | "join_token" => Kind::CreateToken,
            "read_handle" => Kind::ReadHandle {
                take: overwritten_next(body, block, place, op),
            },
            "write_handle" => Kind::WriteHandle,
            "invoke" => {
                let callee = op.callee().ok_or("no callee")?;
                let graph = self.graphs.get(callee);
                Kind::Invoke(*graph.ok_or_else(|| format!("no graph {callee}"))?)
            }
            "if" => Kind::If(
                self.region(body, op.regions.first(), constants, depth)?,
                self.region(body, op.regions.get(1), constants, depth)?,
            ),
            "while" => Kind::While(
                self.region(body, op.regions.first(), constants, depth)?,
                self.region(body, op.regions.get(1), constants, depth)?,
            ),
            "reduce" => Kind::Reduce(self.how(body, op, constants, depth)?),
            "scatter_nd" => match self.how(body, op, constants, depth)? {
                How::Known(how) => Kind::ScatterNd(how),
                How::Code(_) => return Ok(None),
            },
            "reduce_index" => {
                Kind::ReduceIndex(self.region(body, op.regions.first(), constants, depth)?)
            }
            "coreaix.attention" | "coreaix.grouped_product" => {
                let kernel = match short {
                    "coreaix.attention" => ops::attention,
                    _ => ops::grouped_product,
                };
                let definition = op.definition.as_ref().ok_or("no definition")?;
                let mut plan = self.body(definition, depth + 1)?;
                for instr in &mut plan.code.instrs {
                    if let Some(Attr::Int { value, .. }) = instr.attrs.get(rewrite::NUMBER) {
                        instr.index = u32::try_from(*value).unwrap_or(instr.index);
                    }
                }
                Kind::Attempt(kernel, Box::new(plan))
            }
            _ => match (ops::find(&op.name), &op.definition) {
                (Some(kernel), _) => Kind::Kernel(kernel),
                (None, Some(definition)) => {
                    Kind::Definition(Box::new(self.body(definition, depth + 1)?))
                }
                (None, None) => return Ok(None),
            },
        }))
    }

    /// A combining region: one known op on its two arguments, or whatever it is.
    fn how(
        &mut self,
        body: &Body,
        op: &Op,
        constants: &mut Vec<Option<Val>>,
        depth: usize,
    ) -> OpResult<How> {
        let known = || -> Option<Combiner> {
            let block = op.regions.first()?.blocks.first()?;
            let &[a, b] = block.args.as_slice() else {
                return None;
            };
            let ops: Vec<&Op> = block.ops.iter().map(|id| body.op(*id)).collect();
            match ops.as_slice() {
                [end] if end.operands == [b] => Some(Combiner::Replace),
                [one, end] if end.operands == one.results => {
                    let name = one.name.strip_prefix("coreai.")?;
                    let name = name
                        .strip_prefix("decomposable.broadcasting_")
                        .unwrap_or(name);
                    let how = Combiner::from_op(name)?;
                    let swapped = how.commutes() && one.operands == [b, a];
                    (one.operands == [a, b] || swapped).then_some(how)
                }
                _ => None,
            }
        };
        match known() {
            Some(how) => Ok(How::Known(how)),
            None => Ok(How::Code(self.region(
                body,
                op.regions.first(),
                constants,
                depth,
            )?)),
        }
    }

    /// Evaluates an instruction whose operands are constants.
    fn fold(&self, body: &Body, op: &Op, instr: &Instr, constants: &mut [Option<Val>]) -> bool {
        if instr.results.len() != 1 {
            return false;
        }
        let short = op.name.rsplit('.').next().unwrap_or_default();
        // The shape of a value is often known where the value is not.
        if short == "get_shape" {
            let ty = op.operands.first().map(|v| body.ty(*v));
            let dims: Option<Vec<i64>> = match ty {
                Some(Type::Tensor(t)) => t.dims.iter().map(|d| i64::try_from((*d)?).ok()).collect(),
                _ => None,
            };
            if let (Some(dims), Some(Some(d))) = (dims, instr.declared.first()) {
                let shape = Tensor::of(DType::I64, &[dims.len()], &dims)
                    .and_then(|t| ops::cast(&t, d.dtype));
                if let Ok(t) = shape {
                    constants[instr.results[0] as usize] = Some(Val::Tensor(t));
                    return true;
                }
            }
        }
        if !matches!(
            instr.kind,
            Kind::Kernel(_) | Kind::Definition(_) | Kind::Reduce(How::Known(_))
        ) {
            return false;
        }
        let mut size = 0usize;
        for operand in &instr.operands {
            match &constants[operand.slot as usize] {
                Some(Val::Tensor(t)) => size = size.saturating_add(t.len()),
                Some(Val::Sparse(s)) => size = size.saturating_add(s.mask.len()),
                _ => return false,
            }
        }
        let dims = instr.declared[0].as_ref().map(|d| {
            let dims: Option<Vec<usize>> =
                d.dims.iter().map(|d| usize::try_from((*d)?).ok()).collect();
            dims.and_then(|d| count(&d))
        });
        let worthwhile = match dims {
            // Sparse: no larger than its operands.
            None => true,
            Some(Some(n)) => n <= (1usize << 22).max(size.saturating_mul(4)),
            Some(None) => size <= 4096 && NO_LARGER.contains(&short),
        };
        if !worthwhile {
            return false;
        }
        let values = instr
            .operands
            .iter()
            .filter_map(|o| constants[o.slot as usize].clone())
            .collect();
        match Exec::constant(instr, values) {
            Some(value) => {
                constants[instr.results[0] as usize] = Some(value);
                true
            }
            None => false,
        }
    }
}

/// Gives instructions the names and numbers of the ops they stand for.
fn written(instrs: &mut [Instr], body: &Body, origins: &rewrite::Origins) {
    for instr in instrs {
        if let Some(own) = origins.get(&OpId(instr.index)) {
            instr.index = own.0;
            instr.name = body.op(*own).name.clone();
        }
        if let Kind::Attempt(_, parts) = &mut instr.kind {
            written(&mut parts.code.instrs, body, origins);
        }
    }
}

/// Finds the products with large constants.
fn weights(code: &mut Code, constants: &[Option<Val>]) {
    let mut next = None;
    for instr in code.instrs.iter_mut().rev() {
        if !ops::is_product(&instr.name) {
            continue;
        }
        let large = |slot: &u32| match &constants[*slot as usize] {
            Some(Val::Tensor(t)) => t.stored().len() >= LARGE,
            _ => false,
        };
        instr.weights = instr.operands.iter().map(|o| o.slot).find(large);
        instr.ahead = next;
        next = instr.weights.or(next);
    }
}

fn plain(v: ValueId) -> Operand {
    Operand {
        slot: v.0,
        last: false,
    }
}

fn is_terminator(op: &Op) -> bool {
    ["coreai.output", "coreai.yield", "coreai.condition"]
        .iter()
        .any(|n| op.is(n))
}

/// Whether the next op after `place` that touches the handle is a write to it in the same block.
fn overwritten_next(body: &Body, block: &Block, place: usize, op: &Op) -> bool {
    let Some(handle) = op.operands.first() else {
        return false;
    };
    for id in &block.ops[place + 1..] {
        let next = body.op(*id);
        if next.is("coreai.write_handle") && next.operands.first() == Some(handle) {
            return true;
        }
        let mut touched = next.operands.contains(handle);
        nested(body, *id, &mut |v| touched |= v == *handle);
        if touched {
            return false;
        }
    }
    false
}

/// Every value used inside the regions of an op.
fn nested(body: &Body, id: OpId, f: &mut impl FnMut(ValueId)) {
    let mut work: Vec<OpId> = vec![id];
    while let Some(id) = work.pop() {
        for region in &body.op(id).regions {
            for block in &region.blocks {
                for inner in &block.ops {
                    body.op(*inner).operands.iter().for_each(|v| f(*v));
                    work.push(*inner);
                }
            }
        }
    }
}

/// Marks where values of a block are used for the last time.
fn last_uses(body: &Body, block: &Block, code: &mut Code, constants: &[Option<Val>]) {
    let mut own: HashSet<u32> = block.args.iter().map(|v| v.0).collect();
    for id in &block.ops {
        own.extend(body.op(*id).results.iter().map(|v| v.0));
    }
    own.retain(|slot| constants[*slot as usize].is_none());
    let mut used: HashSet<u32> = HashSet::new();
    for operand in code.yields.iter_mut().rev() {
        operand.last = own.contains(&operand.slot) && used.insert(operand.slot);
    }
    for instr in code.instrs.iter_mut().rev() {
        let mut inside = HashSet::new();
        nested(body, OpId(instr.index), &mut |v| {
            inside.insert(v.0);
        });
        for slot in instr.results.iter().chain(&inside) {
            if own.contains(slot) && used.insert(*slot) {
                instr.drops.push(*slot);
            }
        }
        for operand in instr.operands.iter_mut().rev() {
            operand.last = own.contains(&operand.slot) && used.insert(operand.slot);
        }
    }
}
