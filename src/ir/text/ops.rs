//! Ops, regions and values in printed IR, in both forms.

use std::collections::HashMap;

use super::dense::constant_type;
use super::lexer::Tok;
use super::parser::{PResult, Parser};
use crate::ir::attr::{Attr, AttrDict};
use crate::ir::graph::{Block, Body, Op, OpId, Region, ValueDef, ValueId};
use crate::ir::syntax;
use crate::ir::types::Type;

/// A body under construction, with the names in scope.
pub(super) struct Builder<'a> {
    body: Body,
    /// Innermost last; a name stands for a run of values (`%7:2`).
    scopes: Vec<HashMap<&'a str, (ValueId, u32)>>,
    /// Regions being filled, innermost last, with the op that owns each.
    open: Vec<(Option<OpId>, Region)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new() -> Builder<'a> {
        Builder {
            body: Body::default(),
            scopes: vec![HashMap::new()],
            open: vec![(None, Region::default())],
        }
    }

    /// Makes sure that the body has an entry block.
    pub(super) fn open_entry(&mut self) {
        if let [(None, region)] = &mut self.open[..] {
            if region.blocks.is_empty() {
                region.blocks.push(Block::default());
            }
        }
    }

    fn block(&mut self) -> &mut Block {
        let region = match self.open.last_mut() {
            Some((_, region)) => region,
            None => &mut self.body.region,
        };
        if region.blocks.is_empty() {
            region.blocks.push(Block::default());
        }
        let last = region.blocks.len() - 1;
        &mut region.blocks[last]
    }

    pub(super) fn add_block_arg(&mut self, ty: Type, def: ValueDef) -> ValueId {
        let value = self.body.add_value(ty, def);
        self.block().args.push(value);
        value
    }

    pub(super) fn finish(mut self) -> Body {
        if let Some((_, region)) = self.open.pop() {
            self.body.region = region;
        }
        self.body
    }
}

/// Operands and types as one form of an op states them.
struct Stated {
    operands: Vec<ValueId>,
    operand_types: Vec<Type>,
    results: Vec<Type>,
}

impl<'a> Parser<'a> {
    pub(super) fn define(
        &mut self,
        b: &mut Builder<'a>,
        name: &'a str,
        first: ValueId,
        count: u32,
    ) -> PResult<()> {
        match b
            .scopes
            .last_mut()
            .and_then(|scope| scope.insert(name, (first, count)))
        {
            None => Ok(()),
            Some(_) => Err(self.error(
                self.last,
                "each value name once",
                format!("`%{name}` again"),
            )),
        }
    }

    /// `%x` or `%x#1`.
    fn operand(&mut self, b: &Builder<'a>) -> PResult<ValueId> {
        let Tok::Percent(name) = self.tok else {
            return Err(self.wanted("a value `%name`"));
        };
        let Some((first, count)) = b.scopes.iter().rev().find_map(|s| s.get(name)).copied() else {
            return Err(self.wanted("a value defined above"));
        };
        self.advance()?;
        let mut index = 0;
        if let Tok::Hash(digits) = self.tok {
            index = digits
                .parse()
                .ok()
                .filter(|i| *i < count)
                .ok_or_else(|| self.wanted(&format!("a result number below {count}")))?;
            self.advance()?;
        }
        Ok(ValueId(first.0 + index))
    }

    /// `%a, %b`; none if the next token is not a value.
    fn operands(&mut self, b: &Builder<'a>) -> PResult<Vec<ValueId>> {
        let mut operands = Vec::new();
        if let Tok::Percent(_) = self.tok {
            operands.push(self.operand(b)?);
            while self.eat(b',')? {
                operands.push(self.operand(b)?);
            }
        }
        Ok(operands)
    }

