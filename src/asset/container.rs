//! The bytecode container: sections, strings, names, tables of attributes, types, properties and
//! resources. Nothing here knows the dialect.
//!
//! The string table lies behind the weights, so section headers are walked first and bodies are
//! passed over; of the weights not a byte is read.

use std::ops::Range;

use super::cursor::{Cursor, MResult};
use super::error::Section;

/// The only version that occurs; its rules are the ones implemented.
const VERSION: u64 = 6;

/// The op names of the file.
pub(crate) struct OpName<'a> {
    /// Dialect (`aicode`).
    pub(crate) dialect: &'a str,
    /// Name without dialect (`primitive.reshape_v2`).
    pub(crate) name: &'a str,
}

/// The attributes and types of the file. There are ten thousands of them in a file with debug
/// information, and few are asked for: each costs eight bytes.
pub(crate) struct Entries {
    /// The offset of the first body; each starts where the one before ends.
    start: usize,
    /// Twice the offset of each body's end; plus one where the dialect encodes it, otherwise it is
    /// assembly text.
    ends: Vec<u64>,
    /// Number of the first entry of a run of one dialect, and the dialect.
    runs: Vec<(usize, usize)>,
    attributes: usize,
}

/// One entry of the tables of attributes and types.
#[derive(Clone, Copy)]
pub(crate) struct Entry(usize);

/// One resource: its key, and where its entry is.
pub(crate) struct Resource<'a> {
    pub(crate) key: &'a str,
    entry: Range<usize>,
    /// The data has a header with alignment and size.
    blob: bool,
}

/// A parsed container; everything borrows from the file.
pub(crate) struct Container<'a> {
    pub(crate) file: &'a [u8],
    /// The producer string of the header (`MLIR22.0.0git`).
    pub(crate) producer: &'a str,
    strings: Vec<&'a str>,
    pub(crate) dialects: Vec<Dialect<'a>>,
    pub(crate) ops: Vec<OpName<'a>>,
    entries: Entries,
    properties: Vec<Range<usize>>,
    pub(crate) resources: Vec<Resource<'a>>,
    ir: Range<usize>,
}

/// A dialect of the file.
pub(crate) struct Dialect<'a> {
    pub(crate) name: &'a str,
    /// The version, where it is stated and a plain number.
    pub(crate) version: Option<u64>,
}

/// The bodies of the sections, by id.
struct Sections([Option<Range<usize>>; 9]);

impl Sections {
    fn get(&self, file: &[u8], id: usize, name: Section) -> MResult<Range<usize>> {
        self.0[id].clone().ok_or_else(|| {
            Cursor::new(file, file.len(), file.len(), Section::Sections)
                .error(format!("the {name} (id {id})"), "none")
        })
    }
}

/// Where a section's body is: reads its id, length, alignment and padding, and passes the body.
fn section(c: &mut Cursor<'_>) -> MResult<(u8, Range<usize>)> {
    let head = c.byte()?;
    let length = c.varint()?;
    if head & 0x80 != 0 {
        let alignment = c.varint()?;
        c.align(alignment)?;
    }
    let start = c.offset();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    c.bytes(length)?;
    Ok((head & 0x7f, start..start + length))
}

