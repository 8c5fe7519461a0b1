//! The dialect `aicode`, in which an asset expresses everything: types, attributes, ops.

mod attrs;
mod module;
mod names;
mod ops;
mod properties;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use super::container::{Container, Entry};
use super::cursor::{Cursor, MResult};
use crate::ir::{Attr, Payload, Type};

/// Attributes and types may refer to each other this deep, and regions nest.
const MAX_DEPTH: usize = 64;

/// Tensors of more dimensions are not believed.
const MAX_RANK: usize = 64;

/// Who owns the bytes of the file, for constants that are views into it.
pub(crate) type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Which ops of a program are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Every op.
    All,
    /// Those that states pass through, and those that use what is read from a state: enough for the
    /// contract, and no program.
    States,
}

/// Decodes attributes, types and ops of a container; each attribute and type once.
pub(crate) struct Decoder<'a> {
    pub(crate) container: &'a Container<'a>,
    owner: Owner,
    /// Whether to say where the data of resources is.
    weights: bool,
    types: Table<Type>,
    attributes: Table<Attr>,
    /// Constants and files that several ops share, by attribute.
    constants: HashMap<(usize, Type), Payload>,
    files: HashMap<usize, Option<Arc<str>>>,
    keys: HashMap<usize, Arc<str>>,
    depth: usize,
    /// Parts of attributes and types made, copies included.
    parts: usize,
    budget: usize,
}

/// What is known of the attributes or types of a file. Most of them are never asked for, so that an entry
/// costs four bytes, which the system hands out as zeros, until it is read.
struct Table<T> {
    /// [`UNREAD`], [`OPEN`], or behind these the place among the values.
    entries: Vec<u32>,
    /// Values, and the number of parts each has.
    values: Vec<(T, usize)>,
}

const UNREAD: u32 = 0;
/// Being read further up: met again, it refers to itself.
const OPEN: u32 = 1;

impl<T> Table<T> {
    fn new(count: usize) -> Table<T> {
        Table {
            entries: vec![UNREAD; count],
            values: Vec::new(),
        }
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(container: &'a Container<'a>, owner: Owner, weights: bool) -> Decoder<'a> {
        Decoder {
            types: Table::new(container.type_count()),
            attributes: Table::new(container.attribute_count()),
            constants: HashMap::new(),
            files: HashMap::new(),
            keys: HashMap::new(),
            depth: 0,
            parts: 0,
            // Sharing can make the whole exponentially larger than the file.
            budget: container
                .program_bytes()
                .saturating_mul(2)
                .saturating_add(1 << 20),
            container,
            owner,
            weights,
        }
    }

    /// A reference to an attribute.
    pub(crate) fn attr_ref(&mut self, c: &mut Cursor<'_>) -> MResult<Attr> {
        let index = c.index(self.attributes.entries.len(), "an attribute number")?;
        self.attr(index)
    }

    /// A reference to a type, with its place in the table.
    fn numbered_type(&mut self, c: &mut Cursor<'_>) -> MResult<(usize, Type)> {
        let index = c.index(self.types.entries.len(), "a type number")?;
        Ok((index, self.ty(index)?))
    }

    /// A reference to a type.
    pub(crate) fn type_ref(&mut self, c: &mut Cursor<'_>) -> MResult<Type> {
        self.numbered_type(c).map(|(_, ty)| ty)
    }

    /// The attribute at a place of the table.
    pub(crate) fn attr(&mut self, index: usize) -> MResult<Attr> {
        self.lookup(
            index,
            self.container.attribute(index),
            |d| &mut d.attributes,
            Self::decode_attr,
            // A named entry is found once in most files, and a dictionary of one takes a kilobyte.
            |attr| !matches!(attr, Attr::Dict(entries) if entries.len() == 1),
        )
    }

    /// The type at a place of the table.
    pub(crate) fn ty(&mut self, index: usize) -> MResult<Type> {
        self.lookup(
            index,
            self.container.ty(index),
            |d| &mut d.types,
            Self::decode_type,
            |_| true,
        )
    }

