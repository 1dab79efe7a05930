//! The errors that a workflow sees: `Failure`, the recordable error, and `StepError`, why a step call gave no value.
//!
//! Promise: an error is recorded and decoded like any other value, so a replay sees the error that the first run saw.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::vocabulary::budget::OverBudget;
use crate::vocabulary::id::{CommandId, RunId};
pub use crate::vocabulary::known_errors::{ErrorHints, KnownError, KnownReport};
use crate::vocabulary::known_errors::{in_report, known_elsewhere};
use crate::vocabulary::outcome::{Classify, FailureClass};
use crate::vocabulary::payload::Payload;
use crate::vocabulary::waiting::TimeLimit;

/// Result of workflows and steps that use the recordable [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A recordable error: message, source chain and class. Every [`std::error::Error`] converts into it with `?`, and so do
/// `anyhow::Error`, `eyre::Report` and text.
///
/// ```
/// use aether_core::failure::Failure;
/// use aether_core::outcome::FailureClass;
/// fn parse(s: &str) -> Result<u8, Failure> { Ok(s.parse::<u8>()?) }
/// let failure = parse("x").unwrap_err();
/// assert_eq!(failure.message(), "invalid digit found in string");
/// assert_eq!(failure.class(), FailureClass::Unclassified);
/// assert_eq!(Failure::permanent("no such user").class(), FailureClass::Permanent);
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sources: Vec<String>,
    #[serde(default)]
    class: FailureClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unconfirmed: Option<Box<Unconfirmed>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_limit: Option<Box<TimeLimit>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over_budget: Option<Box<OverBudget>>,
    /// For the step whose body returns it, and for nobody behind the journal.
    #[serde(skip)]
    lost: bool,
}

/// A resource that differs from the state in which a step of the run left it. The reason why a resumed run failed for
/// good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// The command that changed the resource last.
    pub command: CommandId,
    /// Kind of the resource, as the step declares it in `changes`.
    pub resource: String,
    /// Id of the resource, as the step reported it.
    pub id: String,
    /// The state in which the step left it.
    pub expected: String,
    /// The state that the verifier found, or why it could not find out.
    pub found: String,
}

