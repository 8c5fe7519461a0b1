//! Conversion between numbers, their bit patterns and their printed form.

use half::{bf16, f16};

use super::types::{Element, Float};

/// The value of a bit pattern. Exact: every format here fits a double.
pub fn float_value(kind: Float, bits: u64) -> f64 {
    match kind {
        Float::F64 => f64::from_bits(bits),
        Float::F32 | Float::Tf32 => f64::from(f32::from_bits(bits as u32)),
        Float::F16 => f16::from_bits(bits as u16).to_f64(),
        Float::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Float::F8E5M2 => f16::from_bits((bits as u16 & 0xff) << 8).to_f64(),
        Float::F8E4M3FN => e4m3(bits as u8),
        Float::F8E8M0FNU => match bits as u8 {
            255 => f64::NAN,
            code => (f64::from(code) - 127.0).exp2(),
        },
        Float::F4E2M1FN => {
            let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][(bits & 7) as usize];
            if bits & 8 != 0 {
                -magnitude
            } else {
                magnitude
            }
        }
    }
}

fn e4m3(code: u8) -> f64 {
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from((code >> 3) & 15), f64::from(code & 7));
    match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => sign * mantissa * 2f64.powi(-9),
        _ => sign * (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
    }
}

/// The bit pattern nearest to a decimal text; `None` when it is not a number.
pub fn float_bits(kind: Float, text: &str) -> Option<u64> {
    if kind == Float::F32 {
        return text.parse::<f32>().ok().map(|v| u64::from(v.to_bits()));
    }
    let value: f64 = text.parse().ok()?;
    Some(match kind {
        Float::F64 => value.to_bits(),
        Float::F32 | Float::Tf32 => u64::from((value as f32).to_bits()),
        Float::F16 => u64::from(f16::from_f32(single(value)).to_bits()),
        Float::Bf16 => u64::from(bf16::from_f32(single(value)).to_bits()),
        Float::F8E5M2 | Float::F8E4M3FN | Float::F8E8M0FNU | Float::F4E2M1FN => {
            nearest_code(kind, value)
        }
    })
}

/// The code of a small format whose value is nearest; ties go to the even code.
fn nearest_code(kind: Float, value: f64) -> u64 {
    let mut best = (f64::INFINITY, 0u64);
    for code in 0..(1u64 << kind.width()) {
        let candidate = float_value(kind, code);
        if !candidate.is_finite()
            || (candidate == 0.0 && candidate.is_sign_negative() != value.is_sign_negative())
        {
            continue;
        }
        let distance = (candidate - value).abs();
        if distance < best.0 || (distance == best.0 && code % 2 == 0) {
            best = (distance, code);
        }
    }
    best.1
}

/// A float as the vendor prints it: six decimals when that is exact, else as many digits as the
/// format needs, else the bit pattern in hexadecimal (infinities, NaN).
pub fn print_float(kind: Float, bits: u64) -> String {
    let value = float_value(kind, bits);
    let hex = || {
        let digits = (kind.width() as usize).div_ceil(4);
        format!("0x{bits:0digits$X}")
    };
    if !value.is_finite() {
        return hex();
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0.000000e+00"
        } else {
            "0.000000e+00"
        }
        .to_string();
    }
    let short = layout(value, 6, false);
    if short.as_deref().and_then(|t| float_bits(kind, t)) == Some(bits) {
        return short.unwrap_or_else(hex);
    }
    // Significant bits, implicit one included.
    let precision = match kind {
        Float::F64 => 53,
        Float::F32 => 24,
        Float::Tf32 | Float::F16 => 11,
        Float::Bf16 => 8,
        _ => 4,
    };
    match layout(value, 2 + precision * 59 / 196, true) {
        Some(text) if float_bits(kind, &text) == Some(bits) => text,
        _ => hex(),
    }
}

