//! Execution of planned programs.

use smallvec::SmallVec;

use super::ahead::{self, Ahead};
use super::error::{extents, shape};
use super::ops::{reduce_with, scatter_nd, Call, Combiner, Declared, Kernel, Val};
use super::plan::{Code, How, Instr, Kind, Operand, Plan};
use super::tensor::{bounded, Dims, OpResult, Tensor};
use super::{DType, RunError};
use crate::runtime::ops::cast;

/// How deep calls, definitions and regions may be nested while running.
const MAX_DEPTH: u32 = 24;
/// How many instructions one call of a function may execute.
const MAX_STEPS: u64 = 50_000_000;
/// How often its loops may turn, all together.
const MAX_TURNS: u64 = 1 << 20;

type Env = Vec<Option<Val>>;

/// Why execution stopped: what an op said, or where that was.
enum Stop {
    Op(String),
    At(Box<RunError>),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Op(what)
    }
}

impl From<&str> for Stop {
    fn from(what: &str) -> Stop {
        Stop::Op(what.into())
    }
}

type Done<T> = Result<T, Stop>;

/// A graph as the executor needs it.
pub(super) struct Routine {
    pub name: String,
    pub plan: Plan,
    /// Types of the arguments; `None` for handles and tokens.
    pub args: Vec<Option<Declared>>,
}

/// One call of a function.
pub(super) struct Exec<'m> {
    routines: &'m [Routine],
    /// The states; `None` while a value is moved out to be overwritten.
    pub states: Vec<Option<Tensor>>,
    /// Types and shapes of the states.
    shapes: Vec<(DType, Dims)>,
    graph: &'m str,
    depth: u32,
    steps: u64,
    turns: u64,
    /// The reading of the next weights.
    ahead: Option<Ahead>,
}

