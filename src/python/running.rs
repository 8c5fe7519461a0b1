//! Running assets from Python. The typed side, with its arrays, is `coreai_audit/runtime.py`.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::reading::{with_causes, AuditError};
use crate::runtime::{DType, Function, Model, Port, Tensor};

create_exception!(
    coreai_audit,
    RunError,
    AuditError,
    "A call that cannot be made; the message names the function and the value or op."
);

/// An asset ready to run.
#[pyclass(name = "Model", frozen)]
pub(super) struct RunModel(Model);

/// name, dtype, extents (`None` where dynamic).
type PortTuple = (String, &'static str, Vec<Option<u64>>);
/// name, dtype, shape, bytes.
type Given = (String, String, Vec<usize>, PyBuffer<u8>);
/// name, dtype, shape, bytes of a result.
type Returned<'py> = (String, &'static str, Vec<usize>, Bound<'py, PyBytes>);

#[pymethods]
impl RunModel {
    /// Reads and prepares the asset at `path`; large products run on `threads` threads.
    #[new]
    fn load(py: Python<'_>, path: PathBuf, threads: usize) -> PyResult<RunModel> {
        py.detach(|| Model::load(&path).and_then(|m| m.with_threads(threads)))
            .map(RunModel)
            .map_err(|e| AuditError::new_err(with_causes(&e)))
    }

    /// The functions, in file order.
    fn function_names(&self) -> Vec<String> {
        self.0
            .function_names()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Inputs, states and outputs of a function, in descriptor order.
    fn ports(&self, function: &str) -> PyResult<[Vec<PortTuple>; 3]> {
        let function = self.function(function)?;
        Ok([function.inputs(), function.states(), function.outputs()].map(tuples))
    }

    /// One call. States are updated in the memory that is given for them. `views` are the shapes that
    /// outputs must have; where one has another, the states stay as they are.
    fn run<'py>(
        &self,
        py: Python<'py>,
        function: &str,
        inputs: Vec<Given>,
        states: Vec<Given>,
        views: Vec<(String, Vec<usize>)>,
    ) -> PyResult<Vec<Returned<'py>>> {
        let function = self.function(function)?;
        let inputs = inputs
            .into_iter()
            .map(|(name, dtype, shape, buffer)| {
                let bytes = buffer.to_vec(py)?;
                let tensor = dtype_of(&dtype)
                    .and_then(|d| Tensor::from_bytes(d, &shape, &bytes).map_err(|e| e.to_string()))
                    .map_err(|e| RunError::new_err(format!("input {name}: {e}")))?;
                Ok((name, tensor))
            })
            .collect::<PyResult<Vec<_>>>()?;
        for (i, (name, .., memory)) in states.iter().enumerate() {
            for (other, .., theirs) in &states[..i] {
                if overlap(memory, theirs) {
                    return Err(RunError::new_err(format!(
                        "function {}: states {other} and {name} share memory; each needs an array of its own",
                        function.name()
                    )));
                }
            }
        }
        let lent = states
            .iter()
            .map(|(name, dtype, shape, buffer)| {
                let tensor = dtype_of(dtype)
                    .and_then(|d| lend(d, shape, buffer))
                    .map_err(|e| RunError::new_err(format!("state {name}: {e}")))?;
                Ok((name.as_str(), tensor))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let (outputs, elsewhere) = py.detach(|| call(&function, &inputs, lent, &views))?;
        for ((name, .., buffer), values) in states.iter().zip(elsewhere) {
            if let Some(values) = values {
                buffer
                    .copy_from_slice(py, &values)
                    .map_err(|e| RunError::new_err(format!("state {name}: {e}")))?;
            }
        }
        Ok(outputs
            .into_iter()
            .map(|(name, dtype, shape, bytes)| {
                (name, dtype.name(), shape, PyBytes::new(py, &bytes))
            })
            .collect())
    }
}

impl RunModel {
    fn function(&self, name: &str) -> PyResult<Function> {
        self.0
            .function(name)
            .map_err(|e| RunError::new_err(with_causes(&e)))
    }
}

fn tuples(ports: &[Port]) -> Vec<PortTuple> {
    ports
        .iter()
        .map(|p| (p.name.clone(), p.dtype.name(), p.shape.clone()))
        .collect()
}

fn dtype_of(name: &str) -> Result<DType, String> {
    DType::from_name(name).ok_or_else(|| format!("no element type {name}"))
}

fn range(buffer: &PyBuffer<u8>) -> (usize, usize) {
    let start = buffer.buf_ptr() as usize;
    (start, start + buffer.len_bytes())
}

fn overlap(a: &PyBuffer<u8>, b: &PyBuffer<u8>) -> bool {
    let ((a0, a1), (b0, b1)) = (range(a), range(b));
    a0 < b1 && b0 < a1
}

/// A tensor over a Python array.
fn lend(dtype: DType, shape: &[usize], buffer: &PyBuffer<u8>) -> Result<Tensor, String> {
    if buffer.readonly() {
        return Err("the array is read-only".into());
    }
    if !buffer.is_c_contiguous() {
        return Err("the array is not contiguous".into());
    }
    let memory: &mut [u8] = match std::ptr::NonNull::new(buffer.buf_ptr().cast::<u8>()) {
        // SAFETY: the buffer is writable, contiguous and held for the whole call, so the exporter keeps
        // its memory where it is; no other state overlaps it (checked before), inputs are copies, and
        // Python code is told not to touch an array while a call runs on it.
        Some(start) => unsafe {
            std::slice::from_raw_parts_mut(start.as_ptr(), buffer.len_bytes())
        },
        None => &mut [],
    };
    // SAFETY: as above; `call` gives up every tensor that shares the memory before the call returns.
    unsafe { Tensor::over_memory(dtype, shape, memory) }.map_err(|e| e.to_string())
}

/// A result: name, dtype, shape, bytes of its own.
type Owned = (String, DType, Vec<usize>, Vec<u8>);

/// Bytes of the states that were computed elsewhere.
type Elsewhere = Vec<Option<Vec<u8>>>;

/// Runs the function and gives up every tensor over the memory that was lent. Returns the outputs and,
/// for each state that the program computed anew elsewhere, its bytes.
fn call(
    function: &Function,
    inputs: &[(String, Tensor)],
    mut states: Vec<(&str, Tensor)>,
    views: &[(String, Vec<usize>)],
) -> PyResult<(Vec<Owned>, Elsewhere)> {
    let lent: Vec<*const u8> = states.iter().map(|(_, t)| t.address()).collect();
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let mut borrowed: Vec<(&str, &mut Tensor)> = states.iter_mut().map(|(n, t)| (*n, t)).collect();
    let shapes: Vec<(&str, &[usize])> = views
        .iter()
        .map(|(n, s)| (n.as_str(), s.as_slice()))
        .collect();
    let outputs = function
        .run_expecting(&given, &mut borrowed, &shapes)
        .map_err(|e| RunError::new_err(with_causes(&e)))?;
    // Copies before anything is written back: a result may be a view of the memory of some state.
    let outputs = outputs
        .into_iter()
        .map(|(name, t)| (name, t.dtype(), t.shape().to_vec(), t.bytes().into_owned()))
        .collect();
    let elsewhere = states
        .iter()
        .zip(lent)
        .map(|((_, t), lent)| (t.start() != lent).then(|| t.bytes().into_owned()))
        .collect();
    Ok((outputs, elsewhere))
}