    fn lookup<T: Clone>(
        &mut self,
        index: usize,
        entry: Entry,
        table: fn(&mut Self) -> &mut Table<T>,
        decode: fn(&mut Self, &mut Cursor<'a>) -> MResult<T>,
        keep: fn(&T) -> bool,
    ) -> MResult<T> {
        let known = table(self);
        match known.entries[index] {
            UNREAD => known.entries[index] = OPEN,
            OPEN => {
                let c = self.container.body(entry);
                return Err(c.error(
                    "an attribute or type that does not contain itself",
                    "a cycle",
                ));
            }
            place => {
                let (value, weight) = &known.values[(place - OPEN - 1) as usize];
                let (value, weight) = (value.clone(), *weight);
                self.spend(weight, &self.container.body(entry))?;
                return Ok(value);
            }
        }
        let before = self.parts;
        let mut c = self.container.body(entry);
        self.spend(1, &c)?;
        let value = self.nested(&mut c, |d, c| {
            let dialect = d.container.dialect_of(entry);
            let encoded = d.container.is_encoded(entry);
            if !encoded || dialect != "aicode" {
                let found = if encoded { dialect } else { "assembly text" };
                return Err(c.error("an entry encoded by the dialect `aicode`", found));
            }
            decode(d, c)
        })?;
        c.finish("the attribute or type")?;
        let weight = self.parts - before;
        let known = table(self);
        if !keep(&value) {
            known.entries[index] = UNREAD;
            return Ok(value);
        }
        // A file has fewer entries than bytes, and less than 4 GiB of them are indexed.
        known.entries[index] = u32::try_from(known.values.len())
            .ok()
            .and_then(|n| n.checked_add(OPEN + 1))
            .ok_or_else(|| c.error("fewer attributes and types", "too many"))?;
        known.values.push((value.clone(), weight));
        Ok(value)
    }

    /// Counts parts of attributes, types and constants as they are made; sixteen bytes are a part.
    fn spend(&mut self, parts: usize, c: &Cursor<'_>) -> MResult<()> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts > self.budget {
            return Err(c.error(
                "attributes that expand to less",
                "shared ones that multiply",
            ));
        }
        Ok(())
    }

    /// A copy of a string of the table.
    fn text(&mut self, c: &mut Cursor<'_>) -> MResult<String> {
        let text = self.container.string(c)?;
        self.spend(text.len() / 16, c)?;
        Ok(text.to_string())
    }

    fn nested<'c, T>(
        &mut self,
        c: &mut Cursor<'c>,
        f: impl FnOnce(&mut Self, &mut Cursor<'c>) -> MResult<T>,
    ) -> MResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err(c.error(format!("at most {MAX_DEPTH} levels of nesting"), "more"));
        }
        self.depth += 1;
        let result = f(self, c);
        self.depth -= 1;
        result
    }

    /// Extents, alignments and the like: one for each of a tensor's dimensions, of which there are few.
    fn per_dimension<'c, T>(
        &mut self,
        c: &mut Cursor<'c>,
        what: &str,
        item: impl FnMut(&mut Self, &mut Cursor<'c>) -> MResult<T>,
    ) -> MResult<Vec<T>> {
        let at = c.offset();
        let items = self.list(c, what, item)?;
        if items.len() > MAX_RANK {
            return Err(c.error_at(
                at,
                format!("at most {MAX_RANK} {what}"),
                items.len().to_string(),
            ));
        }
        Ok(items)
    }

    /// `count`, then that many.
    fn list<'c, T>(
        &mut self,
        c: &mut Cursor<'c>,
        what: &str,
        mut item: impl FnMut(&mut Self, &mut Cursor<'c>) -> MResult<T>,
    ) -> MResult<Vec<T>> {
        let count = c.count(what)?;
        let mut items = Vec::with_capacity(count.min(1 << 12));
        for _ in 0..count {
            items.push(item(self, c)?);
        }
        Ok(items)
    }
}

/// Bytes as hexadecimal digits, cut after 64.
fn hex(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().take(64).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > 64 {
        text.push('…');
    }
    text
}
