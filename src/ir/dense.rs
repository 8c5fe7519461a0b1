//! Access to the elements of constants, whichever way they are stored.

use std::borrow::Cow;

use super::attr::{Dense, Payload};
use super::types::{Element, TensorType};

impl Dense {
    /// The tensor's type, where the data has one.
    pub fn tensor(&self) -> Option<&TensorType> {
        self.ty.as_tensor()
    }

    /// The elements, each on its own bytes ([`Element::bytes`]), row-major and little-endian.
    ///
    /// `None` when the data is not at hand, or its length does not fit the type.
    pub fn elements(&self) -> Option<Cow<'_, [u8]>> {
        let ty = self.tensor()?;
        let count = usize::try_from(ty.elements()?).ok()?;
        let size = ty.element.bytes();
        let total = count.checked_mul(size)?;
        match &self.payload {
            Payload::Splat(one) if one.len() == size => Some(Cow::Owned(one.repeat(count))),
            Payload::Elements(all) if all.len() == total => Some(Cow::Borrowed(all)),
            Payload::Resource {
                data: Some(data), ..
            } => unpack(ty.element, count, data.bytes()),
            _ => None,
        }
    }
}

/// Elements of a resource: elements below eight bits are one little-endian bit stream, unless there
/// is a byte for each. `None` when the length fits neither.
fn unpack(element: Element, count: usize, stored: &[u8]) -> Option<Cow<'_, [u8]>> {
    let width = match element {
        Element::Int { width, .. } if width < 8 => u32::from(width),
        Element::Float(f) if f.width() < 8 => f.width(),
        _ => {
            return (stored.len() == count.checked_mul(element.bytes())?)
                .then_some(Cow::Borrowed(stored))
        }
    };
    let mask = (1u8 << width) - 1;
    let packed = count.checked_mul(width as usize)?.div_ceil(8);
    // Up to two spare bytes occur behind packed data.
    if stored.len() >= packed
        && stored.len() <= packed + 2
        && (stored.len() != count || packed == count)
    {
        if 8 % width == 0 {
            // Elements do not cross bytes.
            let each = 8 / width;
            let parts = |b: &u8| {
                let b = *b;
                (0..each).map(move |k| b >> (k * width) & mask)
            };
            let all = stored[..packed].iter().flat_map(parts).take(count);
            return Some(Cow::Owned(all.collect()));
        }
        let bit = |i: usize| stored[i / 8] >> (i % 8) & 1;
        let one =
            |i: usize| (0..width as usize).fold(0u8, |v, k| v | bit(i * width as usize + k) << k);
        return Some(Cow::Owned((0..count).map(one).collect()));
    }
    (stored.len() == count).then(|| Cow::Owned(stored.iter().map(|b| b & mask).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr::Blob;
    use crate::ir::types::Type;

    fn resource(element: Element, count: u64, bytes: Vec<u8>) -> Dense {
        let payload = Payload::Resource {
            key: "r".into(),
            data: Some(Blob::from(bytes)),
        };
        Dense {
            ty: Type::tensor(vec![Some(count)], element),
            payload,
        }
    }

    #[test]
    fn packed_elements_come_out_one_per_byte() {
        let four = resource(Element::si(4), 3, vec![0x21, 0x0e]);
        assert_eq!(four.elements().as_deref(), Some(&[1, 2, 14][..]));
        let three = resource(Element::ui(3), 8, vec![0x88, 0xc6, 0xfa]);
        assert_eq!(
            three.elements().as_deref(),
            Some(&[0, 1, 2, 3, 4, 5, 6, 7][..])
        );
        let bit = resource(Element::ui(1), 9, vec![0b0000_0101, 1]);
        assert_eq!(
            bit.elements().as_deref(),
            Some(&[1, 0, 1, 0, 0, 0, 0, 0, 1][..])
        );
    }

    #[test]
    fn a_byte_for_each_element_is_told_by_the_length() {
        let wide = resource(
            Element::Float(crate::ir::types::Float::F4E2M1FN),
            4,
            vec![1, 2, 0xf3, 4],
        );
        assert_eq!(wide.elements().as_deref(), Some(&[1, 2, 3, 4][..]));
        assert_eq!(resource(Element::si(4), 8, vec![0; 7]).elements(), None);
        assert_eq!(resource(Element::si(32), 2, vec![0; 7]).elements(), None);
    }
}
