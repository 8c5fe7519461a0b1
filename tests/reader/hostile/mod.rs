//! Files made to hurt: whatever they hold, reading ends soon, with an error or a program, and takes no
//! more memory than a small multiple of the file.

mod build;
mod composed;
mod damaged;
mod memory;

use super::archive;
use coreai_audit::asset::{self, Program, ReadOptions};
use coreai_audit::contract;
use coreai_audit::ir::PrintOptions;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Reads and uses everything there is in a file: program, contract, printed form.
fn use_all(bytes: &[u8]) -> Result<Program, String> {
    let options = ReadOptions::ALL;
    // The quick reading of the contract accepts no less than the reading of everything.
    let quick = asset::contract_of_bytes(bytes.to_vec());
    let program = asset::read_bytes(bytes.to_vec(), options).map_err(|e| e.to_string())?;
    assert_eq!(quick, Ok(contract::extract(&program.module)));
    program.module.op_counts();
    let mut text = String::new();
    let options = PrintOptions {
        elide_above: Some(8),
    };
    program
        .module
        .print(&mut text, options)
        .map_err(|e| e.to_string())?;
    Ok(program)
}

/// Runs on a stack a quarter of a main thread's, which deep recursion would overflow.
fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .expect("a thread");
    thread.join().expect("no panic")
}
