//! Ops and regions of the dialect.

use std::collections::HashMap;
use std::sync::Arc;

use super::{names, Decoder, Detail};
use crate::asset::container::nested;
use crate::asset::cursor::{Cursor, MResult};
use crate::asset::error::Section;
use crate::asset::ReadOptions;
use crate::ir::{
    normalize, Attr, AttrDict, Block, Body, Location, Module, Op, OpId, Region, Type, ValueDef,
    ValueId,
};

/// The fields of an op in front of its regions.
pub(super) struct Head {
    pub(super) name: usize,
    pub(super) location: usize,
    pub(super) at: usize,
    pub(super) attrs: AttrDict,
    pub(super) properties: Option<usize>,
    /// Types of the results, with their places in the table.
    pub(super) results: Vec<(usize, Type)>,
    pub(super) operands: Vec<(usize, u64)>,
    pub(super) regions: usize,
    pub(super) isolated: bool,
}

/// Values by their number in the file, from the start of the nearest isolated region.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) values: Vec<Option<ValueId>>,
    pub(super) next: usize,
}

/// A body under construction.
#[derive(Default)]
pub(super) struct Building {
    pub(super) body: Body,
    pub(super) scope: Scope,
    passed_over: PassedOver,
}

/// What stands for all ops that were passed over, and for their results of one type.
#[derive(Default)]
struct PassedOver {
    op: Option<OpId>,
    /// By the type's place in the table.
    values: HashMap<usize, ValueId>,
}

/// Reads the ops of a container.
pub(super) struct OpReader<'d, 'a> {
    pub(super) decoder: &'d mut Decoder<'a>,
    pub(super) options: ReadOptions,
    pub(super) detail: Detail,
    /// Printed and stored name of every op name of the file.
    pub(super) names: Vec<(Arc<str>, Arc<str>)>,
    pub(super) module: Module,
    pub(super) namespaces: Vec<String>,
    pub(super) other: Building,
    pub(super) version: Option<i128>,
}

