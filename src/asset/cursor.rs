//! Primitive encodings of the bytecode, read with bounds.

use super::error::{Malformed, Section};

pub(crate) type MResult<T> = Result<T, Box<Malformed>>;

/// More strings, ops, attributes or values than this are not believed.
const MAX_COUNT: usize = 1 << 24;

/// A position in a run of bytes of the file.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    pos: usize,
    end: usize,
    section: Section,
}

impl<'a> Cursor<'a> {
    /// Reads `file[start..end]`; the range is cut to the file.
    pub(crate) fn new(file: &'a [u8], start: usize, end: usize, section: Section) -> Cursor<'a> {
        let end = end.min(file.len());
        Cursor {
            data: file,
            pos: start.min(end),
            end,
            section,
        }
    }

    /// The absolute offset of the next byte.
    pub(crate) fn offset(&self) -> usize {
        self.pos
    }

    pub(crate) fn remaining(&self) -> usize {
        self.end - self.pos
    }

    pub(crate) fn is_done(&self) -> bool {
        self.pos == self.end
    }

    /// An error at an offset of the file.
    pub(crate) fn error_at(
        &self,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Box<Malformed> {
        Box::new(Malformed {
            offset: offset as u64,
            section: self.section,
            expected: expected.into(),
            found: found.into(),
        })
    }

    /// An error at the next byte.
    pub(crate) fn error(
        &self,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Box<Malformed> {
        self.error_at(self.pos, expected, found)
    }

    pub(crate) fn byte(&mut self) -> MResult<u8> {
        match self.data.get(self.pos) {
            Some(b) if self.pos < self.end => {
                self.pos += 1;
                Ok(*b)
            }
            _ => Err(self.error("one more byte", "the end")),
        }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> MResult<&'a [u8]> {
        if n > self.remaining() {
            let found = format!("{} before the end", self.remaining());
            return Err(self.error(format!("{n} bytes"), found));
        }
        let bytes = &self.data[self.pos..self.pos + n];
        self.pos += n;
        Ok(bytes)
    }

    /// The number of trailing zero bits of the first byte says how many bytes follow.
    pub(crate) fn varint(&mut self) -> MResult<u64> {
        let start = self.pos;
        let first = self.byte()?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        let extra = first.trailing_zeros() as usize;
        let tail = self.bytes(extra.min(8)).map_err(|_| {
            self.error_at(
                start,
                format!("a number of {} bytes", extra.min(8) + 1),
                "the end",
            )
        })?;
        let mut raw = [0u8; 8];
        if first == 0 {
            raw.copy_from_slice(tail);
            return Ok(u64::from_le_bytes(raw));
        }
        raw[0] = first;
        raw[1..=extra].copy_from_slice(tail);
        Ok(u64::from_le_bytes(raw) >> (extra + 1))
    }

    pub(crate) fn signed(&mut self) -> MResult<i64> {
        let u = self.varint()?;
        Ok((u >> 1) as i64 ^ -((u & 1) as i64))
    }

    pub(crate) fn flagged(&mut self) -> MResult<(u64, bool)> {
        let u = self.varint()?;
        Ok((u >> 1, u & 1 == 1))
    }

    /// A number below `limit`, which is the length of `what`.
    pub(crate) fn index(&mut self, limit: usize, what: &str) -> MResult<usize> {
        let at = self.pos;
        let value = self.varint()?;
        self.checked_index(at, value, limit, what)
    }

    pub(crate) fn checked_index(
        &self,
        at: usize,
        value: u64,
        limit: usize,
        what: &str,
    ) -> MResult<usize> {
        match usize::try_from(value) {
            Ok(i) if i < limit => Ok(i),
            _ => Err(self.error_at(at, format!("{what} below {limit}"), value.to_string())),
        }
    }

    /// A number of things that take at least one byte each.
    pub(crate) fn count(&mut self, what: &str) -> MResult<usize> {
        let at = self.pos;
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(n) if n <= self.remaining().min(MAX_COUNT) => Ok(n),
            _ => {
                let limit = self.remaining().min(MAX_COUNT);
                let expected = format!("at most {limit} {what}, a byte each");
                Err(self.error_at(at, expected, value.to_string()))
            }
        }
    }

    /// A length of bytes that follow.
    pub(crate) fn length(&mut self) -> MResult<usize> {
        let at = self.pos;
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(n) if n <= self.remaining() => Ok(n),
            _ => {
                let expected = format!("at most the {} bytes that are left", self.remaining());
                Err(self.error_at(at, expected, value.to_string()))
            }
        }
    }

    /// 0 or 1.
    pub(crate) fn bool(&mut self) -> MResult<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error_at(self.pos - 1, "0 or 1", other.to_string())),
        }
    }

    /// `None`, or an index.
    pub(crate) fn optional(&mut self, limit: usize, what: &str) -> MResult<Option<usize>> {
        let at = self.pos;
        match self.varint()? {
            0 => Ok(None),
            u if u & 1 == 1 => self.checked_index(at, u >> 1, limit, what).map(Some),
            u => Err(self.error_at(at, "0 or an odd number", u.to_string())),
        }
    }

    /// Padding bytes up to a multiple of `alignment` of the file.
    pub(crate) fn align(&mut self, alignment: u64) -> MResult<()> {
        if !alignment.is_power_of_two() {
            return Err(self.error("an alignment that is a power of two", alignment.to_string()));
        }
        while (self.pos as u64) & (alignment - 1) != 0 {
            match self.byte()? {
                0xcb => {}
                other => {
                    let found = format!("{other:#04x}");
                    return Err(self.error_at(self.pos - 1, "padding 0xcb", found));
                }
            }
        }
        Ok(())
    }

    /// An error unless all is read.
    pub(crate) fn finish(&self, what: &str) -> MResult<()> {
        if self.is_done() {
            return Ok(());
        }
        Err(self.error(
            format!("the end of {what}"),
            format!("{} more bytes", self.remaining()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor::new(bytes, 0, bytes.len(), Section::Header)
    }

    #[test]
    fn varints_of_every_length() {
        for (bytes, value) in [
            (&[0x01][..], 0),
            (&[0xff], 127),
            (&[0x02, 0x02], 128),
            (&[0xfe, 0xff], 16383),
            (&[0x80, 0, 0, 0, 0, 0, 0, 1], 1 << 48),
            (
                &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                u64::MAX,
            ),
        ] {
            let mut c = cursor(bytes);
            assert_eq!(c.varint(), Ok(value), "{bytes:?}");
            assert!(c.is_done());
        }
    }

    #[test]
    fn a_cut_varint_names_its_start() {
        let error = cursor(&[0x80, 0, 0]).varint().unwrap_err().to_string();
        assert_eq!(
            error,
            "byte 0, header: expected a number of 8 bytes, found the end"
        );
    }

    #[test]
    fn the_dynamic_extent_is_the_smallest_number() {
        let bytes = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(cursor(&bytes).signed(), Ok(i64::MIN));
    }

    #[test]
    fn counts_are_bounded_by_the_bytes_left() {
        let error = cursor(&[0x21, 1, 1])
            .count("values")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "byte 0, header: expected at most 2 values, a byte each, found 16"
        );
    }

    #[test]
    fn padding_is_checked() {
        let bytes = [1, 0xcb, 0xcb, 0xcb, 7];
        let mut c = cursor(&bytes);
        c.byte().unwrap();
        assert_eq!(c.align(4), Ok(()));
        assert_eq!(c.offset(), 4);
        assert!(c.align(3).is_err());
        assert!(c.align(8).is_err());
    }
}
