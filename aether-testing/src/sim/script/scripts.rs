//! What bodies are replaced by: for each step, answers to calls with certain arguments, then answers in order, and then
//! one for every further call; and what probes are replaced by.
//!
//! Promise: a script is data; every simulation begins at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use aether_core::failure::Failure;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{BodyError, BodyResult, ProbeResult, Step};
use aether_core::step_cx::StepCx;
use futures_util::future::BoxFuture;

use super::http::HttpScript;
use super::model::ModelScripts;
use super::recorded::Played;

/// Answers one call.
pub(super) type Answer = Arc<dyn Fn(StepCx, Payload) -> BoxFuture<'static, BodyResult> + Send + Sync>;

/// What happens at one call.
#[derive(Clone)]
pub(super) enum Behaviour {
    /// This answers.
    Answer(Answer),
    /// The real body runs.
    Real,
    /// No answer ever comes.
    Never,
    /// The body hands its completion over; this is reported so much later.
    HandOver(Duration, Arc<dyn Fn(&Payload) -> BodyResult + Send + Sync>),
}

impl Behaviour {
    /// Answers with a closure; its panic is the body's panic.
    pub(super) fn answer(answer: impl Fn(StepCx, Payload) -> BodyResult + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::Answer(Arc::new(move |cx, args| {
            let answer = Arc::clone(&answer);
            Box::pin(async move { answer(cx, args) })
        }))
    }

    /// The same answer at every call.
    pub(super) fn fixed(result: BodyResult) -> Self {
        Self::answer(move |_, _| result.clone())
    }
}

/// Answers in order, and then one for every further call.
#[derive(Clone, Default)]
pub(super) struct Answers {
    pub(super) first: Vec<Behaviour>,
    pub(super) then: Option<Behaviour>,
}

impl Answers {
    /// The answer of this number, from 0.
    pub(super) fn get(&self, turn: usize) -> Option<&Behaviour> {
        self.first.get(turn).or(self.then.as_ref())
    }
}

/// Whether a call has the arguments that an answer is for.
pub(super) type Fits = Arc<dyn Fn(&Payload) -> Result<bool, PayloadError> + Send + Sync>;

/// Answers to the calls that fit.
#[derive(Clone)]
pub(super) struct Rule {
    pub(super) fits: Fits,
    pub(super) answers: Answers,
    /// Where the test says so.
    pub(super) at: &'static Location<'static>,
}

/// What is planned for one step.
#[derive(Clone, Default)]
pub(super) struct Script {
    pub(super) rules: Vec<Rule>,
    /// What answers the calls that no rule answers.
    pub(super) rest: Answers,
}

/// What a probe is replaced by.
#[derive(Clone)]
pub(super) enum Look {
    /// This answers.
    Answer(Arc<dyn Fn(&Payload) -> ProbeResult + Send + Sync>),
    /// The real probe looks.
    Real,
}

/// What is planned for all bodies.
#[derive(Clone, Default)]
pub(super) struct Scripts {
    by_path: BTreeMap<String, Script>,
    pub(super) probes: BTreeMap<String, Look>,
    pub(super) http: Vec<HttpScript>,
    pub(super) models: ModelScripts,
    pub(super) recorded: Option<Arc<Played>>,
}

impl Scripts {
    /// What answers the calls of `S` that no rule answers.
    pub(super) fn of<S: Step>(&mut self) -> &mut Answers {
        self.named(S::DEF.path)
    }

    /// The same for an effect, or for a step by its unique name.
    pub(super) fn named(&mut self, path: &str) -> &mut Answers {
        &mut self.script(path).rest
    }

    pub(super) fn script(&mut self, path: &str) -> &mut Script {
        self.by_path.entry(path.into()).or_default()
    }

    /// The probe of a step whose real body runs looks for real, unless it is told otherwise.
    pub(super) fn look_for_real<S: Step>(&mut self) {
        self.probes.entry(S::DEF.path.into()).or_insert(Look::Real);
    }

    pub(super) fn get(&self, path: &str) -> Option<&Script> {
        self.by_path.get(path)
    }

    /// What has a script.
    pub(super) fn names(&self) -> Vec<String> {
        let http = self.http.iter().map(HttpScript::name);
        self.by_path.keys().cloned().chain(http).chain(self.models.names()).collect()
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Encodes what a stub of `S` returned, as the body's own result would be.
pub(super) fn encode<S: Step>(result: &Result<S::Output, S::Error>) -> BodyResult {
    Ok(match result {
        Ok(value) => Ok(Payload::encode(value)?),
        Err(error) => Err(BodyError {
            error: Payload::encode(error)?,
            message: error.to_string(),
            class: S::classify(error),
            retry_after: S::retry_after(error),
        }),
    })
}

/// Encodes what a stub of an effect returned.
pub(super) fn encode_named<T: serde::Serialize>(result: Result<T, Failure>) -> BodyResult {
    Ok(match result {
        Ok(value) => Ok(Payload::encode(&value)?),
        Err(failure) => Err(BodyError {
            error: Payload::encode(&failure)?,
            message: failure.to_string(),
            class: failure.class(),
            retry_after: aether_core::outcome::Classify::retry_after(&failure),
        }),
    })
}

/// Answers calls of `S` with a closure over its owned arguments.
pub(super) fn typed<S: Step>(
    answer: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
) -> Behaviour {
    Behaviour::answer(move |_, args| encode::<S>(&answer(S::decode(&args)?)))
}

/// Answers calls of `S` with a future.
pub(super) fn typed_async<S: Step>(
    answer: impl Fn(StepCx, S::Args) -> BoxFuture<'static, Result<S::Output, S::Error>> + Send + Sync + 'static,
) -> Behaviour {
    Behaviour::Answer(Arc::new(move |cx, args| {
        let answer = S::decode(&args).map(|args| answer(cx, args));
        Box::pin(async move { encode::<S>(&answer?.await) })
    }))
}

/// A body that panics.
pub(super) fn panics(message: String) -> Behaviour {
    Behaviour::answer(move |_, _| panic!("{message}"))
}

/// What a body of unknown outcome does: nothing within its timeout, or saying that it does not know.
pub(super) fn in_doubt<S: Step>() -> Behaviour {
    if S::DEF.options.timeout.is_some() {
        return Behaviour::Never;
    }
    let unknown = |message: &str| -> Result<Payload, PayloadError> { Payload::encode(message) };
    Behaviour::answer(move |_, _| {
        let message = "the stub does not know whether it happened".to_owned();
        let class = aether_core::outcome::FailureClass::Unknown;
        Ok(Err(BodyError { error: unknown(&message)?, message, class, retry_after: None }))
    })
}

/// A body that never comes back within its timeout.
///
/// # Panics
/// When `S` has no timeout, so that it would be waited for without end.
#[track_caller]
pub(super) fn times_out<S: Step>() -> Behaviour {
    let name = S::DEF.name;
    assert!(
        S::DEF.options.timeout.is_some(),
        "step `{name}` has no timeout: add `timeout = \"30s\"` to its `#[step]`"
    );
    Behaviour::Never
}

/// # Panics
/// When `S` changes nothing in the world, so that it cannot be in doubt.
#[track_caller]
pub(super) fn assert_may_be_in_doubt<S: Step>() {
    let class = S::DEF.options.class;
    assert!(class.changes_world(), "step `{}` has class `{class}` and cannot be in doubt", S::DEF.name);
}
