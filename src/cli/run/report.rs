//! What a run tells.

use crate::check::{number, Number, Values};
use crate::runtime::Tensor;
use crate::text::name;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// Version of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// Elements that are looked at together.
const PART: usize = 1 << 14;

/// What was measured, in milliseconds.
pub struct Timing {
    /// Reading the asset and preparing its program.
    pub load_ms: f64,
    /// Each step.
    pub times: Vec<f64>,
    /// The most memory the process had at a time, in bytes.
    pub peak_memory: Option<u64>,
}

/// A value, in short.
#[derive(Serialize)]
struct Value {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    /// Smallest and largest number, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[Number; 2]>,
    /// How many are not numbers.
    nan: usize,
}

/// The JSON document.
#[derive(Serialize)]
pub struct Report {
    schema_version: u32,
    asset: String,
    function: String,
    load_ms: f64,
    step_ms: Vec<f64>,
    /// Of the steps after the first; the first step's own where there is no other.
    median_ms: f64,
    /// How much longer each step takes than the one before, by least squares; the first step, which is
    /// longer for other reasons, is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    slope_ms_per_step: Option<f64>,
    /// The most memory the process had at a time, mapped weights that were touched included.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
    /// Of the last step.
    outputs: Vec<Value>,
    /// After the last step.
    states: Vec<Value>,
}

/// The middle one.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Slope of the line through the values; `None` for fewer than three.
fn slope(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let n = values.len() as f64;
    let (x, y) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let points = values.iter().enumerate();
    let (mut above, mut below) = (0.0, 0.0);
    for (i, v) in points {
        let d = i as f64 - x;
        above += d * (v - y);
        below += d * d;
    }
    Some(above / below)
}

impl Value {
    fn new((name, t): &(String, Tensor)) -> Value {
        let (mut range, mut nan): (Option<[Number; 2]>, usize) = (None, 0);
        let (bytes, size) = (t.bytes(), t.dtype().size());
        // A part at a time: a state may be as large as memory, and doubles of it are larger.
        let parts = bytes.chunks(PART * size).map(|part| {
            let values = Tensor::from_bytes(t.dtype(), &[part.len() / size], part);
            values.ok().as_ref().and_then(Values::of)
        });
        // Of complex numbers none is the smallest.
        for values in parts.flatten().filter(|_| t.dtype().part().is_none()) {
            nan += values.reals.iter().filter(|v| v.is_nan()).count();
            if let Some((low, high)) = values.range() {
                let [lowest, highest] = range.unwrap_or([low, high]);
                range = Some([
                    if low.is_below(lowest) { low } else { lowest },
                    if highest.is_below(high) {
                        high
                    } else {
                        highest
                    },
                ]);
            }
        }
        Value {
            name: name.clone(),
            dtype: t.dtype().name(),
            shape: t.shape().to_vec(),
            // JSON has no infinity.
            range: range.filter(|ends| ends.iter().all(|n| n.real().is_finite())),
            nan,
        }
    }

    fn human(&self, kind: &str, out: &mut dyn Write) -> io::Result<()> {
        write!(
            out,
            "  {kind} {}: {} {:?}",
            name(&self.name),
            self.dtype,
            self.shape
        )?;
        if let Some(ends) = self.range {
            let [low, high] = ends.map(|n| match n {
                Number::Real(v) => format!("{v:.6}"),
                whole => number(whole),
            });
            write!(out, ", {low} to {high}")?;
        }
        if self.nan > 0 {
            write!(out, ", {} not a number", self.nan)?;
        }
        writeln!(out)
    }
}

