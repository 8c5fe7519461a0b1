//! The documentation says what the program does.

use coreai_audit::contract::{self, ChangeId};

const CONTRACT: &str = include_str!("../docs/contract.md");

#[test]
fn every_kind_of_change_is_in_the_table_with_its_meaning() {
    for id in ChangeId::ALL {
        let row = format!("| `{id}` | {} | ", id.meaning());
        assert!(
            CONTRACT.contains(&row),
            "docs/contract.md lacks the row: {row}"
        );
    }
    let rows = CONTRACT
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("-"))
        .count();
    assert_eq!(rows, ChangeId::ALL.len());
}

#[test]
fn the_example_of_a_contract_is_one_and_laid_out_as_written() {
    let (_, rest) = CONTRACT.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let parsed = contract::parse(example, "docs/contract.md").expect("a contract");
    assert_eq!(contract::json(&parsed), example);
}