impl Failure {
    /// A failure without a class: the step's retry policy decides.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::with_class(FailureClass::Unclassified, message)
    }

    /// A definite failure that another attempt may overcome.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::with_class(FailureClass::Retryable, message)
    }

    /// A definite failure that no further attempt will overcome.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::with_class(FailureClass::Permanent, message)
    }

    /// A failure half-way: the changes made so far must be undone, by the step's compensation.
    ///
    /// ```
    /// use aether_core::failure::{Failure, Result};
    /// fn pay(rows: &[u32]) -> Result<u32> {
    ///     let paid = rows.iter().take_while(|amount| **amount < 100).count();
    ///     if paid < rows.len() {
    ///         return Err(Failure::compensatable(format_args!("{paid} of {} rows were paid", rows.len())));
    ///     }
    ///     Ok(rows.iter().sum())
    /// }
    /// assert_eq!(pay(&[1, 500]).unwrap_err().message(), "1 of 2 rows were paid");
    /// ```
    pub fn compensatable(message: impl fmt::Display) -> Self {
        Self::with_class(FailureClass::Compensatable, message)
    }

    /// It is not known whether the world was changed. A world-changing step that returns it is in doubt, and its
    /// `on_unknown` policy decides.
    pub fn unknown(message: impl fmt::Display) -> Self {
        Self::with_class(FailureClass::Unknown, message)
    }

    /// A failure of `class`.
    pub fn with_class(class: FailureClass, message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            sources: Vec::new(),
            class,
            retry_after_ms: None,
            unconfirmed: None,
            time_limit: None,
            kind: None,
            over_budget: None,
            lost: false,
        }
    }

    /// A permanent failure: the run cannot continue because of this resource.
    pub fn unconfirmed_resource(why: impl fmt::Display, about: Unconfirmed) -> Self {
        Self { unconfirmed: Some(Box::new(about)), ..Self::permanent(why) }
    }

    /// The resource that could not be confirmed, if that is why the run failed.
    pub fn unconfirmed(&self) -> Option<&Unconfirmed> {
        self.unconfirmed.as_deref()
    }

    /// The same failure, because a time limit has passed.
    #[must_use]
    pub fn because_of(mut self, limit: TimeLimit) -> Self {
        self.time_limit = Some(Box::new(limit));
        self
    }

    /// The time limit that has passed, if that is why: what timed out, and after how long.
    ///
    /// ```
    /// use std::time::Duration;
    /// use aether_core::failure::{Failure, StepError};
    /// use aether_core::waiting::{TimeLimit, Waiting};
    /// let limit = TimeLimit::of_wait(Waiting::Signal, "paid", Duration::from_secs(3600));
    /// let error = StepError::<Failure>::TimedOut(Failure::permanent("not paid").because_of(limit));
    /// let limit = error.time_limit().map(|limit| (limit.waiting, limit.limit()));
    /// assert_eq!(limit, Some((Some(Waiting::Signal), Duration::from_secs(3600))));
    /// ```
    pub fn time_limit(&self) -> Option<&TimeLimit> {
        self.time_limit.as_deref()
    }

    /// The same failure with a kind: a name by which code tells it from other failures of the same class. Crates that add
    /// effects give it a prefix of their own, such as `mcp.task-cancelled`.
    ///
    /// ```
    /// use aether_core::failure::Failure;
    /// let failure = Failure::permanent("the task was cancelled").of_kind("mcp.task-cancelled");
    /// assert_eq!(failure.kind(), Some("mcp.task-cancelled"));
    /// ```
    #[must_use]
    pub fn of_kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// The kind of the failure, where it was given one.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The budget that did not allow a call, if that is why; also where the failure was made of a step error with `?`.
    ///
    /// ```
    /// use aether_core::budget::{BudgetKind, OverBudget};
    /// use aether_core::failure::{Failure, Result, StepError};
    /// # let over = OverBudget { budget: "research".into(), kind: BudgetKind::Calls, limit: 9, spent: 9, reserved: 0, needed: Some(1), why: None };
    /// fn research(answer: Result<String, StepError>) -> Result<String> { Ok(answer?) }
    /// let failure = research(Err(StepError::OverBudget(over))).unwrap_err();
    /// assert_eq!(failure.over_budget().map(|over| (&*over.budget, over.limit)), Some(("research", 9)));
    /// ```
    pub fn over_budget(&self) -> Option<&OverBudget> {
        self.over_budget.as_deref()
    }

    /// The same failure with another class, which holds also where an answer was lost.
    ///
    /// ```
    /// use aether_core::failure::Failure;
    /// use aether_core::outcome::FailureClass;
    /// let error: Failure = "x".parse::<u8>().unwrap_err().into();
    /// assert_eq!(error.classified(FailureClass::Permanent).class(), FailureClass::Permanent);
    /// ```
    #[must_use]
    pub fn classified(mut self, class: FailureClass) -> Self {
        (self.class, self.lost) = (class, false);
        self
    }

    /// The same failure with a minimum wait before the next attempt, such as a server's `Retry-After`. In whole
    /// milliseconds. It lengthens the wait of the step's retry policy and never shortens it; the resulting due time is
    /// recorded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use aether_core::failure::Failure;
    /// use aether_core::outcome::Classify as _;
    /// let failure = Failure::retryable("too many requests").not_before(Duration::from_secs(7));
    /// assert_eq!(failure.retry_after(), Some(Duration::from_secs(7)));
    /// ```
    #[must_use]
    pub fn not_before(mut self, wait: Duration) -> Self {
        self.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Puts `context` in front; the previous message becomes the first source.
    ///
    /// ```
    /// use aether_core::failure::Failure;
    /// let failure = Failure::retryable("connection refused").context("send mail");
    /// assert_eq!(failure.to_string(), "send mail: connection refused");
    /// ```
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        let inner = std::mem::replace(&mut self.message, context.to_string());
        self.sources.insert(0, inner);
        self
    }

    /// The message, without its sources.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The messages of its sources, nearest first.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The class, which decides whether the step is tried again.
    pub fn class(&self) -> FailureClass {
        self.class
    }
}

impl Classify for Failure {
    fn class(&self) -> FailureClass {
        self.class
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    fn is_lost(&self) -> bool {
        self.lost
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.sources.iter().try_for_each(|source| write!(f, ": {source}"))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:?})", self.class)
    }
}