impl<'m> Exec<'m> {
    pub fn new(routines: &'m [Routine], states: Vec<Tensor>) -> Exec<'m> {
        Exec {
            routines,
            shapes: states
                .iter()
                .map(|t| (t.dtype(), t.dims().into()))
                .collect(),
            states: states.into_iter().map(Some).collect(),
            graph: "",
            depth: 0,
            steps: MAX_STEPS,
            turns: MAX_TURNS,
            ahead: None,
        }
    }

    /// The states, all of them: one whose value was lost in an error is zero again.
    pub fn into_states(self) -> Vec<Option<Tensor>> {
        let shapes = self.shapes.into_iter();
        self.states
            .into_iter()
            .zip(shapes)
            .map(|(t, (dtype, dims))| t.or_else(|| Tensor::zeros(dtype, &dims).ok()))
            .collect()
    }

    /// The value of an instruction on constants; `None` when it fails (it will again when run, and
    /// say so).
    pub fn constant(instr: &Instr, values: SmallVec<[Val; 4]>) -> Option<Val> {
        let mut exec = Exec::new(&[], Vec::new());
        exec.steps = 10_000;
        let mut env = Vec::new();
        let mut out = exec.apply(instr, values, &mut env, &[]).ok()?;
        exec.check(instr, &out).ok()?;
        out.pop()
    }

    /// Calls graph `index`.
    pub fn call(&mut self, index: usize, args: Vec<Val>) -> Result<Vec<Val>, RunError> {
        match self.invoke(index, args) {
            Ok(values) => Ok(values),
            Err(Stop::At(e)) => Err(*e),
            Err(Stop::Op(what)) => Err(RunError::Op {
                graph: self.graph.into(),
                op: "coreai.graph".into(),
                index: 0,
                what,
            }),
        }
    }

    fn invoke(&mut self, index: usize, args: Vec<Val>) -> Done<Vec<Val>> {
        let routines = self.routines;
        let routine = routines.get(index).ok_or("no such graph")?;
        if args.len() != routine.args.len() {
            return Err(
                format!("{} arguments, expected {}", args.len(), routine.args.len()).into(),
            );
        }
        let mut handles: SmallVec<[usize; 8]> = SmallVec::new();
        for (i, (value, wanted)) in args.iter().zip(&routine.args).enumerate() {
            match (value, wanted) {
                (Val::Tensor(t), Some(d)) => {
                    fits(t, d).map_err(|e| format!("argument {i} of {}: {e}", routine.name))?;
                }
                (Val::Handle(h), None) if handles.contains(h) => {
                    return Err("one state is passed twice".into());
                }
                (Val::Handle(h), None) => handles.push(*h),
                (Val::Token | Val::Sparse(_), None) => {}
                _ => {
                    return Err(
                        format!("argument {i} of {} is of another kind", routine.name).into(),
                    )
                }
            }
        }
        let outer = std::mem::replace(&mut self.graph, &routine.name);
        let out = self.run_plan(&routine.plan, args);
        if out.is_ok() {
            self.graph = outer;
        }
        out
    }

    fn run_plan(&mut self, plan: &Plan, args: Vec<Val>) -> Done<Vec<Val>> {
        let mut env: Env = vec![None; plan.slots];
        self.code(&plan.code, args, &mut env, &plan.constants)
    }

    /// Runs a block with these arguments.
    fn code(
        &mut self,
        code: &Code,
        args: Vec<Val>,
        env: &mut Env,
        constants: &[Option<Val>],
    ) -> Done<Vec<Val>> {
        if args.len() != code.args.len() {
            return Err(format!("{} values for {} arguments", args.len(), code.args.len()).into());
        }
        if self.depth == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} calls").into());
        }
        self.depth += 1;
        for (slot, value) in code.args.iter().zip(args) {
            env[*slot as usize] = Some(value);
        }
        for instr in &code.instrs {
            self.step(instr, env, constants)
                .map_err(|stop| self.locate(instr, stop))?;
        }
        let mut out = Vec::with_capacity(code.yields.len());
        for operand in &code.yields {
            out.push(fetch(*operand, env, constants)?);
        }
        self.depth -= 1;
        Ok(out)
    }

    fn locate(&self, instr: &Instr, stop: Stop) -> Stop {
        match stop {
            Stop::Op(what) => Stop::At(Box::new(RunError::Op {
                graph: self.graph.into(),
                op: instr.name.to_string(),
                index: instr.index,
                what,
            })),
            at => at,
        }
    }

    fn step(&mut self, instr: &Instr, env: &mut Env, constants: &[Option<Val>]) -> Done<()> {
        self.steps = self
            .steps
            .checked_sub(1)
            .ok_or_else(|| format!("more than {MAX_STEPS} steps"))?;
        if instr.weights.is_some() {
            self.ahead = None;
        }
        match (&instr.kind, instr.results.as_slice()) {
            // Most instructions: tensors in, one out, moved as seldom as can be.
            (Kind::Kernel(Kernel::One(kernel)), [result]) => {
                let mut call = called(instr);
                for operand in &instr.operands {
                    call.args.push(fetch_tensor(*operand, env, constants)?);
                }
                let out = kernel(&mut call)?;
                if let Some(Some(declared)) = instr.declared.first() {
                    fits(&out, declared).map_err(|e| format!("the result {e}"))?;
                }
                env[*result as usize] = Some(Val::Tensor(out));
            }
            _ => {
                let mut values = SmallVec::with_capacity(instr.operands.len());
                for operand in &instr.operands {
                    values.push(fetch(*operand, env, constants)?);
                }
                let out = self.apply(instr, values, env, constants)?;
                self.check(instr, &out)?;
                for (slot, value) in instr.results.iter().zip(out) {
                    env[*slot as usize] = Some(value);
                }
            }
        }
        if let Some(Some(Val::Tensor(t))) = instr.ahead.map(|slot| &constants[slot as usize]) {
            self.ahead = ahead::start(t);
        }
        for slot in &instr.drops {
            env[*slot as usize] = None;
        }
        Ok(())
    }

    /// Compares results with what the program declares.
    fn check(&self, instr: &Instr, out: &[Val]) -> OpResult<()> {
        if out.len() != instr.results.len() {
            return Err(format!(
                "{} results, the program has {}",
                out.len(),
                instr.results.len()
            ));
        }
        for (value, declared) in out.iter().zip(&instr.declared) {
            if let (Val::Tensor(t), Some(d)) = (value, declared) {
                fits(t, d).map_err(|e| format!("the result {e}"))?;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        instr: &Instr,
        mut values: SmallVec<[Val; 4]>,
        env: &mut Env,
        constants: &[Option<Val>],
    ) -> Done<Vec<Val>> {
        Ok(match &instr.kind {
            Kind::Kernel(Kernel::Values(f)) => vec![f(&values, &instr.declared)?],
            Kind::Kernel(kernel) => {
                let mut call = called(instr);
                for value in values {
                    call.args.push(tensor(value)?);
                }
                match kernel {
                    Kernel::One(f) => vec![Val::Tensor(f(&mut call)?)],
                    Kernel::Many(f) => f(&mut call)?.into_iter().map(Val::Tensor).collect(),
                    Kernel::Values(_) => Vec::new(),
                }
            }
            Kind::Attempt(kernel, plan) => {
                let mut args = Vec::with_capacity(values.len());
                for value in values {
                    args.push(tensor(value)?);
                }
                match kernel(&args)? {
                    Some(value) => vec![Val::Tensor(value)],
                    None => {
                        let args = args.into_iter().skip(1).map(Val::Tensor).collect();
                        self.run_plan(plan, args)?
                    }
                }
            }
            Kind::Definition(plan) => self.run_plan(plan, values.into_vec())?,
            Kind::Invoke(index) => self.invoke(*index, values.into_vec())?,
            Kind::If(yes, no) => {
                let condition = tensor(pop_first(&mut values)?)?.int()? != 0;
                let code = if condition { yes } else { no };
                self.code(code, Vec::new(), env, constants)?
            }
            Kind::While(condition, body) => {
                let mut state = values.into_vec();
                loop {
                    let mut forwarded = self.code(condition, state, env, constants)?;
                    if forwarded.is_empty() {
                        return Err("a condition without a value".into());
                    }
                    let go_on = tensor(forwarded.remove(0))?.int()? != 0;
                    if !go_on {
                        break forwarded;
                    }
                    self.turns = self
                        .turns
                        .checked_sub(1)
                        .ok_or_else(|| format!("more than {MAX_TURNS} turns: it does not end"))?;
                    state = self.code(body, forwarded, env, constants)?;
                }
            }
            Kind::Reduce(how) => {
                let init = tensor(values.pop().ok_or("too few operands")?)?;
                let axes = tensor(values.pop().ok_or("too few operands")?)?.ints()?;
                let input = tensor(values.pop().ok_or("too few operands")?)?;
                vec![Val::Tensor(match how {
                    How::Known(how) => reduce_with(&input, &axes, &init, *how)?,
                    How::Code(code) => self.reduce(code, &input, &axes, &init, env, constants)?,
                })]
            }
            Kind::ReduceIndex(code) => self.reduce_index(code, values, env, constants)?,
            Kind::ScatterNd(how) => {
                let updates = tensor(values.pop().ok_or("too few operands")?)?;
                let indices = tensor(values.pop().ok_or("too few operands")?)?.contiguous()?;
                let input = tensor(values.pop().ok_or("too few operands")?)?;
                vec![Val::Tensor(scatter_nd(input, &indices, &updates, *how)?)]
            }
            Kind::CreateToken => vec![Val::Token],
            Kind::ReadHandle { take } => {
                let handle = handle(values.first())?;
                let cell = self.states.get_mut(handle).ok_or("no such state")?;
                let value = if *take { cell.take() } else { cell.clone() };
                vec![
                    Val::Tensor(value.ok_or("the state is being overwritten")?),
                    Val::Token,
                ]
            }
            Kind::WriteHandle => {
                let handle = handle(values.first())?;
                if values.len() < 2 {
                    return Err("too few operands".into());
                }
                let value = tensor(values.swap_remove(1))?.contiguous()?;
                let (dtype, dims) = self.shapes.get(handle).ok_or("no such state")?;
                if value.dtype() != *dtype || value.dims() != dims.as_slice() {
                    return Err(format!(
                        "writes {} {} to a state of {dtype} {}",
                        value.dtype(),
                        shape(value.dims()),
                        shape(dims)
                    )
                    .into());
                }
                self.states[handle] = Some(value);
                vec![Val::Token]
            }
        })
    }

    /// Reduces with code that is called for every element.
    fn reduce(
        &mut self,
        code: &Code,
        input: &Tensor,
        axes: &[i64],
        init: &Tensor,
        env: &mut Env,
        constants: &[Option<Val>],
    ) -> Done<Tensor> {
        // Replacing keeps the shape arithmetic in one place: it yields the result's shape.
        let like = reduce_with(input, axes, init, Combiner::Replace)?;
        let mut out: Vec<Tensor> = super::tensor::room(like.len())?;
        out.resize(like.len(), init.clone());
        let steps = super::tensor::row_major(like.dims());
        let elements = input.contiguous()?;
        let mut index: Dims = input.dims().iter().map(|_| 0).collect();
        for i in 0..elements.len() {
            super::ops::unravel(i, input.dims(), &mut index);
            let place: usize = (0..index.len())
                .map(|d| index[d].min(like.dims()[d] - 1) * steps[d] as usize)
                .sum();
            let args = vec![
                Val::Tensor(out[place].clone()),
                Val::Tensor(elements.element(i)),
            ];
            let value = self.code(code, args, env, constants)?.pop();
            out[place] = tensor(value.ok_or("a region without a value")?)?;
        }
        let mut result = Tensor::alloc(input.dtype(), like.dims())?;
        let size = input.dtype().size();
        let bytes = result.data_mut::<u8>()?;
        for (o, v) in bytes.chunks_exact_mut(size).zip(&out) {
            let v = cast(v, input.dtype())?;
            o.copy_from_slice(&v.bytes());
        }
        Ok(result)
    }

    /// The position of the element for which the region says it beats all before.
    fn reduce_index(
        &mut self,
        code: &Code,
        values: SmallVec<[Val; 4]>,
        env: &mut Env,
        constants: &[Option<Val>],
    ) -> Done<Vec<Val>> {
        let mut operands = values.into_iter();
        let mut next = || tensor(operands.next().ok_or("too few operands")?);
        let (input, axis, value, first) = (next()?.contiguous()?, next()?.int()?, next()?, next()?);
        let rank = input.rank() as i64;
        let a = usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(usize::MAX);
        if a >= input.rank() || value.dtype() != input.dtype() {
            return Err(format!("axis {axis} of shape {}", shape(input.dims())).into());
        }
        let mut dims: Dims = input.dims().into();
        let n = std::mem::replace(&mut dims[a], 1);
        let inner: usize = input.dims()[a + 1..].iter().product();
        let start = first.int()?;
        let mut out = Tensor::alloc(DType::I64, &dims)?;
        for i in 0..out.len() {
            let (mut best, mut at) = (value.clone(), start);
            for k in 0..n {
                let candidate = input.element((i / inner * n + k) * inner + i % inner);
                let args = vec![Val::Tensor(best.clone()), Val::Tensor(candidate.clone())];
                let wins = self.code(code, args, env, constants)?.pop();
                if tensor(wins.ok_or("a region without a value")?)?.int()? != 0 {
                    (best, at) = (candidate, k as i64);
                }
            }
            out.data_mut::<i64>()?[i] = at;
        }
        Ok(vec![Val::Tensor(cast(&out, first.dtype())?)])
    }
}

/// What a kernel gets, without arguments yet: they are put where they stay, as moving them costs.
fn called(instr: &Instr) -> Call<'_> {
    Call {
        args: SmallVec::new(),
        attrs: &instr.attrs,
        results: &instr.declared,
    }
}

