//! A change, and how much it matters to whom.

use crate::contract::Role;
use serde::{Deserialize, Serialize};

/// One difference between two contracts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The kind of change.
    pub id: ChangeId,
    /// What it means for consumers.
    pub severity: Impact,
    /// The function (entry point) it is in; the new name where that changed too.
    pub function: String,
    /// Inputs, states or outputs; `None` for changes of a function as a whole.
    pub role: Option<Role>,
    /// The list the old positions are in, where that is another one: the change is of an input that
    /// became a state, or of a state that became an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_role: Option<Role>,
    /// The name of the port or state (the new one where there is one); `None` where several are meant.
    pub subject: Option<String>,
    /// Positions in the old contract's list.
    pub old_positions: Vec<usize>,
    /// Positions in the new contract's list.
    pub new_positions: Vec<usize>,
    /// The old value: a name, dtype, shape, access, source, or an order of names.
    pub old: Option<String>,
    /// The new value.
    pub new: Option<String>,
    /// What happened, in the contract's terms.
    pub message: String,
    /// What a consumer sees that binds by position.
    pub by_position: String,
    /// What a consumer sees that binds by name.
    pub by_name: String,
}

impl Change {
    /// Whether the change counts for someone who consumes at this level.
    pub fn counts_at(&self, level: Level) -> bool {
        let source = matches!(
            self.id,
            ChangeId::SourceChanged | ChangeId::SourceDtypeChanged
        );
        match level {
            Level::Strict => true,
            Level::Binding => self.severity == Impact::Breaking || source,
            Level::Runtime => self.severity == Impact::Breaking && !source,
        }
    }
}

/// What a change means for code that was written against the old contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impact {
    /// Some consumer fails, or silently gets something else.
    Breaking,
    /// Every consumer that worked still works.
    Compatible,
    /// No consumer can notice; it explains other changes, or limits what could be compared.
    Note,
}

impl Impact {
    /// The name used in JSON and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Impact::Breaking => "breaking",
            Impact::Compatible => "compatible",
            Impact::Note => "note",
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How closely two contracts have to agree, chosen by who consumes the asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Every change counts.
    Strict,
    /// What a positional or by-name caller can notice counts, and every change of a source.
    #[default]
    Binding,
    /// What makes a call fail, or hands it other data than before, counts: `binding` without the
    /// sources, for consumers that zero their states and never look into them.
    Runtime,
}

impl Level {
    /// The name used on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Strict => "strict",
            Level::Binding => "binding",
            Level::Runtime => "runtime",
        }
    }
}

/// Declares the kinds of change with id and meaning in one place.
macro_rules! change_ids {
    ($($(#[doc = $doc:literal])+ $variant:ident = $id:literal,)+) => {
        /// The kinds of change; the names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ChangeId {
            $($(#[doc = $doc])+ #[serde(rename = $id)] $variant,)+
        }

        impl ChangeId {
            /// Every kind there is.
            pub const ALL: &'static [ChangeId] = &[$(ChangeId::$variant),+];

            /// The stable kebab-case name.
            pub fn as_str(self) -> &'static str {
                match self { $(ChangeId::$variant => $id),+ }
            }

            /// What it means, in a phrase.
            pub fn meaning(self) -> &'static str {
                match self { $(ChangeId::$variant => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

change_ids! {
    /// an entry point is new
    FunctionAdded = "function-added",
    /// an entry point is gone
    FunctionRemoved = "function-removed",
    /// an entry point has another name
    FunctionRenamed = "function-renamed",
    /// the entry points stand in another order in the file
    FunctionsReordered = "functions-reordered",
    /// exported with `strict` on one side and without on the other, which decides the order of states
    ExportModeChanged = "export-mode-changed",
    /// the export mode is recorded on one side only
    ExportModeOnOneSide = "export-mode-on-one-side",
    /// an input is new
    InputAdded = "input-added",
    /// an input is gone
    InputRemoved = "input-removed",
    /// an input has another name
    InputRenamed = "input-renamed",
    /// inputs changed places
    InputsReordered = "inputs-reordered",
    /// a state is new
    StateAdded = "state-added",
    /// a state is gone
    StateRemoved = "state-removed",
    /// a state has another name
    StateRenamed = "state-renamed",
    /// states changed places
    StatesReordered = "states-reordered",
    /// an output is new
    OutputAdded = "output-added",
    /// an output is gone
    OutputRemoved = "output-removed",
    /// an output has another name
    OutputRenamed = "output-renamed",
    /// outputs changed places
    OutputsReordered = "outputs-reordered",
    /// an argument that was an input is now a state
    InputBecameState = "input-became-state",
    /// an argument that was a state is now an input
    StateBecameInput = "state-became-input",
    /// another element type
    DtypeChanged = "dtype-changed",
    /// another number of dimensions
    RankChanged = "rank-changed",
    /// another static extent
    ExtentChanged = "extent-changed",
    /// a static dimension is now dynamic
    BecameDynamic = "became-dynamic",
    /// a dynamic dimension is now static
    BecameStatic = "became-static",
    /// the function reads or writes a state where it did not, or no longer does
    AccessChanged = "access-changed",
    /// another buffer or argument stands behind the same name
    SourceChanged = "source-changed",
    /// the tensor in torch has another dtype
    SourceDtypeChanged = "source-dtype-changed",
    /// the same tensor of the module has other names
    SourceAliasChanged = "source-alias-changed",
    /// the source is recorded on one side only, so it cannot be compared
    SourceOnOneSide = "source-on-one-side",
}

impl std::fmt::Display for ChangeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl ChangeId {
    pub(super) fn added(role: Role) -> Self {
        match role {
            Role::Input => ChangeId::InputAdded,
            Role::State => ChangeId::StateAdded,
            Role::Output => ChangeId::OutputAdded,
        }
    }

    pub(super) fn removed(role: Role) -> Self {
        match role {
            Role::Input => ChangeId::InputRemoved,
            Role::State => ChangeId::StateRemoved,
            Role::Output => ChangeId::OutputRemoved,
        }
    }

    pub(super) fn renamed(role: Role) -> Self {
        match role {
            Role::Input => ChangeId::InputRenamed,
            Role::State => ChangeId::StateRenamed,
            Role::Output => ChangeId::OutputRenamed,
        }
    }

    pub(super) fn reordered(role: Role) -> Self {
        match role {
            Role::Input => ChangeId::InputsReordered,
            Role::State => ChangeId::StatesReordered,
            Role::Output => ChangeId::OutputsReordered,
        }
    }
}