impl<'a> OpReader<'_, 'a> {
    pub(super) fn stored(&self, name: usize) -> Arc<str> {
        self.names[name].1.clone()
    }

    /// Everything of an op in front of its regions.
    pub(super) fn head(&mut self, c: &mut Cursor<'a>) -> MResult<Head> {
        let container = self.decoder.container;
        let at = c.offset();
        let name = c.index(container.ops.len(), "an op name number")?;
        if container.ops[name].dialect != "aicode" {
            let found = container.ops[name].dialect;
            return Err(c.error_at(at, "an op of the dialect `aicode`", found));
        }
        let mask_at = c.offset();
        let mask = c.byte()?;
        if mask & 0x80 != 0 {
            return Err(c.error_at(mask_at, "an op mask below 0x80", format!("{mask:#04x}")));
        }
        let location = c.index(container.attribute_count(), "an attribute number")?;
        let mut attrs = AttrDict::new();
        if mask & 0x01 != 0 {
            let place = c.offset();
            match self.decoder.attr_ref(c)? {
                Attr::Dict(dict) => attrs = dict,
                _ => return Err(c.error_at(place, "a dictionary", "another attribute")),
            }
        }
        let properties = match mask & 0x40 {
            0 => None,
            _ => Some(c.index(container.property_count(), "a property number")?),
        };
        let results = match mask & 0x02 {
            0 => Vec::new(),
            _ => self.decoder.list(c, "results", Decoder::numbered_type)?,
        };
        let operands = match mask & 0x04 {
            0 => Vec::new(),
            _ => self
                .decoder
                .list(c, "operands", |_, c| Ok((c.offset(), c.varint()?)))?,
        };
        if mask & 0x08 != 0 {
            let found = "branches to blocks";
            return Err(c.error_at(mask_at, "structured control flow", found));
        }
        if mask & 0x20 != 0 {
            use_lists(c, results.len())?;
        }
        let (mut regions, mut isolated) = (0, false);
        if mask & 0x10 != 0 {
            let place = c.offset();
            let (count, flag) = c.flagged()?;
            regions = c.checked_index(place, count, 1 << 8, "a number of regions")?;
            isolated = flag;
        }
        Ok(Head {
            name,
            location,
            at,
            attrs,
            properties,
            results,
            operands,
            regions,
            isolated,
        })
    }

    /// Calls `each` for the regions of an op, with the cursor at each region's start.
    pub(super) fn regions(
        &mut self,
        c: &mut Cursor<'a>,
        head: &Head,
        mut each: impl FnMut(&mut Self, &mut Cursor<'a>, usize) -> MResult<()>,
    ) -> MResult<()> {
        if head.regions == 0 {
            return Ok(());
        }
        self.enter(c)?;
        if head.isolated {
            let mut inner = nested(self.decoder.container.file, c, 4, Section::Ir)?;
            for region in 0..head.regions {
                each(self, &mut inner, region)?;
            }
            inner.finish("the isolated regions")?;
        } else {
            for region in 0..head.regions {
                each(self, c, region)?;
            }
        }
        self.decoder.depth -= 1;
        Ok(())
    }

    fn enter(&mut self, c: &Cursor<'_>) -> MResult<()> {
        if self.decoder.depth >= super::MAX_DEPTH {
            return Err(c.error(
                format!("at most {} levels of nesting", super::MAX_DEPTH),
                "more",
            ));
        }
        self.decoder.depth += 1;
        Ok(())
    }

    /// A region of a body; `owner` is the op and the number of its region.
    pub(super) fn region(
        &mut self,
        c: &mut Cursor<'a>,
        building: &mut Building,
        owner: Option<(OpId, u32)>,
    ) -> MResult<Region> {
        let count = c.count("blocks")?;
        let mut region = Region::default();
        if count == 0 {
            return Ok(region);
        }
        let values = c.count("values")?;
        let before = building.scope.next;
        building.scope.open(values);
        for block in 0..count {
            let (ops, has_args) = c.flagged()?;
            region.blocks.push(Block::default());
            if has_args {
                let args = c.count("block arguments")?;
                for index in 0..args {
                    let (at, index) = (c.offset(), index as u32);
                    let (ty, has_location) = c.flagged()?;
                    let types = self.decoder.container.type_count();
                    let ty = self
                        .decoder
                        .ty(c.checked_index(at, ty, types, "a type number")?)?;
                    if has_location {
                        c.index(
                            self.decoder.container.attribute_count(),
                            "an attribute number",
                        )?;
                    }
                    let def = match owner {
                        None if block == 0 => ValueDef::Entry { index },
                        None => return Err(c.error_at(at, "a graph of one block", "more")),
                        Some((op, region)) => ValueDef::BlockArg {
                            op,
                            region,
                            block: block as u32,
                            index,
                        },
                    };
                    let value = building.define(c, ty, def)?;
                    region.blocks[block].args.push(value);
                }
                if c.bool()? {
                    use_lists(c, args)?;
                }
            }
            for _ in 0..ops {
                let head = self.head(c)?;
                let id = self.op(c, head, building, owner.map(|(op, _)| op))?;
                region.blocks[block].ops.extend(id);
            }
        }
        building.scope.close(c, before, values)?;
        Ok(region)
    }

    /// Reads an op behind its head; `None` where it is passed over.
    pub(super) fn op(
        &mut self,
        c: &mut Cursor<'a>,
        head: Head,
        building: &mut Building,
        parent: Option<OpId>,
    ) -> MResult<Option<OpId>> {
        let (printed, stored) = self.names[head.name].clone();
        if matches!(
            &*stored,
            "dataflow.graph_v1" | "dataflow.namespace_v1" | "serialization.asset"
        ) {
            return Err(c.error_at(head.at, "graphs at module level only", "one inside an op"));
        }
        let mut operands = Vec::with_capacity(head.operands.len());
        for (at, number) in &head.operands {
            operands.push(building.scope.get(c, *at, *number)?);
        }
        let defines_only = head.regions == 0 || (head.isolated && names::is_decomposable(&stored));
        if self.detail == Detail::States && defines_only && !building.touches(&head, &operands) {
            self.pass_over(c, &head, building)?;
            return Ok(None);
        }
        // Take the number before nested ops take theirs.
        let id = OpId(building.body.ops.len() as u32);
        building.body.ops.push(Op::new(""));
        let mut op = Op::new(printed);
        op.parent = parent;
        op.attrs = head.attrs.clone();
        op.operands = operands;
        if let Some(index) = head.properties {
            self.decoder
                .properties(&mut op, &stored, index, head.results.first().map(|r| &r.1))?;
        }
        normalize(&op.name, &mut op.attrs);
        for (index, (_, ty)) in head.results.iter().enumerate() {
            let def = ValueDef::Result {
                op: id,
                index: index as u32,
            };
            let value = building.define(c, ty.clone(), def)?;
            op.results.push(value);
        }
        if self.options.locations {
            op.location = self.location(head.location);
        }
        if head.isolated && names::is_decomposable(&stored) {
            op.definition = self.definition(c, &head)?;
        } else if head.isolated {
            let outer = std::mem::take(&mut building.scope);
            self.regions(c, &head, |reader, c, number| {
                building.scope = Scope::default();
                op.regions
                    .push(reader.region(c, building, Some((id, number as u32)))?);
                Ok(())
            })?;
            building.scope = outer;
        } else {
            self.regions(c, &head, |reader, c, number| {
                op.regions
                    .push(reader.region(c, building, Some((id, number as u32)))?);
                Ok(())
            })?;
        }
        op.stored_name = Some(stored);
        building.body.ops[id.0 as usize] = op;
        Ok(Some(id))
    }

    /// Defines the results of an op, and reads no more of it.
    fn pass_over(
        &mut self,
        c: &mut Cursor<'a>,
        head: &Head,
        building: &mut Building,
    ) -> MResult<()> {
        let Building {
            body, passed_over, ..
        } = building;
        let op = *passed_over.op.get_or_insert_with(|| {
            body.ops.push(Op::new(""));
            OpId(body.ops.len() as u32 - 1)
        });
        for (place, ty) in &head.results {
            let value = *passed_over.values.entry(*place).or_insert_with(|| {
                let def = ValueDef::Result { op, index: 0 };
                body.add_value(ty.clone(), def)
            });
            building.scope.define(c, value)?;
        }
        if head.regions > 0 {
            nested(self.decoder.container.file, c, 4, Section::Ir)?;
        }
        Ok(())
    }

    /// The definition stored with a decomposable op; passed over where it is not wanted.
    fn definition(&mut self, c: &mut Cursor<'a>, head: &Head) -> MResult<Option<Arc<Body>>> {
        if !self.options.definitions {
            if head.regions > 0 {
                nested(self.decoder.container.file, c, 4, Section::Ir)?;
            }
            return Ok(None);
        }
        let mut definition = None;
        self.regions(c, head, |reader, c, number| {
            if number > 0 {
                return Err(c.error("one definition of an op", "more"));
            }
            let mut building = Building::default();
            building.body.region = reader.region(c, &mut building, None)?;
            definition = Some(Arc::new(building.body));
            Ok(())
        })?;
        Ok(definition)
    }

    fn location(&mut self, index: usize) -> Option<Location> {
        let (file, line, column) = self.decoder.position(index)?;
        // A path as long as this is no path; ops share the file's text, but not the location's.
        let text = match file.len() {
            0..=1024 => format!("{file:?}:{line}:{column}"),
            _ => format!(":{line}:{column}"),
        };
        Some(Location {
            file: Some(file),
            line,
            column,
            text: text.into(),
        })
    }
}