    /// One op of a body.
    pub(super) fn op(&mut self, b: &mut Builder<'a>) -> PResult<()> {
        let at = self.start;
        let mut names: Vec<(&'a str, u32)> = Vec::new();
        if let Tok::Percent(_) = self.tok {
            loop {
                let Tok::Percent(name) = self.tok else {
                    return Err(self.wanted("a value name"));
                };
                self.advance()?;
                let mut count = 1;
                if self.eat(b':')? {
                    let Tok::Int(text) = self.tok else {
                        return Err(self.wanted("a number of results"));
                    };
                    count = text
                        .parse()
                        .ok()
                        .filter(|n| *n > 0)
                        .ok_or_else(|| self.wanted("a number of results"))?;
                    self.advance()?;
                }
                names.push((name, count));
                if !self.eat(b',')? {
                    break;
                }
            }
            self.expect(b'=')?;
        }
        // Take the number before nested ops take theirs.
        let id = OpId(b.body.ops.len() as u32);
        b.body.ops.push(Op::new(""));
        b.block().ops.push(id);
        let parent = b.open.last().and_then(|(owner, _)| *owner);
        let (mut op, stated) = match self.tok {
            Tok::Str(_) => self.generic_op(b, id)?,
            Tok::Ident(name) => self.pretty_op(b, id, name)?,
            _ => return Err(self.wanted("an op")),
        };
        op.parent = parent;
        syntax::normalize(&op.name, &mut op.attrs);
        self.check_operands(b, &op, &stated, at)?;
        let total: u64 = names.iter().map(|(_, n)| u64::from(*n)).sum();
        if !names.is_empty() && total != stated.results.len() as u64 {
            let found = format!("{total} in front of `=`");
            return Err(self.error(
                at,
                &format!("{} results of `{}`", stated.results.len(), op.name),
                found,
            ));
        }
        op.location = self.location()?;
        op.operands = stated.operands;
        for (index, ty) in stated.results.into_iter().enumerate() {
            let def = ValueDef::Result {
                op: id,
                index: index as u32,
            };
            op.results.push(b.body.add_value(ty, def));
        }
        let mut next = op.results.first().map_or(0, |v| v.0);
        for (name, count) in names {
            self.define(b, name, ValueId(next), count)?;
            next += count;
        }
        b.body.ops[id.0 as usize] = op;
        Ok(())
    }

    fn check_operands(&self, b: &Builder<'a>, op: &Op, stated: &Stated, at: usize) -> PResult<()> {
        if stated.operands.len() != stated.operand_types.len() {
            let found = format!("{} operand types", stated.operand_types.len());
            let expected = format!("{} operand types of `{}`", stated.operands.len(), op.name);
            return Err(self.error(at, &expected, found));
        }
        for (value, ty) in stated.operands.iter().zip(&stated.operand_types) {
            let actual = b.body.ty(*value);
            if actual != ty {
                let expected = format!("`{}` with an operand of type {actual}", op.name);
                return Err(self.error(at, &expected, format!("type {ty}")));
            }
        }
        Ok(())
    }

    /// `{ ops }`, in which the first block may go without a label. `owner` is the op and the number
    /// of its region; without one the region is the body itself.
    pub(super) fn region(
        &mut self,
        b: &mut Builder<'a>,
        owner: Option<(OpId, u32)>,
    ) -> PResult<()> {
        self.nested(|p| {
            p.expect(b'{')?;
            while !p.eat(b'}')? {
                match p.tok {
                    Tok::Caret(_) => p.block_label(b, owner)?,
                    Tok::Eof => return Err(p.wanted("`}`")),
                    _ => p.op(b)?,
                }
            }
            Ok(())
        })
    }

    fn block_label(&mut self, b: &mut Builder<'a>, owner: Option<(OpId, u32)>) -> PResult<()> {
        self.advance()?;
        let block = match b.open.last_mut() {
            Some((_, region)) => {
                region.blocks.push(Block::default());
                region.blocks.len() as u32 - 1
            }
            None => 0,
        };
        if self.eat(b'(')? {
            let args = self.list(b')', |p| {
                let Tok::Percent(name) = p.tok else {
                    return Err(p.wanted("a block argument"));
                };
                p.advance()?;
                p.expect(b':')?;
                let ty = p.ty()?;
                p.location()?;
                Ok((name, ty))
            })?;
            for (index, (name, ty)) in args.into_iter().enumerate() {
                let index = index as u32;
                let def = match owner {
                    None if block == 0 => ValueDef::Entry { index },
                    None => return Err(self.wanted("a graph of one block")),
                    Some((op, region)) => ValueDef::BlockArg {
                        op,
                        region,
                        block,
                        index,
                    },
                };
                let value = b.add_block_arg(ty, def);
                self.define(b, name, value, 1)?;
            }
        }
        self.expect(b':')
    }

    /// A region of an op, with a scope of its own.
    fn op_region(&mut self, b: &mut Builder<'a>, op: OpId, index: u32) -> PResult<Region> {
        b.scopes.push(HashMap::new());
        b.open.push((Some(op), Region::default()));
        self.region(b, Some((op, index)))?;
        b.scopes.pop();
        Ok(b.open.pop().map(|(_, region)| region).unwrap_or_default())
    }

    /// `"name"(%a) <{…}> ({…}) {…} : (T) -> (T)`.
    fn generic_op(&mut self, b: &mut Builder<'a>, id: OpId) -> PResult<(Op, Stated)> {
        let mut op = Op::new(self.string()?);
        if &*op.name == "coreai.graph" || &*op.name == "udml.namespace" {
            return Err(self.error(self.last, "graphs at module level only", "one inside an op"));
        }
        self.expect(b'(')?;
        let operands = self.operands(b)?;
        self.expect(b')')?;
        if self.is(b'[') {
            return Err(self.wanted("an op without successor blocks (branches are not supported)"));
        }
        op.attrs = self.properties()?;
        if self.eat(b'(')? {
            let mut index = 0;
            op.regions = self.list(b')', |p| {
                index += 1;
                p.op_region(b, id, index - 1)
            })?;
        }
        if self.is(b'{') {
            op.attrs.extend(self.dict()?);
        }
        self.expect(b':')?;
        let at = self.start;
        let Type::Function(ty) = self.ty()? else {
            return Err(self.error(at, "a function type", "another type"));
        };
        let ty = std::sync::Arc::unwrap_or_clone(ty);
        Ok((
            op,
            Stated {
                operands,
                operand_types: ty.inputs,
                results: ty.results,
            },
        ))
    }

    fn pretty_op(&mut self, b: &mut Builder<'a>, id: OpId, name: &'a str) -> PResult<(Op, Stated)> {
        let at = self.start;
        match name {
            "coreai.graph" | "udml.namespace" | "module" => {
                Err(self.wanted("an op inside the graph; graphs stand at module level only"))
            }
            "coreai.constant" => self.pretty_constant(),
            "coreai.invoke" => self.pretty_invoke(b),
            "coreai.isolated_group" | "coreai.delegate" => self.pretty_delegate(b, id, name),
            _ => {
                let known = syntax::pattern(name) != syntax::DEFAULT;
                self.pretty_pattern(b, id, name).map_err(|e| {
                    // A failure inside a known syntax is its own explanation.
                    if known || !name.contains('.') || e.line > self.line_of(at) {
                        return e;
                    }
                    let expected = format!(
                        "{} (the syntax of `{name}` is not known: print the module in generic form, \
                         print_generic_op_form=True)",
                        e.expected
                    );
                    Box::new(super::ParseError { expected, ..*e })
                })
            }
        }
    }

    fn line_of(&self, pos: usize) -> usize {
        self.error(pos, "", "").line
    }

    /// `coreai.constant {…} dense<…> : T`.
    fn pretty_constant(&mut self) -> PResult<(Op, Stated)> {
        let mut op = Op::new("coreai.constant");
        self.advance()?;
        if self.is(b'{') {
            op.attrs = self.dict()?;
        }
        let at = self.start;
        let value = self.attr()?;
        let Some(ty) = constant_type(&value).cloned() else {
            return Err(self.error(at, "`dense<…>` or `dense_resource<…>`", "another attribute"));
        };
        op.attrs.insert("value".to_string(), value);
        Ok((
            op,
            Stated {
                operands: Vec::new(),
                operand_types: Vec::new(),
                results: vec![ty],
            },
        ))
    }

    /// `coreai.invoke @f(%a) : (A) -> B`.
    fn pretty_invoke(&mut self, b: &Builder<'a>) -> PResult<(Op, Stated)> {
        let mut op = Op::new("coreai.invoke");
        self.advance()?;
        let callee = self.symbol_path()?;
        let mut parameters = None;
        if self.is(b'<') {
            let from = self.start;
            self.skip_balanced()?;
            parameters = Some(Attr::Opaque(self.src()[from..self.last].to_string()));
        }
        self.expect(b'(')?;
        let operands = self.operands(b)?;
        self.expect(b')')?;
        let stated = self.tail(&mut op.attrs, operands)?;
        op.attrs.insert("callee".to_string(), Attr::Symbol(callee));
        op.attrs
            .extend(parameters.map(|p| ("parameters".to_string(), p)));
        Ok((op, stated))
    }

    /// `coreai.isolated_group<"id">(%a) : (A) -> B { … }`.
    fn pretty_delegate(
        &mut self,
        b: &mut Builder<'a>,
        id: OpId,
        name: &'a str,
    ) -> PResult<(Op, Stated)> {
        let mut op = Op::new(name);
        self.advance()?;
        self.expect(b'<')?;
        let delegate = self.attr()?;
        self.expect(b'>')?;
        self.expect(b'(')?;
        let operands = self.operands(b)?;
        self.expect(b')')?;
        let stated = self.tail(&mut op.attrs, operands)?;
        op.attrs.insert("delegate_id".to_string(), delegate);
        if self.is(b'{') && name == "coreai.isolated_group" {
            op.regions.push(self.op_region(b, id, 0)?);
        }
        Ok((op, stated))
    }

    /// An op by the pattern of its syntax.
    fn pretty_pattern(
        &mut self,
        b: &mut Builder<'a>,
        id: OpId,
        name: &'a str,
    ) -> PResult<(Op, Stated)> {
        if !name.contains('.') {
            return Err(self.wanted("an op `dialect.name`"));
        }
        let mut op = Op::new(name);
        self.advance()?;
        let pattern = syntax::pattern(name);
        let (head, types) = pattern.split_once(':').unwrap_or((pattern, ""));
        // Operands in printed order, each with its place in the generic form.
        let mut printed: Vec<(usize, ValueId)> = Vec::new();
        for piece in head.split_whitespace() {
            if piece == "$*" {
                printed = self.operands(b)?.into_iter().enumerate().collect();
            } else if let Some(place) = piece.strip_prefix('$').and_then(|n| n.parse().ok()) {
                printed.push((place, self.operand(b)?));
            } else if let Some((key, attr)) = piece.split_once('=') {
                if self.eat_word(key)? {
                    self.expect(b'=')?;
                    let value = match syntax::keyword_set(attr) {
                        Some(set) if self.is(b'<') => self.keyword_body(set)?,
                        _ => self.attr()?,
                    };
                    op.attrs.insert(attr.to_string(), value);
                }
            } else if piece.starts_with('{') {
                let index = op.regions.len() as u32;
                op.regions.push(self.op_region(b, id, index)?);
            } else if piece.bytes().all(|c| c.is_ascii_punctuation()) {
                self.expect(piece.as_bytes()[0])?;
            } else {
                self.expect_word(piece)?;
            }
        }
        // Only ops that end a block may go without types.
        if types.trim() != "T," && !self.is(b':') && !self.is(b'{') {
            return Err(self.wanted("`:`"));
        }
        let order: Vec<usize> = printed.iter().map(|(place, _)| *place).collect();
        let operands = printed.into_iter().map(|(_, value)| value).collect();
        let mut stated = if types.trim() == "R" {
            let mut stated = self.tail(&mut op.attrs, operands)?;
            stated.results = std::mem::take(&mut stated.operand_types);
            stated
        } else {
            self.tail(&mut op.attrs, operands)?
        };
        if stated.operand_types.len() == order.len() {
            permute(&order, &mut stated.operands);
            permute(&order, &mut stated.operand_types);
        }
        Ok((op, stated))
    }

    /// `{…} : T, T -> R {…}`: attributes and types, operands in printed order.
    fn tail(&mut self, attrs: &mut AttrDict, operands: Vec<ValueId>) -> PResult<Stated> {
        let mut stated = Stated {
            operands,
            operand_types: Vec::new(),
            results: Vec::new(),
        };
        if self.is(b'{') {
            attrs.extend(self.dict()?);
        }
        if self.eat(b':')? {
            stated.operand_types = self.bare_types()?;
            if self.tok == Tok::Arrow || self.is_word("to") {
                self.advance()?;
                stated.results = self.bare_types()?;
            }
        }
        Ok(stated)
    }

    /// `(T, T)`, `T, T` or `T`.
    fn bare_types(&mut self) -> PResult<Vec<Type>> {
        if self.is(b'(') {
            return self.type_list();
        }
        let mut types = vec![self.operand_type()?];
        while self.eat(b',')? {
            types.push(self.operand_type()?);
        }
        Ok(types)
    }
}

/// Moves printed item `i` to place `order[i]`; leaves the items alone when `order` is no permutation.
fn permute<T: Clone>(order: &[usize], items: &mut [T]) {
    let original = items.to_vec();
    for (item, place) in original.into_iter().zip(order) {
        if let Some(slot) = items.get_mut(*place) {
            *slot = item;
        }
    }
}
