//! What calls reserve of budgets, as events hold it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::budget::{Budget, Spend};

/// What a call or a child run reserved, as its intent records it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// What it may take at most.
    #[serde(flatten)]
    pub amount: Spend,
    /// The scopes whose budgets it counts in.
    #[serde(rename = "in", default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Budgets that begin with it, or that have other limits than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<OpenedBudget>,
}

/// A budget as it is recorded when the first call in its scope is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedBudget {
    /// Its scope.
    pub scope: String,
    /// Its limits.
    pub budget: Budget,
    /// When it began.
    pub since: Timestamp,
}

/// What is carried along when a run continues as new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedSpend {
    /// What earlier generations spent, open reservations included.
    pub spent: Spend,
    /// When the run's first call was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
