//! Conversion: a worker process runs PyTorch and the converter, this side watches it.
//!
//! The converter can end its process without a Python traceback, hang, or eat all memory, so it never
//! runs in the process that reports. [`Supervisor`] starts a worker, sends it [`Request`]s and turns
//! whatever happens into an [`Outcome`]; the other side is in `python`.

mod explain;
mod interpreter;
mod outcome;
pub(crate) mod protocol;
mod supervisor;

pub use explain::explain;
#[cfg(feature = "embed")]
pub(crate) use interpreter::EMBEDDED_PYTHON;
pub use interpreter::{package_folder, Interpreter, InterpreterError, Origin, WORKER_ARGUMENT};
pub(crate) use outcome::bytes;
pub use outcome::{Failure, FailureKind, Outcome, StageTime, Toolchain};
pub use protocol::{
    Descriptor, DescriptorFunction, DescriptorPort, Frame, PythonError, Request, Step,
};
pub use supervisor::{kill_group, CurrentWorker, Limits, Progress, Supervisor, SupervisorError};
