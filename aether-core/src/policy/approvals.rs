//! Which calls need a person's consent, beyond those whose steps declare it.
//!
//! Promise: a rule can ask for consent and never waive it; a rule that panics asks for it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;

/// A call that a policy is asked about.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalCall<'a> {
    /// Name of the step as it stands in the journal.
    pub name: &'a str,
    /// Unique name of the step: module path and name, or the effect's name.
    pub path: &'a str,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// The arguments, recorded.
    pub args: &'a Payload,
    /// Whether a completed call must not be repeated.
    pub irreversible: bool,
}

type Rule = Arc<dyn Fn(&ApprovalCall<'_>) -> bool + Send + Sync>;

/// Which calls need a person's consent beyond those whose steps declare it. A call needs it when any rule says so; no
/// rule can take away what a step declares. Pure steps leave no record and are never asked about.
///
/// ```
/// use aether_core::policy::Approvals;
/// use aether_core::outcome::EffectClass;
/// let approvals = Approvals::new()
///     .step("send_mail")
///     .class(EffectClass::External)
///     .when(|call| call.irreversible && call.args.as_str().contains("everybody"))
///     .expires(std::time::Duration::from_secs(24 * 3600));
/// ```
#[derive(Clone, Default)]
pub struct Approvals {
    rules: Vec<Rule>,
    limit: Option<Duration>,
}

impl Approvals {
    /// No call needs consent but those whose steps declare it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every call of the step of this name needs consent.
    pub fn step(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.when(move |call| call.name == name)
    }

    /// Every call of this class needs consent.
    pub fn class(self, class: EffectClass) -> Self {
        self.when(move |call| call.class == class)
    }

    /// Calls for which `rule` says so need consent. A rule that panics counts as a yes.
    pub fn when(mut self, rule: impl Fn(&ApprovalCall<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// How long a person has to decide about a call, those included whose steps declare it. The call is cancelled
    /// then. Without it requests stay open.
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How long a person has to decide about a call.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Whether a rule says that a person must agree to `call`.
    pub(crate) fn ask(&self, call: &ApprovalCall<'_>) -> bool {
        self.rules.iter().any(|rule| or_yes(call.name, || rule(call)))
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("rules", &self.rules.len()).field("limit", &self.limit).finish()
    }
}

/// Who cannot tell whether consent is needed needs it.
pub(crate) fn or_yes(step: &str, needed: impl FnOnce() -> bool) -> bool {
    std::panic::catch_unwind(AssertUnwindSafe(needed)).unwrap_or_else(|_| {
        tracing::warn!(step, "the rule that says whether a person must agree panicked: a person is asked");
        true
    })
}