fn fetch(operand: Operand, env: &mut Env, constants: &[Option<Val>]) -> OpResult<Val> {
    let slot = operand.slot as usize;
    let value = if operand.last {
        env[slot].take()
    } else {
        env[slot].clone().or_else(|| constants[slot].clone())
    };
    value.ok_or_else(|| "uses a value that was not computed".into())
}

/// [`fetch`] where only a tensor will do, moved once.
#[inline]
fn fetch_tensor(operand: Operand, env: &mut Env, constants: &[Option<Val>]) -> OpResult<Tensor> {
    let slot = operand.slot as usize;
    if operand.last {
        if let Some(value) = env[slot].take() {
            return tensor(value);
        }
    } else if let Some(Val::Tensor(t)) = env[slot].as_ref().or(constants[slot].as_ref()) {
        return Ok(t.clone());
    }
    fetch(operand, env, constants).and_then(tensor)
}

#[inline]
fn tensor(value: Val) -> OpResult<Tensor> {
    match value {
        Val::Tensor(t) => Ok(t),
        _ => Err("expected a tensor".into()),
    }
}

fn handle(value: Option<&Val>) -> OpResult<usize> {
    match value {
        Some(Val::Handle(h)) => Ok(*h),
        _ => Err("expected a handle".into()),
    }
}

fn pop_first(values: &mut SmallVec<[Val; 4]>) -> OpResult<Val> {
    if values.is_empty() {
        return Err("too few operands".into());
    }
    Ok(values.remove(0))
}

/// Whether a tensor is of the declared type.
fn fits(t: &Tensor, declared: &Declared) -> OpResult<()> {
    let extents_fit = t.rank() == declared.dims.len()
        && t.dims()
            .iter()
            .zip(&declared.dims)
            .all(|(have, want)| want.is_none_or(|w| w == *have as u64));
    if t.dtype() == declared.dtype && extents_fit {
        if t.is_empty() {
            bounded(t.dims()).map_err(|e| format!("is {e}"))?;
        }
        return Ok(());
    }
    Err(format!(
        "is {} {}, the program declares {} {}",
        t.dtype(),
        shape(t.dims()),
        declared.dtype,
        extents(&declared.dims)
    ))
}
