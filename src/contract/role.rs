//! The three lists of a function.

use serde::{Deserialize, Serialize};

/// Which of a function's three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Read-only values passed per call.
    Input,
    /// Values updated in place.
    State,
    /// Values returned.
    Output,
}

impl Role {
    /// All three, in the order of the contract.
    pub const ALL: [Role; 3] = [Role::Input, Role::State, Role::Output];

    /// The word for one of them; add `s` for several.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::State => "state",
            Role::Output => "output",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
