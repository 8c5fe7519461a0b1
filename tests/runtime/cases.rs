//! Recorded calls: a model, what went in, and what two references gave.

use std::path::{Path, PathBuf};

use coreai_audit::runtime::{DType, Model, Tensor};
use half::{bf16, f16};
use serde::Deserialize;

#[derive(Deserialize)]
struct Value {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    at: usize,
    len: usize,
}

#[derive(Deserialize)]
struct Call {
    error: bool,
    #[serde(rename = "in")]
    inputs: Vec<Value>,
    /// Empty where the states are those of the call before.
    state_in: Vec<Value>,
    out: Vec<Value>,
    state_out: Vec<Value>,
    torch_out: Vec<Value>,
    torch_state: Vec<Value>,
}

#[derive(Deserialize)]
struct Case {
    function: String,
    rtol: f64,
    atol: f64,
    calls: Vec<Call>,
}

/// How far apart two tensors may be.
#[derive(Clone, Copy)]
pub struct Tolerance {
    pub rtol: f64,
    pub atol: f64,
}

/// The largest differences seen, by reference.
#[derive(Debug, Default)]
pub struct Worst {
    pub interpreter: f64,
    pub torch: f64,
}

struct Files {
    model: PathBuf,
    case: Case,
    data: Vec<u8>,
}

impl Files {
    fn tensor(&self, v: &Value) -> Tensor {
        let dtype = DType::from_name(&v.dtype).unwrap_or_else(|| panic!("dtype {}", v.dtype));
        let bytes = &self.data[v.at..v.at + v.len];
        Tensor::from_bytes(dtype, &v.shape, bytes).expect("data that fits")
    }

    fn tensors(&self, values: &[Value]) -> Vec<(String, Tensor)> {
        let each = values.iter();
        each.map(|v| (v.name.clone(), self.tensor(v))).collect()
    }
}

/// The values as doubles; two of them for a complex number.
pub fn doubles(t: &Tensor) -> Vec<f64> {
    let bytes = t.bytes();
    let size = t.dtype().size();
    let part = t.dtype().part();
    let (dtype, size) = part.map_or((t.dtype(), size), |p| (p, p.size()));
    let word = |c: &[u8]| {
        let mut w = [0u8; 8];
        w[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(w)
    };
    bytes
        .chunks_exact(size)
        .map(|c| {
            let w = word(c);
            match dtype {
                DType::F64 => f64::from_bits(w),
                DType::F32 => f64::from(f32::from_bits(w as u32)),
                DType::F16 => f16::from_bits(w as u16).to_f64(),
                DType::BF16 => bf16::from_bits(w as u16).to_f64(),
                DType::I8 => f64::from(w as u8 as i8),
                DType::I16 => f64::from(w as u16 as i16),
                DType::I32 => f64::from(w as u32 as i32),
                DType::I64 => w as i64 as f64,
                _ => w as f64,
            }
        })
        .collect()
}

/// The largest difference, or the first one beyond the tolerance.
fn compare(ours: &Tensor, theirs: &Tensor, tolerance: Tolerance) -> Result<f64, String> {
    if ours.shape() != theirs.shape() {
        return Err(format!(
            "shape {:?}, expected {:?}",
            ours.shape(),
            theirs.shape()
        ));
    }
    let mut worst = 0f64;
    for (i, (a, b)) in doubles(ours).into_iter().zip(doubles(theirs)).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan());
        let difference = if same { 0.0 } else { (a - b).abs() };
        if difference.is_nan() || difference > tolerance.atol + tolerance.rtol * b.abs() {
            return Err(format!("element {i} is {a}, expected {b}"));
        }
        worst = worst.max(difference);
    }
    Ok(worst)
}

