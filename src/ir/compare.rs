//! Comparison of two readings of one program.
//!
//! Value names, locations, the keys of resources and the stored definitions of ops are no part of
//! it, nor are the further attributes of a graph, which the writer of assets drops; a constant whose
//! data one side does not have matches any.

use super::attr::{Attr, AttrDict, Dense, Payload};
use super::graph::{Body, Graph, Module, OpId, Region, ValueId};
use super::types::{Element, Sign, TensorType, Type};

/// The first difference between two modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where: `graph main, op 12 (coreai.reshape), result 0`.
    pub at: String,
    /// What the first reading says.
    pub left: String,
    /// What the second reading says.
    pub right: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} against {}", self.at, self.left, self.right)
    }
}

type Found = Result<(), Box<Difference>>;

fn differ(at: &str, left: impl ToString, right: impl ToString) -> Found {
    Err(Box::new(Difference {
        at: at.to_string(),
        left: left.to_string(),
        right: right.to_string(),
    }))
}

fn same<T: PartialEq + ToString>(at: impl FnOnce() -> String, left: T, right: T) -> Found {
    if left == right {
        Ok(())
    } else {
        differ(&at(), left, right)
    }
}

/// The first difference between two readings of one program; `None` when there is none.
pub fn compare(left: &Module, right: &Module) -> Option<Difference> {
    modules(left, right).err().map(|d| *d)
}

fn modules(left: &Module, right: &Module) -> Found {
    let list = |m: &Module| {
        m.graphs
            .iter()
            .map(|g| g.name.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    same(|| "graphs".into(), list(left), list(right))?;
    for (a, b) in left.graphs.iter().zip(&right.graphs) {
        graphs(a, b)?;
    }
    Cmp {
        at: "module".into(),
        left: &left.other,
        right: &right.other,
        map: Vec::new(),
    }
    .bodies()
}

fn graphs(a: &Graph, b: &Graph) -> Found {
    let at = format!("graph {}", a.name);
    let flag = |what: &str, l: bool, r: bool| same(|| format!("{at}, {what}"), l, r);
    flag("private", a.private, b.private)?;
    flag("noinline", a.no_inline, b.no_inline)?;
    flag("externalize", a.externalize, b.externalize)?;
    same(
        || format!("{at}, number of arguments"),
        a.args.len(),
        b.args.len(),
    )?;
    same(
        || format!("{at}, number of results"),
        a.results.len(),
        b.results.len(),
    )?;
    for (i, (x, y)) in a.args.iter().zip(&b.args).enumerate() {
        let at = format!("{at}, argument {i}");
        types(&at, &x.ty, &y.ty)?;
        dicts(&at, &x.attrs, &y.attrs)?;
    }
    for (i, (x, y)) in a.results.iter().zip(&b.results).enumerate() {
        let at = format!("{at}, result {i}");
        types(&at, &x.ty, &y.ty)?;
        dicts(&at, &x.attrs, &y.attrs)?;
    }
    match (&a.composite, &b.composite) {
        (None, None) => {}
        (Some(x), Some(y)) => {
            same(|| format!("{at}, composite"), &x.name, &y.name)?;
            dicts(&format!("{at}, composite {}", x.name), &x.attrs, &y.attrs)?;
        }
        (x, y) => {
            let name = |c: &Option<super::attr::Composite>| {
                c.as_ref()
                    .map_or("no composite".to_string(), |c| c.name.clone())
            };
            return differ(&format!("{at}, composite"), name(x), name(y));
        }
    }
    Cmp {
        at,
        left: &a.body,
        right: &b.body,
        map: Vec::new(),
    }
    .bodies()
}

/// Two bodies, with the value of the right one for each of the left one seen so far.
struct Cmp<'a> {
    at: String,
    left: &'a Body,
    right: &'a Body,
    map: Vec<Option<ValueId>>,
}

impl Cmp<'_> {
    fn bodies(mut self) -> Found {
        self.map = vec![None; self.left.values.len()];
        let at = self.at.clone();
        self.regions(&at, &self.left.region, &self.right.region)
    }

    fn regions(&mut self, at: &str, a: &Region, b: &Region) -> Found {
        // A body without blocks and one with an empty block hold the same nothing.
        let empty = |r: &Region| {
            r.blocks
                .iter()
                .all(|x| x.args.is_empty() && x.ops.is_empty())
        };
        if empty(a) && empty(b) {
            return Ok(());
        }
        same(
            || format!("{at}, number of blocks"),
            a.blocks.len(),
            b.blocks.len(),
        )?;
        for (x, y) in a.blocks.iter().zip(&b.blocks) {
            same(
                || format!("{at}, number of block arguments"),
                x.args.len(),
                y.args.len(),
            )?;
            for (i, (v, w)) in x.args.iter().zip(&y.args).enumerate() {
                types(
                    &format!("{at}, block argument {i}"),
                    self.left.ty(*v),
                    self.right.ty(*w),
                )?;
                self.map[v.0 as usize] = Some(*w);
            }
            for (p, q) in x.ops.iter().zip(&y.ops) {
                self.ops(*p, *q)?;
            }
            let next = |body: &Body, ops: &[OpId], n: usize| {
                ops.get(n)
                    .map_or("the end".to_string(), |id| body.op(*id).name.to_string())
            };
            let n = x.ops.len().min(y.ops.len());
            same(
                || format!("{at}, op {n}"),
                next(self.left, &x.ops, n),
                next(self.right, &y.ops, n),
            )?;
        }
        Ok(())
    }

    fn ops(&mut self, p: OpId, q: OpId) -> Found {
        let (a, b) = (self.left.op(p), self.right.op(q));
        let at = format!("{}, op {} ({})", self.at, p.0, a.name);
        same(|| at.clone(), &*a.name, &*b.name)?;
        same(
            || format!("{at}, number of operands"),
            a.operands.len(),
            b.operands.len(),
        )?;
        for (i, (v, w)) in a.operands.iter().zip(&b.operands).enumerate() {
            if self.map[v.0 as usize] != Some(*w) {
                let at = format!("{at}, operand {i}");
                return differ(&at, origin(self.left, *v), origin(self.right, *w));
            }
        }
        same(
            || format!("{at}, number of results"),
            a.results.len(),
            b.results.len(),
        )?;
        for (i, (v, w)) in a.results.iter().zip(&b.results).enumerate() {
            types(
                &format!("{at}, result {i}"),
                self.left.ty(*v),
                self.right.ty(*w),
            )?;
            self.map[v.0 as usize] = Some(*w);
        }
        dicts(&at, &a.attrs, &b.attrs)?;
        same(
            || format!("{at}, number of regions"),
            a.regions.len(),
            b.regions.len(),
        )?;
        for (i, (x, y)) in a.regions.iter().zip(&b.regions).enumerate() {
            self.regions(&format!("{at}, region {i}"), x, y)?;
        }
        Ok(())
    }
}

