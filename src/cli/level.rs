//! The `--level` flag.

use crate::contract::Level;
use clap::ValueEnum;

/// Which changes count; flatten it into a command's `Args`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LevelArg {
    /// Which changes count
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "binding")]
    level: LevelName,
}

/// [`Level`] as the command line knows it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LevelName {
    /// Every change
    Strict,
    /// What a caller can notice that binds by position or by name, and every source
    Binding,
    /// What makes a call fail, or hands it other data than before; sources do not count
    Runtime,
}

impl LevelName {
    /// The level of that name.
    pub(super) fn level(self) -> Level {
        match self {
            LevelName::Strict => Level::Strict,
            LevelName::Binding => Level::Binding,
            LevelName::Runtime => Level::Runtime,
        }
    }
}

impl LevelArg {
    /// The level asked for.
    pub fn level(self) -> Level {
        self.level.level()
    }
}