impl<'a> Container<'a> {
    /// Reads the tables.
    pub(crate) fn parse(file: &'a [u8]) -> MResult<Container<'a>> {
        let mut c = Cursor::new(file, 0, file.len(), Section::Header);
        if c.bytes(4).ok() != Some(b"ML\xefR") {
            let c = Cursor::new(file, 0, file.len(), Section::Header);
            return Err(c.error(
                "the magic number of MLIR bytecode (4D 4C EF 52)",
                "other bytes",
            ));
        }
        let at = c.offset();
        let version = c.varint()?;
        if version != VERSION {
            let expected = format!("bytecode version {VERSION}, the only one known");
            return Err(c.error_at(at, expected, version.to_string()));
        }
        let producer = c_string(&mut c)?;
        let mut sections = Sections(Default::default());
        let mut c = Cursor::new(file, c.offset(), file.len(), Section::Sections);
        while !c.is_done() {
            let at = c.offset();
            let (id, body) = section(&mut c)?;
            match sections.0.get_mut(usize::from(id)) {
                Some(slot @ None) if id != 7 => *slot = Some(body),
                Some(_) if id != 7 => {
                    return Err(c.error_at(at, "each section once", format!("section {id} again")));
                }
                _ => return Err(c.error_at(at, "a section id of 0 to 6 or 8", id.to_string())),
            }
        }
        let strings = strings(file, sections.get(file, 0, Section::Strings)?)?;
        let (dialects, ops) = dialects(file, sections.get(file, 1, Section::Dialects)?, &strings)?;
        let bodies = sections.get(file, 2, Section::Attributes)?;
        let sizes = sections.get(file, 3, Section::AttributeSizes)?;
        let entries = entries(file, sizes, bodies, dialects.len())?;
        let resources = match &sections.0[6] {
            Some(sizes) => {
                let bodies = sections.0[5].clone().unwrap_or(0..0);
                resources(file, sizes.clone(), bodies, &strings, dialects.len())?
            }
            None => Vec::new(),
        };
        let properties = match &sections.0[8] {
            Some(body) => properties(file, body.clone())?,
            None => Vec::new(),
        };
        let ir = sections.get(file, 4, Section::Ir)?;
        Ok(Container {
            file,
            producer,
            strings,
            dialects,
            ops,
            entries,
            properties,
            resources,
            ir,
        })
    }

    /// A reference to a string.
    pub(crate) fn string(&self, c: &mut Cursor<'_>) -> MResult<&'a str> {
        Ok(self.strings[c.index(self.strings.len(), "a string number")?])
    }

    /// The number of attributes.
    pub(crate) fn attribute_count(&self) -> usize {
        self.entries.attributes
    }

    /// The number of types.
    pub(crate) fn type_count(&self) -> usize {
        self.entries.ends.len() - self.entries.attributes
    }

    /// The attribute of a number below their count.
    pub(crate) fn attribute(&self, index: usize) -> Entry {
        Entry(index)
    }

    /// The type of a number below their count.
    pub(crate) fn ty(&self, index: usize) -> Entry {
        Entry(self.entries.attributes + index)
    }

    /// The body of an attribute or type.
    pub(crate) fn body(&self, entry: Entry) -> Cursor<'a> {
        let ends = &self.entries.ends;
        let start = match entry.0 {
            0 => self.entries.start,
            n => (ends[n - 1] >> 1) as usize,
        };
        let end = (ends[entry.0] >> 1) as usize;
        Cursor::new(self.file, start, end, Section::Attributes)
    }

    /// Whether the dialect encodes an attribute or type; otherwise it is assembly text.
    pub(crate) fn is_encoded(&self, entry: Entry) -> bool {
        self.entries.ends[entry.0] & 1 == 1
    }

    /// The dialect of an attribute or type.
    pub(crate) fn dialect_of(&self, entry: Entry) -> &'a str {
        let runs = &self.entries.runs;
        let run = runs.partition_point(|(first, _)| *first <= entry.0) - 1;
        self.dialects[runs[run].1].name
    }

    /// The number of property entries.
    pub(crate) fn property_count(&self) -> usize {
        self.properties.len()
    }

