//! Execution of assets on the CPU, with the calling conventions of Core AI.
//!
//! [`Model::load`] reads an asset and prepares its program; [`Function::run`] executes one of its
//! functions: inputs are read, states are updated in the caller's memory, outputs are returned or
//! written into the caller's views.
//!
//! Inside, a program is planned once (`plan`: kernels, constants, last uses) and executed op after op
//! (`exec`). Primitives have kernels in `ops`, one file per family; an op without one runs by the
//! definition stored in the asset, a composite by its private graph. Weights stay in the mapped file; those
//! of the next product are read `ahead` while one thread computes what lies before it.

mod ahead;
mod buffer;
mod constants;
mod dtype;
mod error;
mod exec;
pub mod files;
mod function;
pub mod generate;
mod model;
mod ops;
mod plan;
mod recycle;
mod rewrite;
mod tensor;

pub use dtype::{Class, DType};
pub use error::{LoadError, PortKind, RunError, UnsupportedOp};
pub use function::Function;
pub use model::{Model, Port};
pub use tensor::{Element, Tensor, TensorError};
