//! The module level: aliases, namespaces, graphs, resources.

use std::collections::HashMap;

use super::lexer::Tok;
use super::ops::Builder;
use super::parser::{location, PResult, Parser};
use crate::ir::attr::{Attr, AttrDict, Blob, Payload};
use crate::ir::graph::{Arg, Body, Graph, Location, Module, Outcome, ValueDef};
use crate::ir::syntax;
use crate::ir::types::{FunctionType, SymbolPath, Type};

/// Aliases of locations that are resolved.
type Known<'a> = HashMap<&'a str, Location>;

impl<'a> Parser<'a> {
    /// The whole text.
    pub(super) fn module(&mut self) -> PResult<Module> {
        let mut resources = HashMap::new();
        loop {
            match self.tok {
                Tok::Eof => break,
                Tok::Hash(name) if !name.contains('.') => self.attr_alias_definition(name)?,
                Tok::Bang(name) if !name.contains('.') => {
                    self.advance()?;
                    self.expect(b'=')?;
                    let (before, from) = (self.nodes, self.start);
                    let ty = self.ty()?;
                    let weight = self.nodes - before + (self.last - from) / 16;
                    self.type_aliases.insert(name, (ty, weight));
                }
                Tok::MetaOpen => self.metadata(&mut resources)?,
                _ => self.item()?,
            }
        }
        let mut module = std::mem::take(&mut self.module);
        module.other = std::mem::replace(&mut self.other, Builder::new()).finish();
        let mut known = Known::new();
        for body in module
            .graphs
            .iter_mut()
            .map(|g| &mut g.body)
            .chain([&mut module.other])
        {
            self.resolve(body, &resources, &mut known);
        }
        Ok(module)
    }

    fn attr_alias_definition(&mut self, name: &'a str) -> PResult<()> {
        self.advance()?;
        self.expect(b'=')?;
        if self.is_word("loc") {
            let from = self.start + 3;
            self.location()?;
            let text = self.src()[from..self.last].trim();
            self.locations.insert(name, &text[1..text.len() - 1]);
            return Ok(());
        }
        let (before, from) = (self.nodes, self.start);
        let attr = self.attr()?;
        // Locations with debug information are attributes of a dialect.
        if let Attr::Opaque(_) = attr {
            self.locations.insert(name, &self.src()[from..self.last]);
        }
        let weight = self.nodes - before + (self.last - from) / 16;
        self.attr_aliases.insert(name, (attr, weight));
        Ok(())
    }

    /// A location behind an alias, or with an alias inside that says where it is. Aliases are resolved
    /// once: many ops may share a long one.
    fn resolve_location(&self, at: &Location, known: &mut Known<'a>) -> Option<Location> {
        if let Some(name) = at.text.strip_prefix('#') {
            if let Some((name, _)) = self.locations.get_key_value(name) {
                return Some(self.aliased(name, known, 0));
            }
        }
        if at.file.is_some() {
            return None;
        }
        let inner = self.aliased(self.alias_inside(&at.text)?, known, 0);
        Some(Location {
            text: at.text.clone(),
            ..inner
        })
    }

    /// The location an alias stands for.
    fn aliased(&self, name: &'a str, known: &mut Known<'a>, depth: usize) -> Location {
        if let Some(at) = known.get(name) {
            return at.clone();
        }
        let text = self.locations.get(name).copied().unwrap_or_default();
        let mut at = location(text);
        // An alias may name another, or hold one that says where it is; eight are plenty.
        let whole = text
            .strip_prefix('#')
            .and_then(|n| self.locations.get_key_value(n));
        let inside = || self.alias_inside(text).filter(|_| at.file.is_none());
        if let Some(next) = whole
            .map(|(next, _)| *next)
            .or_else(inside)
            .filter(|_| depth < 8)
        {
            let inner = self.aliased(next, known, depth + 1);
            at = match whole {
                Some(_) => inner,
                None => Location {
                    text: at.text,
                    ..inner
                },
            };
        }
        known.insert(name, at.clone());
        at
    }

