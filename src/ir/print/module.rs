//! Printing of modules, graphs and ops.

use std::fmt::{self, Display, Formatter, Write};

use super::names::Names;
use super::{dense, dict, is_bare, join, quoted, symbol, symbol_path};
use crate::ir::attr::{Attr, AttrDict};
use crate::ir::graph::{Body, Graph, Module, Op, Region};
use crate::ir::syntax;
use crate::ir::types::Type;

/// How a module is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// Constants of more elements than this are left out (`dense_resource<__elided__>`).
    pub elide_above: Option<usize>,
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(f, PrintOptions::default())
    }
}

impl Module {
    /// Prints the module in the pretty form; ops whose pretty syntax is not known, or cannot hold
    /// all they have, in the generic form. Locations are left out.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn print(&self, out: &mut dyn Write, options: PrintOptions) -> fmt::Result {
        out.write_str("module ")?;
        if let Some(name) = &self.name {
            write!(out, "{} ", symbol(name))?;
        }
        if !self.attrs.is_empty() {
            out.write_str("attributes ")?;
            dict(out, &self.attrs)?;
            out.write_char(' ')?;
        }
        out.write_str("{\n")?;
        let mut printer = Printer {
            out,
            options,
            depth: 1,
        };
        let mut open: &[String] = &[];
        for graph in &self.graphs {
            let wanted = graph.name.namespaces();
            let common = open.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            printer.close(open.len() - common)?;
            for (level, name) in wanted.iter().enumerate().skip(common) {
                printer.indent()?;
                let word = if level == 0 {
                    "udml.namespace"
                } else {
                    "namespace"
                };
                writeln!(printer.out, "{word} {} {{", symbol(name))?;
                printer.depth += 1;
            }
            open = wanted;
            printer.graph(graph)?;
        }
        printer.close(open.len())?;
        if let Some(entry) = self.other.entry() {
            let names = Names::new(&self.other);
            for (_, op) in self.other.block_ops(entry) {
                printer.op(&self.other, &names, op, false)?;
            }
        }
        out.write_str("}\n")
    }
}

struct Printer<'w> {
    out: &'w mut dyn Write,
    options: PrintOptions,
    depth: usize,
}

