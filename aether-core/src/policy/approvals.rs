//! Which calls need a person's approval, beyond those whose steps declare it.
//!
//! Promise: a rule can require approval and never waive it; a rule that panics requires it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;

/// A call that a policy is asked about.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalCall<'a> {
    /// Name of the step in the journal.
    pub name: &'a str,
    /// Unique name of the step: module path and name, or the effect's name.
    pub path: &'a str,
    /// Effect class of the step.
    pub class: EffectClass,
    /// The arguments as JSON.
    pub args: &'a Payload,
    /// Whether a completed call must not be repeated.
    pub irreversible: bool,
}

type Rule = Arc<dyn Fn(&ApprovalCall<'_>) -> bool + Send + Sync>;

/// Which calls need a person's approval beyond those whose steps declare it. A call needs approval when any rule says so;
/// no rule can waive what a step declares. Pure steps leave no record and never need approval.
///
/// Give it to an engine with `Engine::builder().approvals(..)`. A call that needs approval is recorded, and the run waits
/// until a person decides with `Engine::approve`, `Engine::approve_with` or `Engine::reject`.
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
    /// Only calls whose steps declare it need approval.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every call of the step with this name needs approval.
    pub fn step(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.when(move |call| call.name == name)
    }

    /// Every call of this class needs approval.
    pub fn class(self, class: EffectClass) -> Self {
        self.when(move |call| call.class == class)
    }

    /// Calls for which `rule` returns `true` need approval. A rule that panics counts as `true`.
    ///
    /// ```
    /// use aether_core::policy::Approvals;
    /// #[derive(serde::Deserialize)]
    /// struct Transfer { amount: u64 }
    /// let large = Approvals::new().when(|call| {
    ///     call.name == "transfer" && call.args.decode::<Transfer>().map_or(true, |args| args.amount > 1_000)
    /// });
    /// ```
    pub fn when(mut self, rule: impl Fn(&ApprovalCall<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// How long a person has to decide about a call, also about those whose steps declare it. After that the call ends as
    /// cancelled. Without a limit requests stay open.
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How long a person has to decide about a call; `None` for no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Whether a rule says that `call` needs approval.
    pub(crate) fn ask(&self, call: &ApprovalCall<'_>) -> bool {
        self.rules.iter().any(|rule| or_yes(call.name, || rule(call)))
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("rules", &self.rules.len()).field("limit", &self.limit).finish()
    }
}

/// Asks a rule; a rule that panics requires approval.
pub(crate) fn or_yes(step: &str, needed: impl FnOnce() -> bool) -> bool {
    std::panic::catch_unwind(AssertUnwindSafe(needed)).unwrap_or_else(|_| {
        tracing::warn!(target: "aether::step",
            step,
            "the rule that says whether a call needs approval panicked: the call needs approval"
        );
        true
    })
}
