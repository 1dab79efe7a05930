//! Static definitions: what `#[workflow]` and `#[step]` found in the source.
//!
//! Promise: a definition is data known at compile time; printing it runs no user code.

use std::fmt::Write as _;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::vocabulary::contract::Constraints;
use crate::vocabulary::outcome::EffectClass;

/// The state before the first await of a workflow.
pub const START: u16 = u16::MAX - 1;
/// The state after a workflow returned.
pub const END: u16 = u16::MAX;

/// The state machine of one workflow.
#[derive(Debug)]
pub struct WorkflowDef {
    /// Name, which the versions of one workflow share.
    pub name: &'static str,
    /// Module path of the workflow: that of the function, or the one in `#[workflow(of = "..")]`.
    pub module: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// Version of the definition, from `#[workflow(version = N)]`.
    pub version: u32,
    /// Fingerprint of the function's source tokens, 16 hexadecimal digits.
    pub fingerprint: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the function.
    pub line: u32,
    /// Every await of the body, in source order; a state's number is its index.
    pub states: &'static [State],
    /// Every way from one state to the next.
    pub edges: &'static [Edge],
    /// The marks of the body: where its code was changed while runs were open.
    pub changes: &'static [Change],
    /// Checks that were switched off, with reasons.
    pub allows: &'static [Allow],
}

/// A mark of a workflow, `cx.version("use-baz", 1..=2)`: where its code was changed while runs were open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the mark.
    pub name: &'static str,
    /// The lowest version that the code has a path for.
    pub from: u32,
    /// The highest one, which runs get that come to the mark for the first time.
    pub to: u32,
    /// Whether it has a version for each time it is asked for, as `cx.version_each` has, and not one for the run.
    pub each: bool,
    /// Line of its first place in the source.
    pub line: u32,
}

/// One await of a workflow body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What is awaited: the called function or the method on the context, for example `search` or `cx.join`.
    pub name: &'static str,
    /// What shape the awaited expression has.
    pub kind: StateKind,
    /// Line of the await.
    pub line: u32,
    /// Column of the await, from 1.
    pub column: u32,
    /// The number of the branch closure that holds it, counted over the function; `None` in the body itself.
    pub branch: Option<u16>,
}

/// What shape an awaited expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateKind {
    /// A call of a function: a step or a workflow.
    Call,
    /// A method of the context: a recorded effect.
    Effect,
    /// `cx.join(..)`.
    Join,
    /// `cx.race(..)`.
    Race,
    /// `cx.each(..)`.
    Each,
    /// `cx.child::<..>(..)`.
    Child,
    /// Anything else that the gate accepted; in a definition of a newer build also a kind that is not known here.
    #[serde(other)]
    Other,
}

/// A way from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Number of the state left, or [`START`].
    #[serde(serialize_with = "put_place", deserialize_with = "take_place")]
    pub from: u16,
    /// Number of the state entered, or [`END`].
    #[serde(serialize_with = "put_place", deserialize_with = "take_place")]
    pub to: u16,
    /// Why control may go this way.
    pub kind: EdgeKind,
}

/// Why control may go from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EdgeKind {
    /// An arm of `if` or `match`.
    Branch,
    /// Back to a loop's start.
    Loop,
    /// Into a branch closure of `join`, `race` or `each`.
    Fork,
    /// `return` or `?`.
    EarlyReturn,
    /// One after the other; in a definition of a newer build also a kind that is not known here.
    #[serde(other)]
    Sequence,
}

/// A state's number as JSON has it: the start is `"start"`, the end `"end"`.
fn put_place<S: Serializer>(place: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    match *place {
        START => serializer.serialize_str("start"),
        END => serializer.serialize_str("end"),
        state => serializer.serialize_u16(state),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Place {
    State(u16),
    Named(String),
}

fn take_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match Place::deserialize(deserializer)? {
        Place::State(state) => Ok(state),
        Place::Named(name) => match name.as_str() {
            "start" => Ok(START),
            "end" => Ok(END),
            other => Err(D::Error::custom(format_args!("no state is called `{other}`"))),
        },
    }
}

/// A check that was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Which check, for example `clock`.
    pub what: &'static str,
    /// Why.
    pub reason: &'static str,
}

impl WorkflowDef {
    /// Whether control may go from `from` to `to` inside one scope.
    pub fn has_edge(&self, from: u16, to: u16) -> bool {
        self.edges.iter().any(|edge| edge.from == from && edge.to == to)
    }