    /// The first alias in the parameters of `#debuginfo.location<…>`.
    fn alias_inside(&self, text: &str) -> Option<&'a str> {
        let inside = &text[text.find('<')?..];
        let name = &inside[inside.find('#')? + 1..];
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        self.locations
            .get_key_value(&name[..end])
            .map(|(name, _)| *name)
    }

    /// Fills in what stands behind the module: aliased locations and resources.
    fn resolve(&self, body: &mut Body, resources: &HashMap<String, Blob>, known: &mut Known<'a>) {
        for op in &mut body.ops {
            if let Some(at) = &mut op.location {
                if let Some(resolved) = self.resolve_location(at, known) {
                    *at = resolved;
                }
            }
            if resources.is_empty() {
                continue;
            }
            if let Some(Attr::Dense(dense)) = op.attrs.get_mut("value") {
                if let Payload::Resource { key, data } = &mut dense.payload {
                    *data = resources.get(&**key).cloned();
                }
            }
        }
    }

    /// `{-# dialect_resources: { builtin: { key: "0x…" } } #-}`.
    fn metadata(&mut self, resources: &mut HashMap<String, Blob>) -> PResult<()> {
        self.advance()?;
        while self.tok != Tok::MetaClose {
            let section = self.key()?;
            self.expect(b':')?;
            if section != "dialect_resources" {
                self.skip_balanced()?;
            } else {
                self.expect(b'{')?;
                self.list(b'}', |p| {
                    p.key()?;
                    p.expect(b':')?;
                    p.expect(b'{')?;
                    p.list(b'}', |p| p.resource(resources)).map(|_| ())
                })?;
            }
            if !self.eat(b',')? && self.tok != Tok::MetaClose {
                return Err(self.wanted("`#-}`"));
            }
        }
        self.advance()?;
        Ok(())
    }

    fn resource(&mut self, resources: &mut HashMap<String, Blob>) -> PResult<()> {
        let key = self.key()?;
        self.expect(b':')?;
        let Tok::Str(text) = self.tok else {
            return Err(self.wanted("a hexadecimal string"));
        };
        let bytes = text
            .strip_prefix("0x")
            .and_then(super::dense::hex)
            .filter(|b| b.len() >= 4)
            .ok_or_else(|| self.wanted("a hexadecimal string of at least four bytes"))?;
        self.advance()?;
        // Four bytes of alignment come first.
        resources.insert(key, Blob::from(bytes[4..].to_vec()));
        Ok(())
    }

    /// One op at module level, or inside a namespace.
    fn item(&mut self) -> PResult<()> {
        match self.tok {
            Tok::Ident("module" | "builtin.module") => {
                self.advance()?;
                if let Tok::At(..) = self.tok {
                    self.module.name = Some(self.symbol_name()?);
                }
                if self.eat_word("attributes")? {
                    self.module.attrs = self.dict()?;
                }
                self.items()?;
                self.location()?;
            }
            Tok::Ident("udml.namespace" | "namespace") => {
                self.advance()?;
                let name = self.symbol_name()?;
                if self.is(b'<') {
                    self.skip_balanced()?;
                }
                if self.eat_word("attributes")? {
                    self.dict()?;
                }
                self.namespace(name, |p| p.items())?;
                self.location()?;
            }
            Tok::Ident("coreai.graph") => self.pretty_graph()?,
            Tok::Str("builtin.module") => {
                let attrs = self.generic_container(|p, attrs| {
                    if let Some(Attr::String(name)) = attrs.get("sym_name") {
                        p.module.name = Some(name.clone());
                    }
                    p.items()
                })?;
                self.module
                    .attrs
                    .extend(attrs.into_iter().filter(|(k, _)| k != "sym_name"));
            }
            Tok::Str("udml.namespace") => {
                self.generic_container(|p, attrs| {
                    let Some(Attr::String(name)) = attrs.get("sym_name") else {
                        return Err(p.wanted("a namespace with `sym_name`"));
                    };
                    let name = name.clone();
                    p.namespace(name, |p| p.items())
                })?;
            }
            Tok::Str("coreai.graph") => self.generic_graph()?,
            _ => {
                let mut other = std::mem::replace(&mut self.other, Builder::new());
                other.open_entry();
                let result = self.op(&mut other);
                self.other = other;
                result?;
            }
        }
        Ok(())
    }

    /// `{ item* }`.
    fn items(&mut self) -> PResult<()> {
        self.nested(|p| {
            p.expect(b'{')?;
            // The generic form may name the entry block.
            if let Tok::Caret(_) = p.tok {
                p.advance()?;
                p.expect(b':')?;
            }
            while !p.eat(b'}')? {
                if p.tok == Tok::Eof {
                    return Err(p.wanted("`}`"));
                }
                p.item()?;
            }
            Ok(())
        })
    }

    fn namespace(
        &mut self,
        name: String,
        inside: impl FnOnce(&mut Self) -> PResult<()>,
    ) -> PResult<()> {
        self.namespaces.push(name);
        let result = inside(self);
        self.namespaces.pop();
        result
    }

    fn path(&self, name: String) -> SymbolPath {
        SymbolPath(self.namespaces.iter().cloned().chain([name]).collect())
    }

    /// `"name"() <{…}> ({ … }) {…} : () -> ()`.
    fn generic_container(
        &mut self,
        inside: impl FnOnce(&mut Self, &AttrDict) -> PResult<()>,
    ) -> PResult<AttrDict> {
        self.advance()?;
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attrs = self.properties()?;
        self.expect(b'(')?;
        inside(self, &attrs)?;
        self.expect(b')')?;
        if self.is(b'{') {
            attrs.extend(self.dict()?);
        }
        self.expect(b':')?;
        self.ty()?;
        self.location()?;
        Ok(attrs)
    }

    pub(super) fn properties(&mut self) -> PResult<AttrDict> {
        if !self.eat(b'<')? {
            return Ok(AttrDict::new());
        }
        let attrs = self.dict()?;
        self.expect(b'>')?;
        Ok(attrs)
    }

    fn generic_graph(&mut self) -> PResult<()> {
        let at = self.start;
        let mut builder = Builder::new();
        let mut attrs = self.generic_container(|p, _| p.region(&mut builder, None))?;
        let body = builder.finish();
        let take = |attrs: &mut AttrDict, key: &str| attrs.remove(key);
        let Some(Attr::String(name)) = take(&mut attrs, "sym_name") else {
            return Err(self.error(at, "a graph with `sym_name`", "none"));
        };
        let Some(Attr::Type(Type::Function(signature))) = take(&mut attrs, "function_type") else {
            return Err(self.error(at, "a graph with `function_type`", "none"));
        };
        let dicts = |attr: Option<Attr>, n: usize, what: &str| -> PResult<Vec<AttrDict>> {
            let Some(attr) = attr else {
                return Ok(vec![AttrDict::new(); n]);
            };
            let Attr::Array(list) = attr else {
                return Err(self.error(at, &format!("{what} as a list"), "another attribute"));
            };
            if list.is_empty() {
                return Ok(vec![AttrDict::new(); n]);
            }
            if list.len() != n {
                let expected = format!("{n} entries in {what}");
                return Err(self.error(at, &expected, list.len().to_string()));
            }
            list.into_iter()
                .map(|a| match a {
                    Attr::Dict(d) => Ok(d),
                    _ => {
                        Err(self.error(at, &format!("dictionaries in {what}"), "another attribute"))
                    }
                })
                .collect()
        };
        let arg_attrs = dicts(
            take(&mut attrs, "arg_attrs"),
            signature.inputs.len(),
            "arg_attrs",
        )?;
        let res_attrs = dicts(
            take(&mut attrs, "res_attrs"),
            signature.results.len(),
            "res_attrs",
        )?;
        let mut graph = Graph {
            name: self.path(name),
            private: attrs.remove("priv").is_some(),
            no_inline: attrs.remove("no_inline").is_some(),
            externalize: attrs.remove("externalize").is_some(),
            ..Graph::default()
        };
        set_composite(&mut graph, &mut attrs);
        syntax::normalize("coreai.graph", &mut attrs);
        graph.attrs = attrs;
        self.finish_graph(graph, &signature, arg_attrs, res_attrs, body, at)
    }

    fn pretty_graph(&mut self) -> PResult<()> {
        let at = self.start;
        self.advance()?;
        let mut graph = Graph::default();
        loop {
            match self.tok {
                Tok::Ident("private") => graph.private = true,
                Tok::Ident("noinline") => graph.no_inline = true,
                Tok::Ident("externalize") => graph.externalize = true,
                _ => break,
            }
            self.advance()?;
        }
        let name = self.symbol_name()?;
        graph.name = self.path(name);
        if self.is(b'<') {
            let from = self.start;
            self.skip_balanced()?;
            let text = format!("#param.decl.array{}", &self.src()[from..self.last]);
            graph.attrs.insert("param_decls".into(), Attr::Opaque(text));
        }
        let mut builder = Builder::new();
        let mut signature = FunctionType::default();
        self.expect(b'(')?;
        let args = self.list(b')', |p| {
            let name = match p.tok {
                Tok::Percent(name) => {
                    p.advance()?;
                    p.expect(b':')?;
                    Some(name)
                }
                _ => None,
            };
            let ty = p.ty()?;
            let attrs = if p.is(b'{') {
                p.dict()?
            } else {
                AttrDict::new()
            };
            p.location()?;
            Ok((name, ty, attrs))
        })?;
        let mut arg_attrs = Vec::with_capacity(args.len());
        builder.open_entry();
        for (index, (name, ty, attrs)) in args.into_iter().enumerate() {
            let def = ValueDef::Entry {
                index: index as u32,
            };
            let value = builder.add_block_arg(ty.clone(), def);
            if let Some(name) = name {
                self.define(&mut builder, name, value, 1)?;
            }
            signature.inputs.push(ty);
            arg_attrs.push(attrs);
        }
        let mut res_attrs = Vec::new();
        if self.tok == Tok::Arrow {
            self.advance()?;
            if self.eat(b'(')? {
                for (ty, attrs) in self.list(b')', |p| {
                    let ty = p.ty()?;
                    let attrs = if p.is(b'{') {
                        p.dict()?
                    } else {
                        AttrDict::new()
                    };
                    Ok((ty, attrs))
                })? {
                    signature.results.push(ty);
                    res_attrs.push(attrs);
                }
            } else {
                signature.results.push(self.ty()?);
                res_attrs.push(AttrDict::new());
            }
        }
        if self.eat_word("attributes")? {
            let mut attrs = self.dict()?;
            set_composite(&mut graph, &mut attrs);
            graph.attrs.extend(attrs);
        }
        syntax::normalize("coreai.graph", &mut graph.attrs);
        if self.is(b'{') {
            self.region(&mut builder, None)?;
        }
        self.location()?;
        self.finish_graph(
            graph,
            &signature,
            arg_attrs,
            res_attrs,
            builder.finish(),
            at,
        )
    }

    fn finish_graph(
        &mut self,
        mut graph: Graph,
        signature: &FunctionType,
        arg_attrs: Vec<AttrDict>,
        res_attrs: Vec<AttrDict>,
        body: Body,
        at: usize,
    ) -> PResult<()> {
        let values = body.entry().map(|b| b.args.clone()).unwrap_or_default();
        let types: Vec<&Type> = values.iter().map(|v| body.ty(*v)).collect();
        if types != signature.inputs.iter().collect::<Vec<_>>() && !values.is_empty()
            || values.len() != signature.inputs.len()
        {
            let found = format!("a body of {} arguments with other types", values.len());
            return Err(self.error(at, "a body with the arguments of the function type", found));
        }
        graph.args = signature
            .inputs
            .iter()
            .zip(arg_attrs)
            .zip(values)
            .map(|((ty, attrs), value)| Arg {
                ty: ty.clone(),
                attrs,
                value,
            })
            .collect();
        graph.results = signature
            .results
            .iter()
            .zip(res_attrs)
            .map(|(ty, attrs)| Outcome {
                ty: ty.clone(),
                attrs,
            })
            .collect();
        graph.body = body;
        self.module.graphs.push(graph);
        Ok(())
    }
}

fn set_composite(graph: &mut Graph, attrs: &mut AttrDict) {
    match attrs.remove("composite_decl") {
        Some(Attr::Composite(c)) => graph.composite = Some(*c),
        Some(other) => {
            attrs.insert("composite_decl".into(), other);
        }
        None => {}
    }
}
