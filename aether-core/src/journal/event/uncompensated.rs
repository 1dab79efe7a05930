//! A compensation that did not succeed, as the end of its run names it.

use serde::{Deserialize, Serialize};

use crate::vocabulary::id::CommandId;

/// A step that could not be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncompensated {
    /// The command that stays as it is.
    pub step: CommandId,
    /// The command that should have undone it.
    pub compensation: CommandId,
    /// Nobody knows whether it was undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Why.
    pub message: String,
}

impl std::fmt::Display for Uncompensated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step, compensation, message, .. } = self;
        let how = if self.in_doubt { "is in doubt" } else { "failed" };
        write!(f, "`{step}` was not undone: `{compensation}` {how}: {message}")
    }
}
