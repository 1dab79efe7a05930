//! How a reply names the wait that it is for: by command, by name, or by the wait that was shown.
//!
//! Promise: a reply that is tied to what was shown reaches that wait or none.

use std::fmt;

use crate::view::pending::Pending;
use crate::vocabulary::id::CommandId;

/// Names an open wait of a run: `&wait.command`, the name `"refund"`, or `&wait` itself, as it was listed.
///
/// A name stays the same when the code around the wait changes; it must be unique among the waits of its kind that are
/// open in the run. A [`Pending`] is tied to what it showed: the reply is refused when the run waits for something else
/// by then, also under the same name.
///
/// ```
/// use aether_core::id::CommandId;
/// use aether_core::view::WaitRef;
/// let by_command = WaitRef::from(&CommandId::new("3", "refund"));
/// assert_eq!(by_command.to_string(), "3:refund");
/// assert_eq!(WaitRef::from("refund").to_string(), "refund");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRef {
    pub(crate) named: Named,
    pub(crate) shown: Option<String>,
}

/// What a [`WaitRef`] goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Command(CommandId),
    /// A name, or the text of a command.
    Text(String),
}

impl WaitRef {
    /// Ties the reply to the wait that was shown; `shown` is its [`Pending::shown`]. The reply is refused with
    /// `DecideError::Changed` when another one is open under this name or command.
    #[must_use]
    pub fn shown(mut self, shown: impl Into<String>) -> Self {
        self.shown = Some(shown.into());
        self
    }
}

impl fmt::Display for WaitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named {
            Named::Command(command) => fmt::Display::fmt(command, f),
            Named::Text(text) => f.write_str(text),
        }
    }
}

impl From<CommandId> for WaitRef {
    fn from(command: CommandId) -> Self {
        Self { named: Named::Command(command), shown: None }
    }
}

impl From<&CommandId> for WaitRef {
    fn from(command: &CommandId) -> Self {
        command.clone().into()
    }
}

impl From<String> for WaitRef {
    fn from(name: String) -> Self {
        Self { named: Named::Text(name), shown: None }
    }
}

impl From<&String> for WaitRef {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl From<&str> for WaitRef {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<&Pending> for WaitRef {
    fn from(wait: &Pending) -> Self {
        Self::from(&wait.command).shown(wait.shown())
    }
}

impl From<&Self> for WaitRef {
    fn from(wait: &Self) -> Self {
        wait.clone()
    }
}
