//! Steps that are being tried again: which attempt comes next, why, and when.
//!
//! Promise: what is shown is in the journal. That an attempt has begun is not in the journal for every class of steps, so
//! one that is due may be under way.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::view::run::{RunView, StepView};
use crate::view::text::OneLine;
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::id::CommandId;

/// A step that is being tried again. Displays as one line:
/// `0:llm.plan is retrying: attempt 7, last error "..", next at 2026-01-02T03:04:05Z`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrying {
    /// Command id of the step.
    pub step: CommandId,
    /// Number of the attempt that is due or being made, from 1.
    pub attempt: u32,
    /// Why the attempt before it failed.
    pub error: String,
    /// When that attempt failed.
    pub failed_at: Timestamp,
    /// When the attempt is due; absent once it is known to have begun.
    pub next_at: Option<Timestamp>,
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, attempt, error, next_at, .. } = self;
        write!(f, "{step} is retrying: attempt {attempt}, last error \"{}\", ", OneLine(error))?;
        match next_at {
            Some(next) => write!(f, "next at {next}"),
            None => f.write_str("under way"),
        }
    }
}

impl StepView {
    /// Which attempt comes next and why, while the step is being tried again.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for step in &view.steps {
    ///     match step.retrying() {
    ///         Some(retrying) => println!("{retrying}"),
    ///         None => println!("{} is {}", step.command, step.status),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn retrying(&self) -> Option<Retrying> {
        let failure = self.last_failure.as_ref().filter(|_| !self.status.is_terminal())?;
        Some(Retrying {
            step: self.command.clone(),
            // The start of an attempt that is due is not in the journal; see `attempts`.
            attempt: self.attempts.saturating_add(u32::from(self.retry_due.is_some())),
            error: error_text(&failure.error),
            failed_at: failure.at,
            next_at: self.retry_due,
        })
    }
}

impl RunView {
    /// The steps that are being tried again, with the last error, the number of the attempt, and when it is due.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for retrying in view.retrying() {
    ///     println!("{retrying}");
    /// }
    /// # }
    /// ```
    pub fn retrying(&self) -> Vec<Retrying> {
        if self.status.is_terminal() {
            return Vec::new();
        }
        self.steps.iter().filter_map(StepView::retrying).collect()
    }
}
