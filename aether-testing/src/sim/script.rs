//! What bodies are replaced by: for each step, answers in order, and then one for every further call.
//!
//! Promise: a script is data; every simulation begins at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aether_core::failure::Failure;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{BodyError, BodyResult, Step};
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

/// What is planned for one step.
#[derive(Clone, Default)]
pub(super) struct Script {
    pub(super) first: Vec<Behaviour>,
    pub(super) then: Option<Behaviour>,
}

/// What is planned for all bodies.
#[derive(Clone, Default)]
pub(super) struct Scripts {
    by_path: BTreeMap<String, Script>,
    pub(super) http: Vec<HttpScript>,
    pub(super) models: ModelScripts,
    pub(super) recorded: Option<Arc<Played>>,
}

impl Scripts {
    pub(super) fn of<S: Step>(&mut self) -> &mut Script {
        self.named(S::DEF.path)
    }

    /// The script of an effect, or of a step by its unique name.
    pub(super) fn named(&mut self, path: &str) -> &mut Script {
        self.by_path.entry(path.into()).or_default()
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
