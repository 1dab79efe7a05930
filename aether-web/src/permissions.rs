//! Who looks at a console, and what may be done there.
//!
//! Promise: nothing is allowed that was not named.

use std::ops::BitOr;

/// What may be done in a console, beside looking. A console allows nothing by default.
///
/// ```
/// use aether_web::Actions;
/// let allowed = Actions::DECIDE | Actions::SIGNAL;
/// assert!(allowed.contains(Actions::DECIDE));
/// assert!(!allowed.contains(Actions::FORK));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Actions(u8);

impl Actions {
    /// Looking alone.
    pub const NONE: Self = Self(0);
    /// Approving, rejecting, answering, and saying what became of a call of unknown outcome.
    pub const DECIDE: Self = Self(1);
    /// Sending signals.
    pub const SIGNAL: Self = Self(2);
    /// Cancelling and terminating runs.
    pub const END: Self = Self(4);
    /// Forking and retrying runs.
    pub const FORK: Self = Self(8);
    /// All of them.
    pub const ALL: Self = Self(15);

    /// Whether all of `others` are among these.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Actions {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// How much of a run is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// What an agent did, without idempotency keys, actors, settings and system prompts.
    #[default]
    People,
    /// Everything that is recorded, and recordings to download.
    Audit,
}

/// Somebody who opens a console, as the program's own authentication names them.
///
/// ```
/// use aether_web::{Actions, Role, User};
/// let ann = User::new("ann@example.com").role(Role::Audit).only(Actions::DECIDE);
/// assert_eq!(ann.name(), "ann@example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    role: Role,
    actions: Actions,
}

impl User {
    /// A person of this name, which is recorded as the actor of what they do. In the role [`Role::People`], with all
    /// actions that the console allows.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: Role::People, actions: Actions::ALL }
    }

    /// What they see.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Allows them these actions and no others; what the console itself does not allow stays forbidden.
    #[must_use]
    pub fn only(mut self, actions: Actions) -> Self {
        self.actions = actions;
        self
    }

    /// Their name, as it is recorded.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether everything that is recorded is shown to them.
    pub(crate) fn audits(&self) -> bool {
        self.role == Role::Audit
    }

    /// Whether they may do all of `actions`.
    pub(crate) fn may(&self, actions: Actions) -> bool {
        self.actions.contains(actions)
    }
}
