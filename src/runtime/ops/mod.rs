//! The ops, one file per family. To add one: write its kernel and list it in its family's `OPS`.

mod attention;
mod binary;
mod cast;
mod compare;
mod complex;
mod compress;
mod conv;
mod dot;
mod exponential;
mod gather;
mod grouped;
mod interpolate;
mod layout;
mod matmul;
mod nibbles;
mod packed;
mod pad;
mod pool;
mod range;
mod reduce;
mod scalar;
mod scan;
mod scatter;
mod shape;
mod slice;
mod softmax;
mod sort;
mod unary;

use smallvec::SmallVec;

pub(super) use attention::{attention, Layout};
pub(super) use grouped::{grouped_product, Grouped};
pub(super) use scalar::Combiner;
pub(super) use scatter::scatter_nd;
pub(super) use {cast::cast, conv::unravel, reduce::reduce_with};

use super::tensor::{bounded, Dims, OpResult, Strides, Tensor};
use super::DType;
use crate::ir::{Attr, AttrDict};

/// The type a program declares for a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub dtype: DType,
    pub dims: Vec<Option<u64>>,
}

/// A sparse tensor: stored values, and where they belong.
#[derive(Clone, Debug)]
pub(super) struct Sparse {
    pub values: Tensor,
    pub mask: Tensor,
}

/// A value while a program runs.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Tensor(Tensor),
    /// Rare, and behind a pointer so that a value is small.
    Sparse(Box<Sparse>),
    /// A state, by its position among the function's states.
    Handle(usize),
    Token,
}

// What is larger is moved by a call.
const _: () = assert!(size_of::<Option<Val>>() <= 128);

/// What a kernel gets. Arguments are owned: one nobody else holds may be written in place.
pub(super) struct Call<'a> {
    pub args: SmallVec<[Tensor; 4]>,
    pub attrs: &'a AttrDict,
    pub results: &'a [Option<Declared>],
}

impl Call<'_> {
    /// Argument `i`; whoever takes it leaves an empty tensor behind.
    pub fn take(&mut self, i: usize) -> OpResult<Tensor> {
        let arg = self.args.get_mut(i).ok_or("too few operands")?;
        Ok(std::mem::replace(arg, Tensor::empty()))
    }

    /// Argument `i`.
    pub fn arg(&self, i: usize) -> OpResult<&Tensor> {
        self.args.get(i).ok_or_else(|| "too few operands".into())
    }

    /// The declared type of the only result.
    pub fn declared(&self) -> OpResult<&Declared> {
        match self.results.first() {
            Some(Some(d)) => Ok(d),
            _ => Err("the result is no tensor".into()),
        }
    }

    /// The word of a keyword attribute.
    pub fn word(&self, key: &str) -> OpResult<&str> {
        match self.attrs.get(key) {
            Some(Attr::Keyword { word, .. }) => Ok(word),
            Some(Attr::String(word)) => Ok(word),
            _ => Err(format!("attribute {key} is missing")),
        }
    }
}

/// How an op is executed.
#[derive(Clone, Copy)]
pub(super) enum Kernel {
    /// Tensors in, one tensor out.
    One(fn(&mut Call<'_>) -> OpResult<Tensor>),
    /// Tensors in, several out.
    Many(fn(&mut Call<'_>) -> OpResult<Vec<Tensor>>),
    /// Sparse tensors take part.
    Values(fn(&[Val], &[Option<Declared>]) -> OpResult<Val>),
}

/// A family's ops: short name and kernel.
type Family = &'static [(&'static str, Kernel)];

const FAMILIES: &[Family] = &[
    binary::OPS,
    cast::OPS,
    compare::OPS,
    complex::OPS,
    compress::OPS,
    conv::OPS,
    gather::OPS,
    interpolate::OPS,
    layout::OPS,
    matmul::OPS,
    packed::OPS,
    pad::OPS,
    pool::OPS,
    range::OPS,
    reduce::OPS,
    scan::OPS,
    scatter::OPS,
    shape::OPS,
    slice::OPS,
    softmax::OPS,
    sort::OPS,
    unary::OPS,
];

/// The kernel of an op, by its printed name.
pub(super) fn find(name: &str) -> Option<Kernel> {
    let short = name
        .strip_prefix("coreai.decomposable.")
        .or_else(|| name.strip_prefix("coreai."))
        .or_else(|| name.strip_prefix("coreaix."))?;
    FAMILIES
        .iter()
        .flat_map(|f| f.iter())
        .find(|(n, _)| *n == short)
        .map(|(_, k)| *k)
}

/// Whether an op reads a whole matrix, and little else, when it multiplies one row with it.
pub(super) fn is_product(name: &str) -> bool {
    [
        "batch_matmul",
        "broadcasting_batch_matmul",
        "packed_product",
    ]
    .iter()
    .any(|n| name.rsplit('.').next() == Some(n))
}

/// An axis in `-rank..rank` as a position.
fn axis(value: i64, rank: usize) -> OpResult<usize> {
    let wrapped = if value < 0 {
        value + rank as i64
    } else {
        value
    };
    match usize::try_from(wrapped) {
        Ok(a) if a < rank => Ok(a),
        _ => Err(format!("axis {value} is outside a tensor of rank {rank}")),
    }
}

/// Axes in `-rank..rank` as sorted positions, each once.
fn axes(values: &[i64], rank: usize) -> OpResult<Vec<usize>> {
    let mut axes = Vec::with_capacity(values.len());
    for v in values {
        let a = axis(*v, rank)?;
        if axes.contains(&a) {
            return Err(format!("axis {v} is listed twice"));
        }
        axes.push(a);
    }
    axes.sort_unstable();
    Ok(axes)
}

/// An extent from a program's integer.
fn extent(value: i64) -> OpResult<usize> {
    usize::try_from(value).map_err(|_| format!("a dimension of {value}"))
}

/// The shape two shapes broadcast to.
fn broadcast_dims(a: &[usize], b: &[usize]) -> OpResult<Dims> {
    let rank = a.len().max(b.len());
    let at = |dims: &[usize], i: usize| match (i + dims.len()).checked_sub(rank) {
        Some(i) => dims[i],
        None => 1,
    };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(format!(
                "shapes {} and {} do not broadcast",
                super::error::shape(a),
                super::error::shape(b)
            )),
        })
        .collect()
}

/// A view of `t` with shape `dims`, to which its own shape broadcasts.
fn broadcast_view(t: &Tensor, dims: &[usize]) -> OpResult<Tensor> {
    if t.dims() == dims {
        return Ok(t.clone());
    }
    bounded(dims)?;
    let missing = dims.len().checked_sub(t.rank());
    let fits = missing.is_some_and(|m| {
        t.dims()
            .iter()
            .zip(&dims[m..])
            .all(|(have, want)| have == want || *have == 1)
    });
    let (Some(missing), true) = (missing, fits) else {
        return Err(format!(
            "shape {} does not broadcast to {}",
            super::error::shape(t.dims()),
            super::error::shape(dims)
        ));
    };
    let mut strides = Strides::new();
    for (i, want) in dims.iter().enumerate() {
        strides.push(match i.checked_sub(missing) {
            Some(j) if t.dims()[j] == *want => t.strides()[j],
            _ => 0,
        });
    }
    Ok(t.view(dims.into(), strides, t.offset()))
}

/// `outer × axis × inner` of a row-major shape.
fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (
        dims[..axis].iter().product(),
        dims[axis],
        dims[axis + 1..].iter().product(),
    )
}
