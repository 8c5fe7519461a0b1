//! The module level of the dialect: the asset op, namespaces and graphs.

use std::collections::HashSet;
use std::sync::Arc;

use super::ops::{Building, Head, OpReader};
use super::{names, Decoder, Detail};
use crate::asset::cursor::{Cursor, MResult};
use crate::asset::ReadOptions;
use crate::ir::{
    normalize, Arg, Attr, AttrDict, Block, Graph, Module, Op, Outcome, SymbolPath, Type, ValueDef,
};

impl<'a> Decoder<'a> {
    /// Reads the whole program; the second part is the revision of the dialect it needs.
    pub(crate) fn program(
        &mut self,
        options: ReadOptions,
        detail: Detail,
    ) -> MResult<(Module, Option<i128>)> {
        let names = self.container.ops.iter();
        let names = names
            .map(|op| (Arc::from(names::printed(op.name)), Arc::from(op.name)))
            .collect();
        let mut reader = OpReader {
            decoder: self,
            options,
            detail,
            names,
            module: Module::default(),
            namespaces: Vec::new(),
            other: Building::default(),
            version: None,
        };
        let mut c = reader.decoder.container.ir();
        reader.top(&mut c)?;
        c.finish("the IR")?;
        let OpReader {
            mut module,
            other,
            version,
            ..
        } = reader;
        module.other = other.body;
        once_each(&module).map_err(|found| {
            let c = self.container.ir();
            c.error("graphs of different names", found)
        })?;
        Ok((module, version))
    }
}

/// Refuses graphs that callers or consumers cannot tell apart; the error says which.
fn once_each(module: &Module) -> Result<(), String> {
    let mut symbols = HashSet::new();
    match module.graphs.iter().find(|g| !symbols.insert(&g.name)) {
        Some(graph) => Err(format!("two called {}", graph.name)),
        None => Ok(()),
    }
}