fn origin(body: &Body, value: ValueId) -> String {
    use super::graph::ValueDef;
    match body.def(value) {
        ValueDef::Entry { index } => format!("argument {index}"),
        ValueDef::BlockArg { op, index, .. } => format!("block argument {index} of op {}", op.0),
        ValueDef::Result { op, index } => {
            format!("result {index} of op {} ({})", op.0, body.op(op).name)
        }
    }
}

fn types(at: &str, a: &Type, b: &Type) -> Found {
    if same_type(a, b) {
        Ok(())
    } else {
        differ(at, a, b)
    }
}

/// Equal but for what saving changes: signless integers become unsigned, `si1` becomes `i1`.
fn same_type(a: &Type, b: &Type) -> bool {
    let tensor = |x: &TensorType, y: &TensorType| {
        x.dims == y.dims && x.element.as_saved() == y.element.as_saved() && x.encoding == y.encoding
    };
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) => tensor(x, y),
        (Type::Handle(x), Type::Handle(y)) => same_type(x, y),
        (Type::Scalar(x), Type::Scalar(y)) => x.as_saved() == y.as_saved(),
        (Type::Function(x), Type::Function(y)) => {
            let all = |p: &[Type], q: &[Type]| {
                p.len() == q.len() && p.iter().zip(q).all(|(s, t)| same_type(s, t))
            };
            all(&x.inputs, &y.inputs) && all(&x.results, &y.results)
        }
        _ => a == b,
    }
}

fn dicts(at: &str, a: &AttrDict, b: &AttrDict) -> Found {
    for key in a.keys().chain(b.keys()) {
        match (a.get(key), b.get(key)) {
            (Some(x), Some(y)) if same_attr(x, y) => {}
            (x, y) => {
                let text = |v: Option<&Attr>| v.map_or("absent".to_string(), shown);
                return differ(&format!("{at}, attribute `{key}`"), text(x), text(y));
            }
        }
    }
    Ok(())
}

/// An attribute for a message: long data is cut.
fn shown(attr: &Attr) -> String {
    let text = attr.to_string();
    match text.char_indices().nth(120) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// Equal but for what an asset does not hold: the kind of a float of equal width, the difference
/// between signless and signed, data that is elsewhere.
fn same_attr(a: &Attr, b: &Attr) -> bool {
    match (a, b) {
        (Attr::Int { value: v, ty: t }, Attr::Int { value: w, ty: u }) => {
            let unsigned = |e: &Element| {
                matches!(
                    e,
                    Element::Int {
                        sign: Sign::Unsigned,
                        ..
                    }
                )
            };
            v == w && t.width() == u.width() && unsigned(t) == unsigned(u)
        }
        (Attr::Float { bits: v, kind: k }, Attr::Float { bits: w, kind: l }) => {
            v == w && k.width() == l.width()
        }
        (Attr::Type(x), Attr::Type(y)) => same_type(x, y),
        (Attr::Array(x), Attr::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(p, q)| same_attr(p, q))
        }
        (Attr::Dict(x), Attr::Dict(y)) => {
            x.len() == y.len()
                && x.iter()
                    .zip(y)
                    .all(|((k, p), (l, q))| k == l && same_attr(p, q))
        }
        (Attr::Composite(x), Attr::Composite(y)) => {
            x.name == y.name
                && same_attr(&Attr::Dict(x.attrs.clone()), &Attr::Dict(y.attrs.clone()))
        }
        (Attr::Dense(x), Attr::Dense(y)) => same_type(&x.ty, &y.ty) && same_data(x, y),
        _ => a == b,
    }
}

fn same_data(a: &Dense, b: &Dense) -> bool {
    match (&a.payload, &b.payload) {
        (Payload::Elided, _) | (_, Payload::Elided) => true,
        (Payload::Resource { data: None, .. }, _) | (_, Payload::Resource { data: None, .. }) => {
            true
        }
        (Payload::Resource { data: x, .. }, Payload::Resource { data: y, .. }) if x == y => true,
        _ => match (a.elements(), b.elements()) {
            (Some(x), Some(y)) => x == y,
            _ => false,
        },
    }
}
