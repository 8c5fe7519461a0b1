//! Printed IR: whatever is read prints to something that reads back equal.

#![no_main]

use coreai_audit::contract::extract;
use coreai_audit::ir::{compare, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(module) = text::parse(source) else { return };
    extract(&module);
    let printed = module.to_string();
    match text::parse(&printed) {
        Ok(back) => assert_eq!(compare(&module, &back), None, "{printed}"),
        Err(error) => panic!("{error}\n{printed}"),
    }
});