/// Compares with both references; one of them has to agree.
fn agrees(
    what: &str,
    ours: &Tensor,
    references: [Option<Tensor>; 2],
    tolerance: impl Fn(&str) -> Tolerance,
    worst: &mut Worst,
) -> Result<(), String> {
    let [interpreter, torch] =
        references.map(|r| r.map(|r| compare(ours, &r, tolerance(ours.dtype().name()))));
    if let Some(Ok(d)) = &interpreter {
        worst.interpreter = worst.interpreter.max(*d);
    }
    if let Some(Ok(d)) = &torch {
        worst.torch = worst.torch.max(*d);
    }
    match (interpreter, torch) {
        (Some(Ok(_)), _) | (_, Some(Ok(_))) => Ok(()),
        (Some(Err(a)), Some(Err(b))) => Err(format!("{what}: interpreter: {a}; torch: {b}")),
        (Some(Err(e)), None) | (None, Some(Err(e))) => Err(format!("{what}: {e}")),
        (None, None) => Err(format!("{what}: nothing to compare with")),
    }
}

/// The case's model: in its directory, or beside it under the case's name.
fn model(dir: &Path) -> PathBuf {
    let inside = dir.join("model.aimodel");
    if inside.exists() {
        return inside;
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{name}.aimodel"))
}

/// Runs every call of the case in a directory; says what is the first difference.
pub fn run(dir: &Path, tolerance: Option<fn(&str, &str) -> Tolerance>) -> Result<Worst, String> {
    let read = |name: &str| std::fs::read(dir.join(name)).map_err(|e| format!("{name}: {e}"));
    let case: Case = serde_json::from_slice(&read("case.json")?).map_err(|e| e.to_string())?;
    let files = Files {
        model: model(dir),
        data: read("io.bin")?,
        case,
    };
    let (rtol, atol) = (files.case.rtol, files.case.atol);
    let name = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let tolerance = |dtype: &str| tolerance.map_or(Tolerance { rtol, atol }, |t| t(&name, dtype));
    let model = Model::load(&files.model).map_err(|e| e.to_string())?;
    let function = model
        .function(&files.case.function)
        .map_err(|e| e.to_string())?;
    let mut worst = Worst::default();
    let mut states: Vec<(String, Tensor)> = Vec::new();
    for (i, call) in files.case.calls.iter().enumerate() {
        let inputs = files.tensors(&call.inputs);
        let given = files.tensors(&call.state_in);
        // The recorder gives each call's states; ours are carried over where its were.
        let carried = i > 0
            && (given.is_empty() || {
                let before = files.tensors(&files.case.calls[i - 1].state_out);
                let mut pairs = given.iter().map(|(n, t)| {
                    before
                        .iter()
                        .any(|(m, b)| n == m && t.bytes() == b.bytes() && t.shape() == b.shape())
                });
                pairs.all(|same| same)
            });
        if !carried {
            states = given;
        }
        let result = {
            let inputs: Vec<(&str, &Tensor)> =
                inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
            let mut states: Vec<(&str, &mut Tensor)> =
                states.iter_mut().map(|(n, t)| (n.as_str(), t)).collect();
            function.run(&inputs, &mut states, &mut [])
        };
        let outputs = match (result, call.error) {
            (Err(_), true) => continue,
            (Ok(_), true) => return Err(format!("call {i} has to fail")),
            (Err(e), false) => return Err(format!("call {i}: {e}")),
            (Ok(outputs), false) => outputs,
        };
        let find = |list: &[Value], name: &str| {
            list.iter()
                .find(|v| v.name == name)
                .map(|v| files.tensor(v))
        };
        for (name, ours) in &outputs {
            let references = [find(&call.out, name), find(&call.torch_out, name)];
            let what = format!("call {i}: output {name}");
            agrees(&what, ours, references, tolerance, &mut worst)?;
        }
        let absent = |v: &&Value| outputs.iter().all(|o| o.0 != v.name);
        if let Some(v) = call.out.iter().find(absent) {
            return Err(format!("call {i}: output {} is missing", v.name));
        }
        for (name, ours) in &states {
            let references = [find(&call.state_out, name), find(&call.torch_state, name)];
            let what = format!("call {i}: state {name}");
            agrees(&what, ours, references, tolerance, &mut worst)?;
        }
    }
    Ok(worst)
}

/// The cases below a directory, sorted.
pub fn below(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("a directory of cases")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.join("case.json").is_file())
        .collect();
    found.sort();
    found
}