    /// `file:line` of a state.
    pub fn site(&self, state: u16) -> Option<String> {
        self.source_line(state).map(SourceLine::text)
    }

    /// The source line of a state, of which no text is made yet.
    pub(crate) fn source_line(&self, state: u16) -> Option<SourceLine> {
        let state = self.states.get(usize::from(state))?;
        Some(SourceLine { file: self.file, line: state.line })
    }
}

/// A line of a source file. Its text is made where somebody reads it: most replays of an await do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceLine {
    file: &'static str,
    line: u32,
}

impl SourceLine {
    /// The line as `file:line`.
    pub(crate) fn text(self) -> String {
        let mut text = String::with_capacity(self.file.len() + 11);
        // Writing to a string does not fail.
        let _written = write!(text, "{}:{}", self.file, self.line);
        text
    }
}

/// What `#[step]` declares.
#[derive(Debug)]
pub struct StepDef {
    /// Name as it stands in the journal.
    pub name: &'static str,
    /// Module path and name: unique in a program.
    pub path: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the function.
    pub line: u32,
    /// How it is executed.
    pub options: StepOptions,
    /// Checks that were switched off, with reasons.
    pub allows: &'static [Allow],
}

/// How a step is executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// When another attempt is made, where the step says so; else the engine's policy decides, or [`Retry::of`] the class.
    pub retry: Option<Retry>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// What is done when an attempt's outcome is unknown.
    pub on_unknown: OnUnknown,
    /// A completed call must not be repeated under the same business key.
    pub irreversible: bool,
    /// The receiver spots repeats by the idempotency key.
    pub idempotent: bool,
    /// The step declares a business key.
    pub keyed: bool,
    /// Within what the business key of an irreversible call is unique.
    pub scope: KeyScope,
    /// When a person must agree before the body runs.
    pub approval: Approval,
    /// Kinds of resources that the body may report as changed; each needs a verifier.
    pub changes: &'static [&'static str],
    /// What is done where a changed resource is not as it was left.
    pub confirm: Confirm,
    /// The step declares another step that undoes it.
    pub compensated: bool,
    /// Longest silence between two heartbeats of the body; `None` where none are expected.
    pub heartbeat: Option<Duration>,
    /// Name of the limit on steps that its calls count in.
    pub limit: Option<&'static str>,
}

/// Within what a business key is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyScope {
    /// One run.
    #[default]
    Run,
    /// Every run of the store.
    Store,
}

/// When a person must agree before a body runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// Unless the engine's policy asks for it, never.
    #[default]
    Never,
    /// Always.
    Required,
    /// When the step's own function of the arguments says so.
    ByArguments,
}

/// What is done where a changed resource is not as a step left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// The run fails for good.
    #[default]
    Strict,
    /// It is journaled and logged, and the run goes on.
    Warn,
    /// The run waits for an operator.
    Ask,
}

/// Default time one attempt of a world-changing body may take.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(30);

/// Default time a transaction's body may take. It holds the store's one writer, so that every run waits for it.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(5);

impl StepOptions {
    /// What these options allow one execution, as the journal keeps it.
    pub fn constraints(&self) -> Constraints {
        let millis = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let retry = self.retry();
        Constraints {
            irreversible: self.irreversible,
            timeout_ms: self.timeout.map(millis),
            attempts: (1..u32::MAX).contains(&retry.max_retries).then_some(retry.attempts()),
            patience_ms: retry.patience.filter(|_| retry.max_retries > 0).map(millis),
        }
    }

    /// When another attempt is made: as the step says, else [`Retry::of`] its class.
    pub const fn retry(&self) -> Retry {
        match self.retry {
            Some(retry) => retry,
            None => Retry::of(self.class),
        }
    }