impl Building {
    /// Whether an op takes or returns a handle or token, ends a block, or uses what an op that took a
    /// handle returned.
    fn touches(&self, head: &Head, operands: &[ValueId]) -> bool {
        let orders = |ty: &Type| matches!(ty, Type::Handle(_) | Type::Token);
        let from_state = |value: &ValueId| match self.body.def(*value) {
            ValueDef::Result { op, .. } => {
                let mut taken = self.body.op(op).operands.iter();
                taken.any(|v| self.body.ty(*v).is_handle())
            }
            _ => false,
        };
        head.results.is_empty()
            || head.results.iter().any(|(_, ty)| orders(ty))
            || operands.iter().any(|v| orders(self.body.ty(*v)))
            || operands.iter().any(from_state)
    }

    fn define(&mut self, c: &Cursor<'_>, ty: Type, def: ValueDef) -> MResult<ValueId> {
        let value = self.body.add_value(ty, def);
        self.scope.define(c, value)?;
        Ok(value)
    }
}

impl Scope {
    /// Makes room for the values of a region behind all of the region around it.
    pub(super) fn open(&mut self, values: usize) {
        self.next = self.values.len();
        self.values.resize(self.values.len() + values, None);
    }

    /// Forgets the values of a region, which must all be defined.
    pub(super) fn close(&mut self, c: &Cursor<'_>, before: usize, values: usize) -> MResult<()> {
        if self.next != self.values.len() {
            let found = values - (self.values.len() - self.next);
            return Err(c.error(format!("{values} values in the region"), found.to_string()));
        }
        self.values.truncate(self.values.len() - values);
        self.next = before;
        Ok(())
    }

    /// Gives the next number to a value.
    fn define(&mut self, c: &Cursor<'_>, value: ValueId) -> MResult<()> {
        match self.values.get_mut(self.next) {
            Some(slot) => *slot = Some(value),
            None => return Err(c.error("as many values as the region states", "more")),
        }
        self.next += 1;
        Ok(())
    }

    fn get(&self, c: &Cursor<'_>, at: usize, number: u64) -> MResult<ValueId> {
        let index = c.checked_index(at, number, self.values.len(), "a value number")?;
        self.values[index]
            .ok_or_else(|| c.error_at(at, "a value defined above", number.to_string()))
    }
}

/// Orders of uses, which mean nothing here.
fn use_lists(c: &mut Cursor<'_>, values: usize) -> MResult<()> {
    let lists = if values > 1 { c.count("use lists")? } else { 1 };
    for _ in 0..lists {
        if values > 1 {
            c.varint()?;
        }
        let (count, _pairs) = c.flagged()?;
        for _ in 0..count {
            c.varint()?;
        }
    }
    Ok(())
}