/// Any error becomes a `Failure`: one that implements [`std::error::Error`], and what turns into a boxed one, such as
/// `anyhow::Error`, `eyre::Report` and text. A `StepError` and a [`KnownError`] keep their class and minimum wait, and
/// whether an answer was lost, also as the source of another error.
///
/// ```
/// use aether_core::failure::Failure;
/// use aether_core::outcome::FailureClass;
/// let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// let failure = Failure::from(anyhow::Error::new(lost).context("ask the bank"));
/// assert_eq!(failure.to_string(), "ask the bank: connection reset");
/// assert_eq!(failure.class(), FailureClass::Retryable);
/// ```
impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        // Looked for first: as a boxed error, a report hides the type of the error in it, and with it the class.
        match in_report(&error) {
            Some(error) => Self::of(error),
            None => Self::of(&*error.into()),
        }
    }
}

impl Failure {
    /// The failure that records `error`, with its sources.
    fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut sources = Vec::new();
        let (mut known, mut over_budget) = (known(error), over_budget(error));
        let mut next = error.source();
        while let Some(source) = next {
            sources.push(source.to_string());
            known = match known {
                // That an answer was lost is said; what follows for another attempt may be said further inside.
                Some(said) if said.lost && said.class == FailureClass::Unclassified => {
                    Some(ErrorHints { lost: true, ..self::known(source).unwrap_or(said) })
                }
                known => known.or_else(|| self::known(source)),
            };
            over_budget = over_budget.or_else(|| self::over_budget(source));
            next = source.source();
        }
        let ErrorHints { class, retry_after, lost } = known.unwrap_or_default();
        let over_budget = over_budget.map(Box::new);
        let failure = Self { sources, over_budget, lost, ..Self::with_class(class, error) };
        match retry_after {
            Some(wait) => failure.not_before(wait),
            None => failure,
        }
    }
}

/// The budget that did not allow a call, if that is what a step error says.
fn over_budget(error: &(dyn StdError + 'static)) -> Option<OverBudget> {
    error.downcast_ref::<StepError<Failure>>()?.over_budget().cloned()
}

/// The hints for one error, if its type gives any.
fn known(error: &(dyn StdError + 'static)) -> Option<ErrorHints> {
    match error.downcast_ref::<StepError<Failure>>() {
        Some(error) => Some(ErrorHints::of(error)),
        None => known_elsewhere(error),
    }
}

/// Why a step call gave no value.
///
/// Suspension, shutdown and loss of the store are not here: then the workflow is not polled any more.
///
/// ```
/// use aether_core::failure::{Failure, StepError};
/// fn report(result: Result<String, StepError<Failure>>) -> String {
///     match result {
///         Ok(id) => format!("sent as {id}"),
///         Err(error) if error.is_in_doubt() => "may have been sent; ask the provider".to_owned(),
///         Err(StepError::Rejected(why)) => format!("not allowed: {why}"),
///         Err(error) => format!("not sent: {error}"),
///     }
/// }
/// let tried = Err(StepError::Exhausted(Failure::retryable("mailbox busy")));
/// assert_eq!(report(tried), "not sent: no attempt left: mailbox busy");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepError<E = Failure> {
    /// The body returned an error and no retry was due.
    App(E),
    /// The body failed in every attempt its retry policy allowed; this is the last error.
    Exhausted(E),
    /// A wait reached its time limit; or the body took longer than the step's timeout and is known to have changed
    /// nothing. [`StepError::time_limit`] says what timed out, and after how long.
    TimedOut(Failure),
    /// A person rejected the call, or the store refused what a transaction step did.
    Rejected(Failure),
    /// A budget does not have what the call may take: it was not made. Or its time ended while a call was under way that
    /// changes nothing.
    OverBudget(OverBudget),
    /// The call is irreversible, and another call with the same business key was made before. This one was not made.
    Taken(KeyHolder),
    /// The body was started, and it is not known whether it changed the world.
    InDoubt(Failure),
    /// The run, or the child that was waited for, was cancelled. In runs that an older build began, also a wait that
    /// expired.
    Cancelled(Failure),
    /// The body panicked; the failure holds the panic's message.
    Panicked(Failure),
    /// The arguments or the result cannot be recorded: they do not encode, or are over a limit. The failure in it has the class
    /// of the body's error, where it takes the place of one.
    Unrecordable(Failure),
}

/// The call that holds a business key. Only its definite failure frees the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHolder {
    /// Name of the step that was called.
    pub step: String,
    /// The run that made the call.
    pub run: RunId,
    /// The command that made the call.
    pub command: CommandId,
    /// Whether its outcome is not final, so that the call may have had no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
}