    /// These options with the retries of a call of which a program says while it runs what it is. One that changes nothing has
    /// `retry`, or those of reads. One that is idempotent has `retry`, or [`Retry::REPEATS`], and is made again under its key
    /// where its outcome is unknown, unless the options say otherwise. Any other has none, whatever `retry` says.
    ///
    /// ```
    /// use aether_core::definition::def::{OnUnknown, Retry, StepOptions};
    /// use aether_core::outcome::EffectClass;
    /// let tool = StepOptions::of(EffectClass::Tool);
    /// let idempotent = StepOptions { idempotent: true, ..tool }.retried(None);
    /// assert_eq!((idempotent.retry, idempotent.on_unknown), (Some(Retry::REPEATS), OnUnknown::Retry));
    /// assert_eq!(tool.retried(Some(Retry::times(9))), tool);
    /// ```
    pub fn retried(self, retry: Option<Retry>) -> Self {
        if !self.class.changes_world() {
            return Self { retry, ..self };
        }
        if !self.idempotent {
            return self;
        }
        let on_unknown = match self.on_unknown {
            OnUnknown::Fail => OnUnknown::Retry,
            said => said,
        };
        Self { retry: Some(retry.unwrap_or(Retry::REPEATS)), on_unknown, ..self }
    }

    /// The defaults of `class`.
    pub const fn of(class: EffectClass) -> Self {
        let timeout = match class {
            EffectClass::Transaction => Some(TRANSACTION_TIMEOUT),
            _ if class.changes_world() => Some(TOOL_TIMEOUT),
            _ => None,
        };
        Self {
            class,
            retry: None,
            timeout,
            on_unknown: OnUnknown::Fail,
            irreversible: false,
            idempotent: false,
            keyed: false,
            scope: KeyScope::Run,
            approval: Approval::Never,
            changes: &[],
            confirm: Confirm::Strict,
            compensated: false,
            heartbeat: None,
            limit: None,
        }
    }
}

/// When another attempt is made after a definite failure. What limits come together all hold.
///
/// ```
/// use aether_core::definition::def::Retry;
/// use std::time::Duration;
/// // For ten minutes, whatever the number of attempts.
/// let patient = Retry::within(Duration::from_secs(600));
/// // Five retries, however long they take.
/// let counted = Retry::times(5);
/// // The default of reads, for a whole day.
/// let longer = Retry { patience: Some(Duration::from_secs(24 * 60 * 60)), ..Retry::READ };
/// assert_eq!((counted.attempts(), longer.max_delay), (6, patient.max_delay));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Attempts that may follow the first one: 0 for a single attempt, `u32::MAX` for any number.
    pub max_retries: u32,
    /// For how long attempts are made, their waits included; `None` for any time. Time in which no process runs does not
    /// count, and a restart does not begin it anew. The last attempt is made when this time ends, or later where the other
    /// side asks for a longer wait.
    pub patience: Option<Duration>,
    /// Of the retries, how many may follow failures without a class
    /// ([`FailureClass::Unclassified`](crate::vocabulary::outcome::FailureClass)): nobody said that such a failure passes.
    pub unclassified: u32,
    /// Wait before the second attempt.
    pub delay: Duration,
    /// By how much the wait grows with each attempt.
    pub factor: f64,
    /// Longest wait.
    pub max_delay: Duration,
    /// By how much a wait is shortened at random, as a fraction from 0 to 1.
    pub jitter: f64,
}

/// Shortest wait of a policy that does not count its retries: it must not fill the journal.
const SHORTEST_UNCOUNTED: Duration = Duration::from_millis(100);

impl Retry {
    /// One attempt.
    pub const NONE: Self = Self {
        max_retries: 0,
        patience: None,
        unclassified: 0,
        delay: Duration::ZERO,
        factor: 1.0,
        max_delay: Duration::ZERO,
        jitter: 0.0,
    };
    /// Default of reads and model calls: attempts for an hour, three retries at most after failures without a class. The
    /// waits begin with 200 ms and double up to a minute, each up to a fifth shorter.
    pub const READ: Self = Self { unclassified: 3, ..Self::within(Duration::from_secs(60 * 60)) };

    /// Default of a call that the receiver knows by its key, where it is not a declared step: three retries. Each attempt has a
    /// key of its own, so a long series of them would hide from the receiver that it is one call.
    pub const REPEATS: Self = Self::times(3);

    /// The default of `class`: [`Retry::READ`] for reads and model calls, [`Retry::NONE`] for all others.
    pub const fn of(class: EffectClass) -> Self {
        match class {
            EffectClass::Read | EffectClass::Llm => Self::READ,
            _ => Self::NONE,
        }
    }

    /// Attempts for `patience` after the first one, with the waits of [`Retry::READ`].
    pub const fn within(patience: Duration) -> Self {
        Self { patience: Some(patience), ..Self::times(u32::MAX) }
    }