impl Report {
    pub fn new(
        asset: &Path,
        function: &str,
        timing: Timing,
        outputs: &[(String, Tensor)],
        states: &[(String, Tensor)],
    ) -> Report {
        let later = timing.times.get(1..).unwrap_or_default();
        Report {
            schema_version: SCHEMA_VERSION,
            asset: asset.display().to_string(),
            function: function.into(),
            load_ms: timing.load_ms,
            median_ms: median(if later.is_empty() {
                &timing.times
            } else {
                later
            }),
            slope_ms_per_step: slope(later),
            step_ms: timing.times,
            peak_memory_bytes: timing.peak_memory,
            outputs: outputs.iter().map(Value::new).collect(),
            states: states.iter().map(Value::new).collect(),
        }
    }

    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    pub fn human(&self, out: &mut dyn Write) -> io::Result<()> {
        let steps = self.step_ms.len();
        writeln!(
            out,
            "{}: {steps} step{} of {}",
            self.asset,
            if steps == 1 { "" } else { "s" },
            name(&self.function)
        )?;
        self.outputs
            .iter()
            .try_for_each(|v| v.human("output", out))?;
        self.states.iter().try_for_each(|v| v.human("state", out))?;
        write!(out, "loaded in {:.1} ms", self.load_ms)?;
        match self.step_ms.as_slice() {
            [] => {}
            // Memory and caches are cold.
            [only] => write!(out, "; first and only step {only:.2} ms, cold")?,
            [first, second] => write!(out, "; first step {first:.2} ms, second {second:.2} ms")?,
            [first, later @ ..] => write!(
                out,
                "; first step {first:.2} ms, then {:.2} ms a step (median of {})",
                self.median_ms,
                later.len()
            )?,
        }
        if let Some(slope) = self.slope_ms_per_step {
            write!(out, ", {slope:+.4} ms from step to step")?;
        }
        if let Some(peak) = self.peak_memory_bytes {
            write!(out, "; {} of memory", crate::convert::bytes(peak))?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_slopes_are_those_of_the_textbook() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(slope(&[1.0, 3.0, 5.0, 7.0]), Some(2.0));
        assert_eq!(slope(&[1.0, 3.0]), None);
    }

    #[test]
    fn a_median_is_told_of_steps_after_the_first_alone() {
        let told = |times: &[f64]| {
            let timing = Timing {
                load_ms: 1.0,
                times: times.to_vec(),
                peak_memory: None,
            };
            let mut text = Vec::new();
            let report = Report::new(Path::new("m"), "main", timing, &[], &[]);
            report.human(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            text.lines().last().unwrap().to_string()
        };
        assert_eq!(
            told(&[9.0]),
            "loaded in 1.0 ms; first and only step 9.00 ms, cold"
        );
        assert_eq!(
            told(&[9.0, 2.0]),
            "loaded in 1.0 ms; first step 9.00 ms, second 2.00 ms"
        );
        assert_eq!(
            told(&[9.0, 2.0, 3.0]),
            "loaded in 1.0 ms; first step 9.00 ms, then 2.50 ms a step (median of 2)"
        );
        assert_eq!(
            told(&[9.0, 2.0, 3.0, 4.0]),
            "loaded in 1.0 ms; first step 9.00 ms, then 3.00 ms a step (median of 3), +1.0000 ms from step to step"
        );
    }

    /// What people read, and the JSON of the range.
    fn told(t: Tensor) -> (String, String) {
        let value = Value::new(&("y".into(), t));
        let mut text = Vec::new();
        value.human("output", &mut text).unwrap();
        let range = serde_json::to_string(&value.range).unwrap();
        (String::from_utf8(text).unwrap(), range)
    }

    #[test]
    fn a_value_tells_its_range_and_what_is_no_number() {
        let t = Tensor::from_values(&[4], &[1.0f32, f32::NAN, -2.5, 0.0]).unwrap();
        let (text, range) = told(t);
        assert_eq!(
            text,
            "  output y: float32 [4], -2.500000 to 1.000000, 1 not a number\n"
        );
        assert_eq!(range, "[-2.5,1.0]");
        let t = Tensor::from_values(&[2], &[1.0f32, f32::INFINITY]).unwrap();
        let text = "  output y: float32 [2]\n".to_string();
        assert_eq!(told(t), (text, "null".into()));
    }

    #[test]
    fn ends_and_what_is_no_number_are_found_in_every_part() {
        let mut values = vec![1f32; 2 * PART + 2];
        (values[0], values[PART], values[2 * PART + 1]) = (f32::NAN, 7.0, -3.0);
        values[PART + 1] = f32::NAN;
        let shape = [2, PART + 1];
        let t = Tensor::from_values(&shape, &values).unwrap();
        let (text, range) = told(t);
        let ends = "-3.000000 to 7.000000, 2 not a number";
        assert_eq!(text, format!("  output y: float32 {shape:?}, {ends}\n"));
        assert_eq!(range, "[-3.0,7.0]");
        let mut values = vec![i64::MAX - 1; PART + 1];
        values[PART] = i64::MAX;
        let t = Tensor::from_values(&[PART + 1], &values).unwrap();
        assert_eq!(told(t).1, "[9223372036854775806,9223372036854775807]");
    }

    #[test]
    fn a_range_of_64_bit_integers_has_all_digits() {
        let t = Tensor::from_values(&[3], &[(1i64 << 53) + 1, i64::MIN + 1, 7]).unwrap();
        let (text, range) = told(t);
        let ends = "-9223372036854775807 to 9007199254740993";
        assert_eq!(text, format!("  output y: int64 [3], {ends}\n"));
        assert_eq!(range, "[-9223372036854775807,9007199254740993]");
        let t = Tensor::from_values(&[1], &[u64::MAX]).unwrap();
        assert_eq!(told(t).1, "[18446744073709551615,18446744073709551615]");
    }
}