/// A finite number other than zero at a number of significant digits. `natural` drops trailing zeros
/// and is positional while at most three zeros are needed; `None` where that has no decimal point.
fn layout(value: f64, precision: usize, natural: bool) -> Option<String> {
    let (digits, last) = decimal(value.abs(), precision);
    let sign = if value < 0.0 { "-" } else { "" };
    let count = digits.len() as i32;
    // Exponents of the last and the first digit.
    let leading = last + count - 1;
    let scientific = match natural {
        false => true,
        true if last >= 0 => last > 3 || count + last > precision as i32,
        true => leading < 0 && -leading > 3,
    };
    if scientific {
        let (e, mark) = if natural {
            (leading.abs().to_string(), 'E')
        } else {
            (format!("{:02}", leading.abs()), 'e')
        };
        let mut rest = digits[1..].to_string();
        match natural {
            true if rest.is_empty() => rest.push('0'),
            true => {}
            false => rest.extend(std::iter::repeat_n(
                '0',
                precision.saturating_sub(rest.len()),
            )),
        }
        let exponent_sign = if leading < 0 { '-' } else { '+' };
        return Some(format!(
            "{sign}{}.{rest}{mark}{exponent_sign}{e}",
            &digits[..1]
        ));
    }
    if last >= 0 {
        return None;
    }
    let whole = leading + 1;
    Some(if whole > 0 {
        let (a, b) = digits.split_at(whole as usize);
        format!("{sign}{a}.{b}")
    } else {
        format!("{sign}0.{}{digits}", "0".repeat(-whole as usize))
    })
}

/// The digits of a positive finite number without trailing zeros, and the exponent of the last one.
///
/// The vendor's printer first drops whole digits beyond the precision, then rounds half up what is
/// left; both steps show in its output, so both are taken here.
fn decimal(value: f64, precision: usize) -> (String, i32) {
    let raw = value.to_bits();
    let (field, fraction) = ((raw >> 52 & 0x7ff) as i32, raw & ((1 << 52) - 1));
    let (mut significand, mut exponent) = if field == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, field - 1075)
    };
    let zeros = significand.trailing_zeros();
    significand >>= zeros;
    exponent += zeros as i32;
    let mut number = Natural(vec![significand as u32, (significand >> 32) as u32]);
    if exponent > 0 {
        (0..exponent).for_each(|_| number.multiply(2));
        exponent = 0;
    } else {
        // significand · 2^e = significand · 5^-e · 10^e
        (exponent..0).for_each(|_| number.multiply(5));
    }
    let needed = (precision * 196).div_ceil(59);
    let removable = number.bits().saturating_sub(needed) * 59 / 196;
    for _ in 0..removable {
        number.divide(10);
        exponent += 1;
    }
    // Least significant first.
    let mut digits: Vec<u8> = Vec::new();
    while number.bits() > 0 {
        let digit = number.divide(10) as u8;
        if digit == 0 && digits.is_empty() {
            exponent += 1;
        } else {
            digits.push(digit);
        }
    }
    if digits.len() > precision {
        let mut first = digits.len() - precision;
        if digits[first - 1] < 5 {
            first += digits[first..].iter().take_while(|d| **d == 0).count();
        } else {
            first += digits[first..].iter().take_while(|d| **d == 9).count();
            match digits.get_mut(first) {
                Some(digit) => *digit += 1,
                None => digits.push(1),
            }
        }
        exponent += first as i32;
        digits.drain(..first);
    }
    (
        digits.iter().rev().map(|d| char::from(b'0' + d)).collect(),
        exponent,
    )
}

/// A natural number in 32-bit limbs, least significant first.
struct Natural(Vec<u32>);

impl Natural {
    fn multiply(&mut self, factor: u32) {
        let mut carry = 0u64;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides in place; the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.0.iter_mut().rev() {
            let part = rest << 32 | u64::from(*limb);
            *limb = (part / u64::from(divisor)) as u32;
            rest = part % u64::from(divisor);
        }
        rest as u32
    }

    fn bits(&self) -> usize {
        let top = self.0.iter().rposition(|l| *l != 0);
        top.map_or(0, |i| 32 * i + 32 - self.0[i].leading_zeros() as usize)
    }
}

/// The little-endian bytes of an integer element ([`Element::bytes`] of them); `None` out of range.
pub fn int_bytes(element: Element, value: i128) -> Option<Vec<u8>> {
    let width = element.width();
    let in_range = width >= 127
        || match element {
            Element::Int {
                sign: super::types::Sign::Unsigned,
                ..
            }
            | Element::Bool => (0..1i128 << width).contains(&value),
            Element::Int {
                sign: super::types::Sign::Signed,
                ..
            } => (-(1i128 << (width - 1))..1i128 << (width - 1)).contains(&value),
            _ => (-(1i128 << (width - 1))..1i128 << width).contains(&value),
        };
    if !in_range {
        return None;
    }
    let mask = if width >= 128 {
        -1i128
    } else {
        (1i128 << width) - 1
    };
    let size = element.bytes();
    let mut bytes = (value & mask).to_le_bytes().to_vec();
    // Wider than 128 bits: extend the sign.
    let fill = if value < 0 { 0xff } else { 0 };
    bytes.resize(size.max(bytes.len()), fill);
    bytes.truncate(size);
    Some(bytes)
}