    /// At most `max_retries` retries, with the waits of [`Retry::READ`].
    pub const fn times(max_retries: u32) -> Self {
        Self {
            max_retries,
            patience: None,
            unclassified: u32::MAX,
            delay: Duration::from_millis(200),
            factor: 2.0,
            max_delay: Duration::from_secs(60),
            jitter: 0.2,
        }
    }

    /// Attempts in all, the first included; `u32::MAX` where they are not counted.
    pub const fn attempts(&self) -> u32 {
        self.max_retries.saturating_add(1)
    }

    /// The wait after `attempt` (from 0) failed; `None` when no attempt is left. It does not look at `patience`.
    pub fn wait_after(&self, attempt: u32) -> Option<Duration> {
        if attempt >= self.max_retries {
            return None;
        }
        let grown = self.delay.as_secs_f64() * self.factor.powi(attempt.min(64) as i32);
        let limit = self.max_delay.max(self.delay).as_secs_f64();
        Some(Duration::try_from_secs_f64(grown.min(limit)).unwrap_or(self.max_delay))
    }

    /// `wait` without the part that is left to `chance` (from 0 to 1).
    pub fn shortened(&self, wait: Duration, chance: f64) -> Duration {
        let part = 1.0 - self.jitter.clamp(0.0, 1.0) * chance.clamp(0.0, 1.0);
        let shorter = Duration::try_from_secs_f64(wait.as_secs_f64() * part).unwrap_or(wait);
        if self.max_retries == u32::MAX { shorter.max(SHORTEST_UNCOUNTED) } else { shorter }
    }
}

/// What is done when nobody knows whether a started body changed the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnknown {
    /// The step fails with the same typed error every time.
    Fail,
    /// The run waits for an operator.
    Ask,
    /// The body runs again under the same idempotency key.
    Retry,
    /// The step's probe looks at the world.
    Probe,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe<T> {
    /// The call happened, with this result.
    Happened(T),
    /// The call did not happen.
    DidNotHappen,
    /// It cannot be told.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let retry = Retry {
            max_retries: 3,
            delay: Duration::from_secs(1),
            factor: 10.0,
            max_delay: Duration::from_secs(30),
            jitter: 0.0,
            ..Retry::NONE
        };
        let waits: Vec<_> = (0..4).map(|attempt| retry.wait_after(attempt)).collect();
        let secs = Duration::from_secs;
        assert_eq!(waits, [Some(secs(1)), Some(secs(10)), Some(secs(30)), None]);
        assert_eq!(Retry::NONE.wait_after(0), None);
    }

    #[test]
    fn constraints_hold_only_what_differs_from_one_unlimited_attempt() {
        let plain = StepOptions::of(EffectClass::Pure);
        assert!(plain.constraints().is_empty());
        let once = StepOptions { retry: Some(Retry { max_retries: 0, ..Retry::READ }), ..plain };
        assert!(once.constraints().is_empty());
        let strict = StepOptions {
            irreversible: true,
            timeout: Some(Duration::from_millis(1_500)),
            retry: Some(Retry::times(1)),
            ..plain
        };
        let constraints = strict.constraints();
        assert!(!constraints.is_empty());
        assert_eq!(
            constraints,
            Constraints { irreversible: true, timeout_ms: Some(1_500), attempts: Some(2), patience_ms: None }
        );
        let patient = StepOptions::of(EffectClass::Read).constraints();
        assert_eq!((patient.attempts, patient.patience_ms), (None, Some(3_600_000)));
    }

    #[test]
    fn the_default_waits_of_a_read_grow_to_a_minute_and_do_not_end_with_a_number() {
        let waits: Vec<_> = [0, 1, 8, 9, 1_000_000].map(|n| Retry::READ.wait_after(n)).into();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(waits, [millis(200), millis(400), millis(51_200), millis(60_000), millis(60_000)]);
    }

    #[test]
    fn a_policy_that_does_not_count_never_waits_for_nothing() {
        let hasty = Retry { delay: Duration::ZERO, jitter: 1.0, ..Retry::within(Duration::from_secs(1)) };
        assert_eq!(hasty.shortened(Duration::ZERO, 1.0), SHORTEST_UNCOUNTED);
        assert_eq!(Retry { jitter: 1.0, ..Retry::times(3) }.shortened(Duration::ZERO, 1.0), Duration::ZERO);
    }
}
