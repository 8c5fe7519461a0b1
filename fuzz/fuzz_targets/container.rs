//! The tables of the bytecode container, without the program in it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = coreai_audit::asset::check_container(data);
});
