//! Recorded values that the code of today cannot read: what they are, where, and what to do about it.
//!
//! Promise: such a value is never an error of the workflow. The run stops, and resumes with code that reads the value. What is
//! said of it shows names of members and kinds of values, and no values: they may be secrets.

use std::fmt;

use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::PayloadError;
use crate::vocabulary::without_values::{outline, without_values};

/// A recorded value that does not decode into the type that the code has for it now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The run that stopped.
    pub run: RunId,
    /// The command whose value it is.
    pub command: CommandId,
    /// What the value is, for example `result`.
    pub what: &'static str,
    /// Where the command stood in the source that recorded the value, as `file:line`, where that is known.
    pub recorded_site: Option<String>,
    /// Where it is now.
    pub site: Option<String>,
    /// What the decoder said, without the values that it names.
    pub error: PayloadError,
}

impl Unreadable {
    /// The recorded value of `command` that the decoder said this of. The sites are those of the recording and of today.
    pub(crate) fn new(
        run: &RunId,
        command: &CommandId,
        what: &'static str,
        (recorded_site, site): (Option<String>, Option<String>),
        error: PayloadError,
    ) -> Self {
        let (run, command, error) = (run.clone(), command.clone(), Self::without_values(error));
        Self { run, command, what, recorded_site, site, error }
    }

    /// Replaces the values in what the decoder said: a text that a user wrote in an error of their own remains.
    pub(crate) fn without_values(error: PayloadError) -> PayloadError {
        match error {
            PayloadError::Decode { ty, reason, start } => {
                PayloadError::Decode { ty, reason: without_values(&reason), start: outline(&start) }
            }
            other => other,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, command, what, recorded_site, site, error } = self;
        write!(f, "run `{run}`: the recorded {what} of `{command}`")?;
        if let Some(site) = site {
            write!(f, " at {site}")?;
        }
        if let Some(recorded) = recorded_site.as_ref().filter(|recorded| Some(*recorded) != site.as_ref()) {
            write!(f, ", recorded at {recorded},")?;
        }
        write!(
            f,
            " is not what the code reads there now: {error}; nothing of the run was lost: let the type read the recorded JSON too, with `#[serde(default)]` or `#[accepts(..)]`, or restore the code that recorded it"
        )
    }
}

impl std::error::Error for Unreadable {}