impl fmt::Display for KeyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, run, command, in_doubt } = self;
        write!(
            f,
            "irreversible step `{step}` was called before with the same business key, as `{command}` of run `{run}`"
        )?;
        if *in_doubt { f.write_str(", and its outcome is not known yet") } else { Ok(()) }
    }
}

impl<E> StepError<E> {
    /// The body's own error: of [`StepError::App`] and [`StepError::Exhausted`].
    pub fn app(&self) -> Option<&E> {
        match self {
            Self::App(e) | Self::Exhausted(e) => Some(e),
            _ => None,
        }
    }

    /// The time limit that has passed, if that is why there is no value.
    pub fn time_limit(&self) -> Option<&TimeLimit> {
        match self {
            Self::TimedOut(failure) | Self::InDoubt(failure) => failure.time_limit(),
            _ => None,
        }
    }

    /// The budget that did not allow the call, if that is why there is no value.
    fn own_over_budget(&self) -> Option<&OverBudget> {
        match self {
            Self::OverBudget(over) => Some(over),
            _ => None,
        }
    }

    /// Whether the outcome of the step is unknown.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::InDoubt(_))
    }
}

impl StepError<Failure> {
    /// The budget that did not allow a call, if that is why there is no value: this call, or one in the child run or the
    /// body that failed.
    pub fn over_budget(&self) -> Option<&OverBudget> {
        self.own_over_budget().or_else(|| self.app()?.over_budget())
    }
}

