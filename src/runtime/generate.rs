//! Made-up values for a function's ports: seeded, and plausible by name and dtype.

use half::{bf16, f16};

use super::{DType, Port, Tensor, TensorError};

/// A stream of numbers, the same for the same seed everywhere (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The stream of a seed.
    pub fn seeded(seed: u64) -> Numbers {
        Numbers(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `-1..1`.
    fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// What dynamic extents and values are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Tokens the caches hold already.
    pub past: usize,
    /// Tokens of this call: the extent of dynamic input dimensions.
    pub length: usize,
    /// The extent of dynamic state dimensions.
    pub capacity: usize,
    /// Token ids are below this.
    pub vocabulary: u64,
}

/// Whether values of a port are positions, by its name.
pub fn is_position(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["position", "pos", "index", "step", "offset"]
        .iter()
        .any(|part| name.contains(part))
}

/// A value for an input.
///
/// A port that is named after positions and whose last dimension is dynamic gets all of them, from 0 to
/// the end of this call; with static extents it gets those of this call. Other integers are ids,
/// booleans are true, floats lie in -1..1.
///
/// # Errors
/// When the memory is not to be had.
pub fn input(port: &Port, step: Step, numbers: &mut Numbers) -> Result<Tensor, TensorError> {
    let positions = is_position(&port.name) && !matches!(port.dtype, DType::Bool);
    let last = port.shape.len().saturating_sub(1);
    let all = positions && matches!(port.shape.last(), Some(None));
    let shape: Vec<usize> = port
        .shape
        .iter()
        .enumerate()
        .map(|(i, d)| match d {
            Some(n) => usize::try_from(*n).unwrap_or(usize::MAX),
            None if all && i == last => step.past + step.length,
            None if i == last || port.shape.iter().skip(i + 1).all(Option::is_some) => step.length,
            None => 1,
        })
        .collect();
    let row = shape.last().copied().unwrap_or(1).max(1);
    let first = if all { 0 } else { step.past };
    let mut t = Tensor::zeros(port.dtype, &shape)?;
    let size = port.dtype.size();
    let dtype = port.dtype;
    for (i, element) in t.bytes_mut()?.chunks_exact_mut(size).enumerate() {
        let value = if positions {
            (first + i % row) as f64
        } else {
            match dtype.class() {
                super::Class::Bool => 1.0,
                super::Class::Int { bits, signed } => {
                    let fits = 1u64 << (bits - u32::from(signed)).min(62);
                    (numbers.next() % step.vocabulary.clamp(1, fits)) as f64
                }
                _ => numbers.real(),
            }
        };
        put(element, dtype, value);
    }
    Ok(t)
}

/// Zeros for a state.
///
/// # Errors
/// When the memory is not to be had.
pub fn state(port: &Port, step: Step) -> Result<Tensor, TensorError> {
    let dims = port.shape.iter().map(|d| match d {
        Some(n) => usize::try_from(*n).unwrap_or(usize::MAX),
        None => step.capacity,
    });
    Tensor::zeros(port.dtype, &dims.collect::<Vec<_>>())
}

fn put(element: &mut [u8], dtype: DType, value: f64) {
    let mut write = |bytes: &[u8]| element.copy_from_slice(bytes);
    match dtype {
        DType::F64 => write(&value.to_le_bytes()),
        DType::F32 => write(&(value as f32).to_le_bytes()),
        DType::F16 => write(&f16::from_f64(value).to_le_bytes()),
        DType::BF16 => write(&bf16::from_f64(value).to_le_bytes()),
        DType::C32 => write(&[(value as f32).to_le_bytes(), [0; 4]].concat()),
        DType::C64 => write(&[value.to_le_bytes(), [0; 8]].concat()),
        DType::C16 => write(&[f16::from_f64(value).to_le_bytes(), [0; 2]].concat()),
        DType::CBF16 => write(&[bf16::from_f64(value).to_le_bytes(), [0; 2]].concat()),
        // Small floats: the codes of small positive values; integers: the value itself.
        _ if dtype.small_float().is_some() => write(&[(value.abs() * 7.0) as u8]),
        _ => {
            let bytes = (value as i64).to_le_bytes();
            write(&bytes[..dtype.size()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step {
        past: 3,
        length: 2,
        capacity: 8,
        vocabulary: 10,
    };

    fn port(name: &str, dtype: DType, shape: &[Option<u64>]) -> Port {
        Port {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn positions_reach_from_the_start_where_the_extent_is_free() {
        let mut numbers = Numbers::seeded(1);
        let all = port("position_ids", DType::I32, &[Some(1), None]);
        let t = input(&all, STEP, &mut numbers).unwrap();
        assert_eq!(t.values::<i32>().unwrap(), [0, 1, 2, 3, 4]);
        let own = port("position_ids", DType::I32, &[Some(1), Some(2)]);
        let t = input(&own, STEP, &mut numbers).unwrap();
        assert_eq!(t.values::<i32>().unwrap(), [3, 4]);
    }

    #[test]
    fn one_seed_gives_one_set_of_values() {
        let ids = port("input_ids", DType::I32, &[Some(1), None]);
        let once = input(&ids, STEP, &mut Numbers::seeded(7)).unwrap();
        let again = input(&ids, STEP, &mut Numbers::seeded(7)).unwrap();
        assert_eq!(once.shape(), [1, 2]);
        assert_eq!(once.bytes(), again.bytes());
        assert!(once
            .values::<i32>()
            .unwrap()
            .iter()
            .all(|v| (0..10).contains(v)));
        let cache = port("cache", DType::F16, &[Some(1), None, Some(4)]);
        assert_eq!(state(&cache, STEP).unwrap().shape(), [1, 8, 4]);
    }
}