impl Printer<'_> {
    fn indent(&mut self) -> fmt::Result {
        write!(self.out, "{:1$}", "", 2 * self.depth)
    }

    /// Closes braces.
    fn close(&mut self, count: usize) -> fmt::Result {
        for _ in 0..count {
            self.depth -= 1;
            self.indent()?;
            self.out.write_str("}\n")?;
        }
        Ok(())
    }

    fn graph(&mut self, graph: &Graph) -> fmt::Result {
        self.indent()?;
        self.out.write_str("coreai.graph ")?;
        for (set, word) in [
            (graph.private, "private "),
            (graph.externalize, "externalize "),
            (graph.no_inline, "noinline "),
        ] {
            if set {
                self.out.write_str(word)?;
            }
        }
        let names = Names::new(&graph.body);
        write!(self.out, "{}(", symbol(graph.name.leaf()))?;
        join(self.out, &graph.args, |out, arg| {
            write!(out, "%{}: {}", names.of[arg.value.0 as usize], arg.ty)?;
            trailing_dict(out, &arg.attrs)
        })?;
        self.out.write_char(')')?;
        match &graph.results[..] {
            [] => {}
            [one] if one.attrs.is_empty() && !matches!(one.ty, Type::Function(_)) => {
                write!(self.out, " -> {}", one.ty)?;
            }
            many => {
                self.out.write_str(" -> (")?;
                join(self.out, many, |out, result| {
                    write!(out, "{}", result.ty)?;
                    trailing_dict(out, &result.attrs)
                })?;
                self.out.write_char(')')?;
            }
        }
        let mut attrs = graph.attrs.clone();
        if let Some(composite) = &graph.composite {
            attrs.insert(
                "composite_decl".into(),
                Attr::Composite(Box::new(composite.clone())),
            );
        }
        if !attrs.is_empty() {
            self.out.write_str(" attributes ")?;
            dict(self.out, &attrs)?;
        }
        self.out.write_char(' ')?;
        self.region(&graph.body, &names, &graph.body.region, false)?;
        self.out.write_char('\n')
    }

    /// `{ … }`, closed at the current depth, without a newline behind.
    fn region(&mut self, body: &Body, names: &Names, region: &Region, label: bool) -> fmt::Result {
        self.out.write_str("{\n")?;
        for (index, block) in region.blocks.iter().enumerate() {
            if index > 0 || (label && !block.args.is_empty()) {
                self.indent()?;
                write!(self.out, "^bb{index}")?;
                if !block.args.is_empty() {
                    self.out.write_char('(')?;
                    join(self.out, &block.args, |out, v| {
                        write!(out, "%{}: {}", names.of[v.0 as usize], body.ty(*v))
                    })?;
                    self.out.write_char(')')?;
                }
                self.out.write_str(":\n")?;
            }
            self.depth += 1;
            for (id, op) in body.block_ops(block) {
                self.op(body, names, op, block.ops.last() == Some(&id))?;
            }
            self.depth -= 1;
        }
        self.indent()?;
        self.out.write_char('}')
    }

    /// `last`: nothing follows in the block.
    fn op(&mut self, body: &Body, names: &Names, op: &Op, last: bool) -> fmt::Result {
        self.indent()?;
        // The names of an op's results are found through the value: ops do not know their number.
        if let Some(first) = op.results.first() {
            if let crate::ir::graph::ValueDef::Result { op: id, .. } = body.def(*first) {
                write!(self.out, "{} = ", names.results[id.0 as usize])?;
            }
        }
        // `coreai.output` alone would take the next op's results for its operands.
        let open_ended =
            !last && op.operands.is_empty() && syntax::pattern(&op.name).ends_with("T,");
        if open_ended || !self.special(body, names, op)? && !self.pattern(body, names, op)? {
            self.generic(body, names, op)?;
        }
        self.out.write_char('\n')
    }

    /// Constants, calls and delegated groups; `false` when this is none of them.
    fn special(&mut self, body: &Body, names: &Names, op: &Op) -> Result<bool, fmt::Error> {
        let only = |keys: &[&str]| op.attrs.keys().all(|k| keys.contains(&k.as_str()));
        match (&*op.name, &op.results[..]) {
            ("coreai.constant", [result]) if op.operands.is_empty() && op.regions.is_empty() => {
                let Some(Attr::Dense(data)) = op.attrs.get("value") else {
                    return Ok(false);
                };
                if !only(&["value"]) || data.ty != *body.ty(*result) {
                    return Ok(false);
                }
                self.out.write_str("coreai.constant ")?;
                dense(self.out, data, self.options.elide_above)?;
            }
            ("coreai.invoke", _) if op.regions.is_empty() && only(&["callee"]) => {
                let Some(callee) = op.callee() else {
                    return Ok(false);
                };
                write!(self.out, "coreai.invoke {}(", symbol_path(callee))?;
                self.operands(names, op)?;
                self.out.write_str(")  : ")?;
                self.function_type(body, op)?;
            }
            ("coreai.isolated_group", _) if only(&["delegate_id"]) => {
                let (Some(id), [region]) = (op.attrs.get("delegate_id"), &op.regions[..]) else {
                    return Ok(false);
                };
                write!(self.out, "coreai.isolated_group<{id}>(")?;
                self.operands(names, op)?;
                self.out.write_str(") : ")?;
                self.function_type(body, op)?;
                self.out.write_char(' ')?;
                self.region(body, names, region, true)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn operands(&mut self, names: &Names, op: &Op) -> fmt::Result {
        join(self.out, &op.operands, |out, v| {
            write!(out, "%{}", names.of[v.0 as usize])
        })
    }

    /// `(T) -> R`.
    fn function_type(&mut self, body: &Body, op: &Op) -> fmt::Result {
        self.out.write_char('(')?;
        join(self.out, &op.operands, |out, v| {
            write!(out, "{}", body.ty(*v))
        })?;
        self.out.write_str(") -> ")?;
        self.result_types(body, op, "R")
    }

    fn result_types(&mut self, body: &Body, op: &Op, style: &str) -> fmt::Result {
        let types: Vec<&Type> = op.results.iter().map(|v| body.ty(*v)).collect();
        let bare = style == "R," || (style == "R" && types.len() == 1);
        if bare && !types.iter().any(|t| matches!(t, Type::Function(_))) {
            return join(self.out, types, |out, t| write!(out, "{t}"));
        }
        self.out.write_char('(')?;
        join(self.out, types, |out, t| write!(out, "{t}"))?;
        self.out.write_char(')')
    }

    /// Prints by the op's pattern, where that can hold all of it; `false` otherwise.
    fn pattern(&mut self, body: &Body, names: &Names, op: &Op) -> Result<bool, fmt::Error> {
        let pattern = syntax::pattern(&op.name);
        let (head, types) = pattern.split_once(':').unwrap_or((pattern, ""));
        let types: Vec<&str> = types.split_whitespace().collect();
        let Some(order) = printed_order(head, op.operands.len()) else {
            return Ok(false);
        };
        let function = |v| matches!(body.ty(v), Type::Function(_));
        if !fits(op, head, &types) || op.operands.iter().any(|v| function(*v)) {
            return Ok(false);
        }
        self.out.write_str(&op.name)?;
        let mut spaced = false;
        for piece in head.split_whitespace() {
            let tight = matches!(piece, "," | ")")
                || spaced
                || (piece == "(" && op.name.starts_with("coreaix."));
            spaced = piece == "(";
            if let Some((key, attr)) = piece.split_once('=') {
                let value = &op.attrs[attr];
                if let Attr::Keyword { set, word } = value {
                    if syntax::default_keyword(&op.name, attr) != Some((*set, word.as_str())) {
                        write!(self.out, " {key} = <{word}>")?;
                    }
                }
                continue;
            }
            let nothing = piece == "$*" && op.operands.is_empty();
            if !tight && !nothing {
                self.out.write_char(' ')?;
            }
            if piece == "$*" {
                self.operands(names, op)?;
            } else if let Some(place) = piece
                .strip_prefix('$')
                .and_then(|n| n.parse::<usize>().ok())
            {
                write!(self.out, "%{}", names.of[op.operands[place].0 as usize])?;
            } else if let Some(n) = piece
                .strip_prefix('{')
                .and_then(|n| n[..1].parse::<usize>().ok())
            {
                self.region(body, names, &op.regions[n], true)?;
            } else {
                self.out.write_str(piece)?;
            }
        }
        let shown = |key: &str| {
            head.split_whitespace()
                .any(|p| p.split_once('=').is_some_and(|(_, a)| a == key))
        };
        let rest: AttrDict = op
            .attrs
            .iter()
            .filter(|(k, _)| !shown(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        trailing_dict(self.out, &rest)?;
        let elide = matches!(&*op.name, "coreai.read_handle" | "coreai.write_handle");
        let operand = |out: &mut dyn Write, place: &usize| match body.ty(op.operands[*place]) {
            Type::Handle(inner) if elide => write!(out, "<{inner}>"),
            ty => write!(out, "{ty}"),
        };
        match types.first() {
            Some(&"R") => {
                self.out.write_str(" : ")?;
                self.result_types(body, op, "R,")?;
                return Ok(true);
            }
            Some(&"T,") if order.is_empty() => {}
            Some(&"(T)") => {
                self.out.write_str(" : (")?;
                join(self.out, &order, operand)?;
                self.out.write_char(')')?;
            }
            _ => {
                self.out.write_str(" : ")?;
                join(self.out, &order, operand)?;
            }
        }
        if let [_, arrow, style] = types[..] {
            write!(self.out, " {arrow} ")?;
            self.result_types(body, op, style)?;
        }
        Ok(true)
    }

    fn generic(&mut self, body: &Body, names: &Names, op: &Op) -> fmt::Result {
        write!(self.out, "{}(", quoted(&op.name))?;
        self.operands(names, op)?;
        self.out.write_char(')')?;
        if !op.attrs.is_empty() {
            self.out.write_str(" <")?;
            dict(self.out, &op.attrs)?;
            self.out.write_char('>')?;
        }
        if !op.regions.is_empty() {
            self.out.write_str(" (")?;
            for (i, region) in op.regions.iter().enumerate() {
                if i > 0 {
                    self.out.write_str(", ")?;
                }
                self.region(body, names, region, true)?;
            }
            self.out.write_char(')')?;
        }
        self.out.write_str(" : ")?;
        self.function_type(body, op)
    }
}

fn trailing_dict(out: &mut dyn Write, attrs: &AttrDict) -> fmt::Result {
    if attrs.is_empty() {
        return Ok(());
    }
    out.write_char(' ')?;
    dict(out, attrs)
}

/// The places of the operands in the order the pattern prints them; `None` when it prints another
/// number of them.
fn printed_order(head: &str, operands: usize) -> Option<Vec<usize>> {
    if head.split_whitespace().any(|p| p == "$*") {
        return Some((0..operands).collect());
    }
    let order: Vec<usize> = head
        .split_whitespace()
        .filter_map(|p| p.strip_prefix('$').and_then(|n| n.parse().ok()))
        .collect();
    (order.len() == operands).then_some(order)
}

/// Whether the pattern can hold the op's results, regions, attributes and number of operands.
fn fits(op: &Op, head: &str, types: &[&str]) -> bool {
    let keywords = head.split_whitespace().filter_map(|p| p.split_once('='));
    let words = keywords.clone().all(|(_, attr)| {
        matches!(op.attrs.get(attr), Some(Attr::Keyword { set, .. }) if syntax::keyword_set(attr) == Some(*set))
    });
    let results = match types {
        ["R"] => !op.results.is_empty() && op.operands.is_empty(),
        [_, _, "R,"] => !op.results.is_empty(),
        [_, _, _] => true,
        _ => op.results.is_empty(),
    };
    let one = types.first() != Some(&"T") || op.operands.len() == 1;
    let name = op.name.contains('.') && is_bare(&op.name);
    let own = matches!(
        &*op.name,
        "coreai.constant"
            | "coreai.invoke"
            | "coreai.isolated_group"
            | "coreai.delegate"
            | "coreai.graph"
    );
    // Attributes in braces would be taken for a region where the op has regions.
    let braces = op.regions.is_empty()
        || op
            .attrs
            .keys()
            .all(|k| keywords.clone().any(|(_, attr)| attr == k));
    words && results && one && name && !own && braces && op.regions.len() == syntax::regions(head)
}
