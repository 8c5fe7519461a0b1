//! Snapshots and contracts in JSON, as files and as text.

#![no_main]

use coreai_audit::contract::snapshot::Snapshot;
use coreai_audit::contract::{diff, json, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Snapshot::parse(text, "fuzz.snap");
    if let Ok(contract) = parse(text, "fuzz.json") {
        let written = json(&contract);
        assert_eq!(parse(&written, "written.json").as_ref(), Ok(&contract));
        assert!(diff(&contract, &contract).is_empty());
    }
});