/// The integer in `bytes`, which hold one element; `None` beyond 128 bits.
pub fn int_value(element: Element, bytes: &[u8]) -> Option<i128> {
    let width = element.width();
    if width > 128 || bytes.len() < element.bytes() {
        return None;
    }
    let mut raw = [0u8; 16];
    let n = element.bytes().min(16);
    raw[..n].copy_from_slice(&bytes[..n]);
    let mut value = i128::from_le_bytes(raw);
    if width < 128 {
        value &= (1i128 << width) - 1;
        let signed = !matches!(
            element,
            Element::Bool
                | Element::Int {
                    sign: super::types::Sign::Unsigned,
                    ..
                }
        );
        if signed && value >> (width - 1) & 1 == 1 {
            value -= 1i128 << width;
        }
    }
    Some(value)
}

/// The bit pattern of one float element; little-endian.
pub fn bits_of(bytes: &[u8]) -> u64 {
    let mut raw = [0u8; 8];
    let n = bytes.len().min(8);
    raw[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(raw)
}

/// The little-endian bytes of a float's bit pattern ([`Element::bytes`] of them).
pub fn bits_bytes(kind: Float, bits: u64) -> Vec<u8> {
    bits.to_le_bytes()[..Element::Float(kind).bytes()].to_vec()
}

/// A double as a single that rounds to the same half: what is lost leaves a trace in the last bit, so that
/// nothing becomes a tie. (The halves' own conversion from doubles drops bits before it rounds.)
pub(crate) fn single(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    let beyond = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_the_vendor_prints_them() {
        for (kind, bits, text) in [
            (Float::F32, 0x3f80_0000, "1.000000e+00"),
            (
                Float::F32,
                u64::from(std::f32::consts::PI.to_bits()),
                "3.14159274",
            ),
            (Float::F32, u64::from(1e-6f32.to_bits()), "9.99999997E-7"),
            (Float::F32, u64::from(1e30f32.to_bits()), "1.000000e+30"),
            (Float::F32, 0x7f80_0000, "0x7F800000"),
            (Float::F32, 0x8000_0000, "-0.000000e+00"),
            (Float::F32, u64::from(123_456.78f32.to_bits()), "123456.781"),
            (
                Float::F32,
                u64::from(0.082_704_25f32.to_bits()),
                "0.0827042534",
            ),
            (Float::F16, 0x7c00, "0x7C00"),
            (Float::F16, 0x2e66, "9.997550e-02"),
            (Float::F64, 0.1f64.to_bits(), "1.000000e-01"),
            (Float::F8E4M3FN, 0x7e, "4.480000e+02"),
            (Float::F4E2M1FN, 0xb, "-1.500000e+00"),
            (Float::F8E8M0FNU, 128, "2.000000e+00"),
        ] {
            assert_eq!(print_float(kind, bits), text, "{kind:?} {bits:#x}");
        }
    }

    #[test]
    fn every_printed_small_float_reads_back_to_its_bits() {
        for kind in [
            Float::F16,
            Float::Bf16,
            Float::F8E5M2,
            Float::F8E4M3FN,
            Float::F8E8M0FNU,
            Float::F4E2M1FN,
        ] {
            for bits in 0..1u64 << kind.width() {
                let text = print_float(kind, bits);
                let back = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None => float_bits(kind, &text),
                };
                assert_eq!(back, Some(bits), "{kind:?} {text}");
            }
        }
    }

    #[test]
    fn integers_wrap_to_their_width_and_refuse_more() {
        assert_eq!(int_bytes(Element::si(4), -2), Some(vec![0x0e]));
        assert_eq!(int_value(Element::si(4), &[0x0e]), Some(-2));
        assert_eq!(int_bytes(Element::ui(8), 256), None);
        assert_eq!(int_bytes(Element::si(32), -1), Some(vec![0xff; 4]));
        assert_eq!(
            int_value(Element::ui(64), &[0xff; 8]),
            Some(u64::MAX.into())
        );
        assert_eq!(int_value(Element::Bool, &[1]), Some(1));
    }
}
