//! A whole program: reading, contract, counts, printing, and reading back what was printed.

#![no_main]

use coreai_audit::asset::{contract_of_bytes, read_bytes, ReadOptions};
use coreai_audit::contract::extract;
use coreai_audit::ir::{compare, positional_axis, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let all = ReadOptions::ALL;
    let Ok(program) = read_bytes(data.to_vec(), all) else {
        // No panic here either.
        let _ = contract_of_bytes(data.to_vec());
        return;
    };
    // What is read of a whole program, and of the ops that states pass through alone.
    assert_eq!(Ok(extract(&program.module)), contract_of_bytes(data.to_vec()));
    program.module.op_counts();
    for graph in &program.module.graphs {
        for arg in graph.args.iter().filter(|a| a.ty.is_handle()) {
            positional_axis(&graph.body, arg.value);
        }
    }
    assert_eq!(compare(&program.module, &program.module), None);
    // Text of this size is read back; larger ones only cost time.
    let printed = program.module.to_string();
    if printed.len() < 1 << 20 {
        if let Ok(back) = text::parse(&printed) {
            assert_eq!(compare(&program.module, &back), None, "{printed}");
        }
    }
});