impl<'a> OpReader<'_, 'a> {
    /// The block that holds the asset op.
    fn top(&mut self, c: &mut Cursor<'a>) -> MResult<()> {
        let (ops, has_args) = c.flagged()?;
        if has_args || ops != 1 {
            return Err(c.error("one op without arguments", format!("{ops} ops")));
        }
        let head = self.head(c)?;
        let stored = self.stored(head.name);
        if &*stored != "serialization.asset" {
            return Err(c.error_at(head.at, "the op serialization.asset", &*stored));
        }
        let mut asset = Op::new(stored.clone());
        if let Some(index) = head.properties {
            self.decoder.properties(&mut asset, &stored, index, None)?;
        }
        if let Some(Attr::Int { value, .. }) = asset.attrs.get("version") {
            self.version = Some(*value);
        }
        self.regions(c, &head, |reader, c, _| reader.items(c))
    }

    /// A region at module level: graphs and namespaces.
    fn items(&mut self, c: &mut Cursor<'a>) -> MResult<()> {
        let blocks = c.count("blocks")?;
        if blocks == 0 {
            return Ok(());
        }
        if blocks > 1 {
            return Err(c.error("one block", blocks.to_string()));
        }
        let values = c.count("values")?;
        let before = self.other.scope.next;
        self.other.scope.open(values);
        let (ops, has_args) = c.flagged()?;
        if has_args {
            return Err(c.error("a module without arguments", "arguments"));
        }
        for _ in 0..ops {
            self.item(c)?;
        }
        self.other.scope.close(c, before, values)
    }

    fn item(&mut self, c: &mut Cursor<'a>) -> MResult<()> {
        let head = self.head(c)?;
        let stored = self.stored(head.name);
        match &*stored {
            "dataflow.graph_v1" => self.graph(c, head),
            "dataflow.namespace_v1" => {
                let mut op = Op::new(stored.clone());
                if let Some(index) = head.properties {
                    self.decoder.properties(&mut op, &stored, index, None)?;
                }
                let Some(Attr::String(name)) = op.attrs.remove("sym_name") else {
                    return Err(c.error_at(head.at, "a namespace with a name", "none"));
                };
                self.namespaces.push(name);
                let result = self.regions(c, &head, |reader, c, _| reader.items(c));
                self.namespaces.pop();
                result
            }
            _ => {
                let mut other = std::mem::take(&mut self.other);
                if other.body.region.blocks.is_empty() {
                    other.body.region.blocks.push(Block::default());
                }
                let id = self.op(c, head, &mut other, None);
                self.other = other;
                self.other.body.region.blocks[0].ops.extend(id?);
                Ok(())
            }
        }
    }

    fn graph(&mut self, c: &mut Cursor<'a>, head: Head) -> MResult<()> {
        let stored = self.stored(head.name);
        let mut op = Op::new("coreai.graph");
        op.attrs = head.attrs.clone();
        let wrong = |c: &Cursor<'_>, expected: &str| c.error_at(head.at, expected, "another graph");
        let Some(index) = head.properties else {
            return Err(wrong(c, "a graph with properties"));
        };
        self.decoder.properties(&mut op, &stored, index, None)?;
        let mut attrs = op.attrs;
        let Some(Attr::String(name)) = attrs.remove("sym_name") else {
            return Err(wrong(c, "a graph whose name is a string"));
        };
        let Some(Attr::Type(Type::Function(signature))) = attrs.remove("function_type") else {
            return Err(wrong(c, "a graph with a function type"));
        };
        let mut lists = [Vec::new(), Vec::new()];
        for (list, key) in lists.iter_mut().zip(["arg_attrs", "res_attrs"]) {
            let Some(Attr::Array(entries)) = attrs.remove(key) else {
                return Err(wrong(c, "a graph with lists of attributes"));
            };
            for entry in entries {
                list.push(self.decoder.entries(c, entry)?);
            }
        }
        let [mut arg_attrs, mut res_attrs] = lists;
        for (list, types) in [
            (&mut arg_attrs, &signature.inputs),
            (&mut res_attrs, &signature.results),
        ] {
            if list.is_empty() {
                list.resize(types.len(), AttrDict::new());
            }
            if list.len() != types.len() {
                let expected = format!("{} lists of attributes", types.len());
                return Err(c.error_at(head.at, expected, list.len().to_string()));
            }
        }
        let mut flag = |key: &str| match attrs.remove(key) {
            None => Ok(false),
            Some(Attr::Bool(set)) => Ok(set),
            Some(other) => {
                let expected = format!("the flag `{key}` of a graph as an integer of one bit");
                Err(c.error_at(head.at, expected, other.to_string()))
            }
        };
        let mut graph = Graph {
            name: SymbolPath(self.namespaces.iter().cloned().chain([name]).collect()),
            private: flag("priv")?,
            no_inline: flag("no_inline")?,
            externalize: flag("externalize")?,
            ..Graph::default()
        };
        if let Some(Attr::Composite(composite)) = attrs.remove("composite_decl") {
            graph.composite = Some(*composite);
        }
        normalize("coreai.graph", &mut attrs);
        graph.attrs = attrs;
        let mut building = Building::default();
        self.regions(c, &head, |reader, c, number| {
            if number > 0 {
                return Err(c.error("one region of a graph", "more"));
            }
            let region = reader.region(c, &mut building, None)?;
            building.body.region = region;
            Ok(())
        })?;
        let mut body = building.body;
        if body.region.blocks.is_empty() {
            let mut block = Block::default();
            for (index, ty) in signature.inputs.iter().enumerate() {
                let def = ValueDef::Entry {
                    index: index as u32,
                };
                block.args.push(body.add_value(ty.clone(), def));
            }
            body.region.blocks.push(block);
        }
        let values = body.region.blocks[0].args.clone();
        if !values
            .iter()
            .map(|v| body.ty(*v))
            .eq(signature.inputs.iter())
        {
            return Err(wrong(c, "a body with the arguments of the function type"));
        }
        let returned = body.region.blocks[0].ops.last().map(|id| body.op(*id));
        if let Some(returned) = returned.filter(|op| op.is("coreai.output")) {
            let types = returned.operands.iter().map(|v| body.ty(*v));
            if !types.eq(signature.results.iter()) {
                return Err(wrong(
                    c,
                    "a body that returns the results of the function type",
                ));
            }
        }
        let args = signature.inputs.iter().cloned().zip(arg_attrs).zip(values);
        graph.args = args
            .map(|((ty, attrs), value)| Arg { ty, attrs, value })
            .collect();
        let results = signature.results.iter().cloned().zip(res_attrs);
        graph.results = results.map(|(ty, attrs)| Outcome { ty, attrs }).collect();
        graph.body = body;
        self.module.graphs.push(graph);
        Ok(())
    }
}