    /// A property entry.
    pub(crate) fn property(&self, index: usize) -> Cursor<'a> {
        let range = self.properties[index].clone();
        Cursor::new(self.file, range.start, range.end, Section::Properties)
    }

    /// The IR section.
    pub(crate) fn ir(&self) -> Cursor<'a> {
        Cursor::new(self.file, self.ir.start, self.ir.end, Section::Ir)
    }

    /// Bytes that are not weights: everything but the resource section.
    pub(crate) fn program_bytes(&self) -> usize {
        self.file.len() - self.resources.iter().map(|r| r.entry.len()).sum::<usize>()
    }

    /// Where the data of a resource is. This touches the page it starts on.
    pub(crate) fn resource_data(&self, resource: &Resource<'_>) -> MResult<Range<usize>> {
        let (start, end) = (resource.entry.start, resource.entry.end);
        let mut entry = Cursor::new(self.file, start, end, Section::Resources);
        if resource.blob {
            let alignment = entry.varint()?;
            let at = entry.offset();
            let length = entry.varint()?;
            entry.align(alignment)?;
            let left = entry.remaining() as u64;
            if length != left {
                return Err(entry.error_at(at, format!("a size of {left}"), length.to_string()));
            }
        }
        Ok(entry.offset()..end)
    }
}

/// A nested section of the given id, whose body is returned as a cursor.
pub(crate) fn nested<'a>(
    file: &'a [u8],
    c: &mut Cursor<'a>,
    id: u8,
    name: Section,
) -> MResult<Cursor<'a>> {
    let at = c.offset();
    let (found, body) = section(c)?;
    if found != id {
        return Err(c.error_at(
            at,
            format!("a nested section of id {id}"),
            found.to_string(),
        ));
    }
    Ok(Cursor::new(file, body.start, body.end, name))
}

/// Text up to a NUL.
fn c_string<'a>(c: &mut Cursor<'a>) -> MResult<&'a str> {
    let at = c.offset();
    let mut rest = *c;
    let mut len = 0;
    while rest.byte()? != 0 {
        len += 1;
    }
    let bytes = c.bytes(len)?;
    c.byte()?;
    std::str::from_utf8(bytes).map_err(|_| c.error_at(at, "text in UTF-8", "other bytes"))
}

fn strings(file: &[u8], range: Range<usize>) -> MResult<Vec<&str>> {
    let mut c = Cursor::new(file, range.start, range.end, Section::Strings);
    let count = c.count("strings")?;
    let mut sizes = Vec::with_capacity(count);
    for _ in 0..count {
        sizes.push((c.offset(), c.length()?));
    }
    let mut strings = Vec::with_capacity(count);
    // The sizes are listed last string first.
    for (at, size) in sizes.into_iter().rev() {
        let start = c.offset();
        let bytes = c.bytes(size)?;
        let Some((0, text)) = bytes.split_last() else {
            return Err(c.error_at(at, "the length of a text with its NUL", size.to_string()));
        };
        let text = std::str::from_utf8(text);
        strings.push(text.map_err(|_| c.error_at(start, "text in UTF-8", "other bytes"))?);
    }
    c.finish("the strings")?;
    Ok(strings)
}

fn dialects<'a>(
    file: &'a [u8],
    range: Range<usize>,
    strings: &[&'a str],
) -> MResult<(Vec<Dialect<'a>>, Vec<OpName<'a>>)> {
    let mut c = Cursor::new(file, range.start, range.end, Section::Dialects);
    let count = c.count("dialects")?;
    let mut dialects = Vec::with_capacity(count);
    for _ in 0..count {
        let at = c.offset();
        let (name, versioned) = c.flagged()?;
        let name = strings[c.checked_index(at, name, strings.len(), "a string number")?];
        let mut version = None;
        if versioned {
            let mut body = nested(file, &mut c, 7, Section::Dialects)?;
            version = body.varint().ok().filter(|_| body.is_done());
        }
        dialects.push(Dialect { name, version });
    }
    let total = c.count("op names")?;
    let mut ops = Vec::with_capacity(total);
    while !c.is_done() {
        let dialect = dialects[c.index(dialects.len(), "a dialect number")?].name;
        for _ in 0..c.count("op names")? {
            let at = c.offset();
            let (name, _registered) = c.flagged()?;
            let name = strings[c.checked_index(at, name, strings.len(), "a string number")?];
            ops.push(OpName { dialect, name });
        }
    }
    if ops.len() != total {
        return Err(c.error(format!("{total} op names"), ops.len().to_string()));
    }
    Ok((dialects, ops))
}