impl<E: Classify> Classify for StepError<E> {
    fn class(&self) -> FailureClass {
        match self {
            Self::App(e) => e.class(),
            // To wait once more is for the workflow to decide.
            Self::TimedOut(e) if e.time_limit().is_some_and(|limit| limit.waiting.is_some()) => {
                FailureClass::Permanent
            }
            Self::TimedOut(_) => FailureClass::Retryable,
            Self::InDoubt(_) => FailureClass::Unknown,
            Self::Exhausted(_)
            | Self::Rejected(_)
            | Self::OverBudget(_)
            | Self::Taken(_)
            | Self::Cancelled(_)
            | Self::Panicked(_)
            | Self::Unrecordable(_) => FailureClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::App(e) => e.retry_after(),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(e) => write!(f, "{e}"),
            Self::Exhausted(e) => write!(f, "no attempt left: {e}"),
            Self::TimedOut(e) => write!(f, "timed out: {e}"),
            Self::Rejected(e) => write!(f, "rejected: {e}"),
            Self::OverBudget(over) => write!(f, "{over}"),
            Self::Taken(holder) => write!(f, "rejected: {holder}"),
            Self::InDoubt(e) => write!(f, "in doubt: {e}"),
            Self::Cancelled(e) => write!(f, "cancelled: {e}"),
            Self::Panicked(e) => write!(f, "panicked: {e}"),
            Self::Unrecordable(e) => write!(f, "cannot be recorded: {e}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> StdError for StepError<E> {}

/// Adds context to a failing result. The method has a name of its own, so that a file may import this trait and that of
/// `anyhow` or `eyre`.
///
/// ```
/// use aether_core::failure::{InContext, Result};
/// fn port(text: &str) -> Result<u16> { text.parse::<u16>().in_context("read the port") }
/// assert_eq!(port("x").unwrap_err().to_string(), "read the port: invalid digit found in string");
/// ```
pub trait InContext<T> {
    /// Puts `context` in front of the error's message.
    ///
    /// # Errors
    /// The failure, with its context.
    fn in_context(self, context: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Failure>> InContext<T> for std::result::Result<T, E> {
    fn in_context(self, context: impl fmt::Display) -> Result<T> {
        self.map_err(|e| e.into().context(context))
    }
}

impl StepError<Payload> {
    /// The error as it is recorded.
    pub(crate) fn recorded(&self) -> Payload {
        Payload::encode(self).unwrap_or_else(|_| Payload::null())
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_does_not_have_is_not_recorded() {
        let recorded = serde_json::to_string(&Failure::permanent("no such user")).unwrap();
        assert_eq!(recorded, r#"{"message":"no such user","class":"permanent"}"#);
        assert_eq!(serde_json::from_str::<Failure>(&recorded).unwrap(), Failure::permanent("no such user"));
    }

    #[test]
    fn the_question_mark_keeps_the_class_of_a_step_error() {
        fn call() -> Result<()> {
            Err(StepError::App(Failure::permanent("no")))?
        }
        assert_eq!(call().unwrap_err().class(), FailureClass::Permanent);
    }

    #[test]
    fn a_lost_connection_is_expected_to_work_again_and_a_missing_file_is_not() {
        let class = |kind: std::io::ErrorKind| Failure::from(std::io::Error::from(kind)).class();
        assert_eq!(class(std::io::ErrorKind::ConnectionRefused), FailureClass::Retryable);
        assert_eq!(class(std::io::ErrorKind::NotFound), FailureClass::Unclassified);
    }

    #[test]
    fn an_answer_is_lost_with_any_connection_but_one_that_was_refused() {
        use std::io::{Error, ErrorKind as Kind};
        let told = |kind: Kind| {
            let failure = Failure::from(anyhow::Error::new(Error::from(kind)).context("ask the bank"));
            (failure.class(), failure.is_lost())
        };
        for kind in [
            Kind::ConnectionReset,
            Kind::ConnectionAborted,
            Kind::BrokenPipe,
            Kind::TimedOut,
            Kind::HostUnreachable,
        ] {
            assert_eq!(told(kind), (FailureClass::Retryable, true), "{kind}");
        }
        // No reason to read a file for an hour that is cut short.
        for kind in [Kind::UnexpectedEof, Kind::WriteZero] {
            assert_eq!(told(kind), (FailureClass::Unclassified, true), "{kind}");
        }
        assert_eq!(told(Kind::ConnectionRefused), (FailureClass::Retryable, false));
        assert_eq!(told(Kind::NotFound), (FailureClass::Unclassified, false));
        let lost = Failure::from(Error::from(Kind::ConnectionReset));
        assert!(lost.clone().context("pay").is_lost());
        assert!(!lost.clone().classified(FailureClass::Permanent).is_lost(), "the body knows better");
        let recorded = serde_json::to_string(&lost).unwrap();
        assert_eq!(recorded, r#"{"message":"connection reset","class":"retryable"}"#);
    }

    #[test]
    fn what_is_said_first_of_an_answer_counts_and_the_class_may_be_said_further_inside() {
        #[derive(Debug, thiserror::Error)]
        #[error("{said:?}")]
        struct Told {
            said: (bool, FailureClass),
            source: std::io::Error,
        }
        inventory::submit! {
            KnownError(|error| {
                let (lost, class) = error.downcast_ref::<Told>()?.said;
                Some(ErrorHints { class, lost, retry_after: None })
            })
        }
        let told = |said, kind: std::io::ErrorKind| {
            let failure = Failure::from(Told { said, source: kind.into() });
            (failure.is_lost(), failure.class())
        };
        use std::io::ErrorKind as Kind;
        let (reset, refused) = (Kind::ConnectionReset, Kind::ConnectionRefused);
        assert_eq!(told((false, FailureClass::Permanent), reset), (false, FailureClass::Permanent));
        assert_eq!(told((true, FailureClass::Permanent), refused), (true, FailureClass::Permanent));
        assert_eq!(told((true, FailureClass::Unclassified), refused), (true, FailureClass::Retryable));
        assert_eq!(
            told((true, FailureClass::Unclassified), Kind::NotFound),
            (true, FailureClass::Unclassified)
        );
    }

    #[test]
    fn a_report_keeps_the_class_of_the_error_in_it() {
        let lost = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let report = |error: anyhow::Error| Failure::from(error);
        let bare = report(lost().into());
        assert_eq!((bare.class(), bare.to_string()), (FailureClass::Retryable, "connection reset".into()));
        let deep = report(anyhow::Error::new(lost()).context("read").context("ask"));
        assert_eq!(
            (deep.class(), deep.to_string()),
            (FailureClass::Retryable, "ask: read: connection reset".into())
        );
        let step = report(anyhow::Error::new(StepError::App(Failure::permanent("no"))).context("call"));
        assert_eq!(step.class(), FailureClass::Permanent);
        assert_eq!(report(anyhow::anyhow!("no class")).class(), FailureClass::Unclassified);
    }

    #[test]
    fn a_boxed_error_and_text_become_failures() {
        let boxed: Box<dyn StdError + Send + Sync> =
            Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(Failure::from(boxed).class(), FailureClass::Retryable);
        assert_eq!(Failure::from("no such user").message(), "no such user");
        assert_eq!(Failure::from(format!("no user {}", 7)).message(), "no user 7");
    }

    #[test]
    fn a_failure_shows_its_sources() {
        let failure = Failure::new("connection refused").context("send mail");
        assert_eq!(failure.to_string(), "send mail: connection refused");
    }
}
