//! Conversion: a worker process runs PyTorch and the converter, this side watches it.
//!
//! The converter can end its process without a Python traceback, hang, or eat all memory, so it never
//! runs in the process that reports. [`Supervisor`] starts a worker, sends it [`Request`]s and turns
//! whatever happens into an [`Outcome`]; [`worker`] is the other side and the only user of PyO3.

mod explain;
mod interpreter;
mod outcome;
mod protocol;
#[cfg(feature = "python")]
pub mod python;
mod supervisor;
#[cfg(feature = "python")]
pub mod worker;

pub use explain::explain;
pub use interpreter::{Interpreter, InterpreterError, Origin, WORKER_ARGUMENT};
pub use outcome::{Failure, FailureKind, Outcome, StageTime, Toolchain};
pub use protocol::{
    Descriptor, DescriptorFunction, DescriptorPort, Frame, PythonError, Request, Step,
};
pub use supervisor::{kill_group, Limits, Progress, Supervisor, SupervisorError};