fn entries(
    file: &[u8],
    sizes: Range<usize>,
    bodies: Range<usize>,
    dialects: usize,
) -> MResult<Entries> {
    let mut c = Cursor::new(file, sizes.start, sizes.end, Section::AttributeSizes);
    let attributes = c.count("attributes")?;
    let types = c.count("types")?;
    let mut ends = Vec::with_capacity(attributes.saturating_add(types).min(c.remaining()));
    let mut runs = Vec::new();
    let mut start = bodies.start;
    while !c.is_done() {
        runs.push((ends.len(), c.index(dialects, "a dialect number")?));
        for _ in 0..c.count("entries")? {
            let at = c.offset();
            let (len, custom) = c.flagged()?;
            let left = bodies.end - start;
            let len = usize::try_from(len).ok().filter(|n| *n <= left);
            let len = len.ok_or_else(|| {
                c.error_at(
                    at,
                    format!("at most the {left} bytes that are left"),
                    "more",
                )
            })?;
            start += len;
            ends.push((start as u64) << 1 | u64::from(custom));
        }
    }
    if ends.len() != attributes + types {
        let expected = format!("{attributes} attributes and {types} types");
        return Err(c.error(expected, format!("{} entries", ends.len())));
    }
    if start != bodies.end {
        let left = bodies.end - start;
        let c = Cursor::new(file, start, bodies.end, Section::Attributes);
        return Err(c.error(
            "the end of the section",
            format!("{left} bytes without an entry"),
        ));
    }
    Ok(Entries {
        start: bodies.start,
        ends,
        runs,
        attributes,
    })
}

/// The keys and entries, from the sizes alone: the section with the weights is not touched.
fn resources<'a>(
    file: &'a [u8],
    sizes: Range<usize>,
    bodies: Range<usize>,
    strings: &[&'a str],
    dialects: usize,
) -> MResult<Vec<Resource<'a>>> {
    let mut c = Cursor::new(file, sizes.start, sizes.end, Section::ResourceSizes);
    let mut data = Cursor::new(file, bodies.start, bodies.end, Section::Resources);
    let mut external = c.varint()?;
    let mut resources = Vec::new();
    while !c.is_done() {
        let is_external = external > 0;
        if is_external {
            external -= 1;
            c.index(strings.len(), "a string number")?;
        } else {
            c.index(dialects, "a dialect number")?;
        }
        for _ in 0..c.count("resources")? {
            let key = strings[c.index(strings.len(), "a string number")?];
            let at = c.offset();
            let size = c.varint()?;
            let left = data.remaining();
            let size = usize::try_from(size)
                .ok()
                .filter(|n| *n <= left)
                .ok_or_else(|| {
                    c.error_at(
                        at,
                        format!("at most the {left} bytes that are left"),
                        size.to_string(),
                    )
                })?;
            let kind = c.byte()?;
            if kind > 2 {
                return Err(c.error("a resource kind of 0 to 2", kind.to_string()));
            }
            let start = data.offset();
            data.bytes(size)?;
            if !is_external {
                resources.push(Resource {
                    key,
                    entry: start..start + size,
                    blob: kind == 0,
                });
            }
        }
    }
    data.finish("the resources")?;
    Ok(resources)
}

fn properties(file: &[u8], range: Range<usize>) -> MResult<Vec<Range<usize>>> {
    let mut c = Cursor::new(file, range.start, range.end, Section::Properties);
    let count = c.count("property entries")?;
    let mut properties = Vec::with_capacity(count);
    for _ in 0..count {
        let size = c.length()?;
        let start = c.offset();
        c.bytes(size)?;
        properties.push(start..start + size);
    }
    c.finish("the properties")?;
    Ok(properties)
}
