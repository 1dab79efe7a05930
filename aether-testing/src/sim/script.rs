//! What bodies are replaced by: for each step, answers in order, and then one for every further call.
//!
//! Promise: a script is data; every simulation begins at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aether_core::def::StepOptions;
use aether_core::failure::Failure;
use aether_core::outcome::EffectClass;
use aether_core::payload::{Payload, PayloadError};
use aether_core::private::inventory;
use aether_core::step::{BodyError, BodyResult, RegisteredStep, Step};
use aether_core::step_cx::StepCx;
use futures_util::future::BoxFuture;

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
#[derive(Clone)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) options: Option<StepOptions>,
    pub(super) first: Vec<Behaviour>,
    pub(super) then: Option<Behaviour>,
}

/// Scripts by the unique name of their step.
#[derive(Clone, Default)]
pub(super) struct Scripts(BTreeMap<String, Script>);

impl Scripts {
    pub(super) fn of<S: Step>(&mut self) -> &mut Script {
        let script = || Script {
            name: S::DEF.name.into(),
            options: Some(S::DEF.options),
            first: Vec::new(),
            then: None,
        };
        self.0.entry(S::DEF.path.into()).or_insert_with(script)
    }

    pub(super) fn named(&mut self, name: &str) -> &mut Script {
        let script = || Script { name: name.into(), options: None, first: Vec::new(), then: None };
        self.0.entry(name.into()).or_insert_with(script)
    }

    pub(super) fn get(&self, path: &str) -> Option<&Script> {
        self.0.get(path)
    }

    /// The steps that have a script.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// How the step of this journal name is executed.
    pub(super) fn options_of(&self, name: &str) -> Option<StepOptions> {
        let scripted = self.0.values().find(|script| script.name == name).and_then(|script| script.options);
        scripted.or_else(|| {
            let mut linked = inventory::iter::<RegisteredStep>.into_iter();
            linked.find(|step| step.0.name == name).map(|step| step.0.options)
        })
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
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
        }),
    })
}

/// Encodes what a stub of a named effect returned.
pub(super) fn encode_named(result: Result<serde_json::Value, Failure>) -> BodyResult {
    Ok(match result {
        Ok(value) => Ok(Payload::encode(&value)?),
        Err(failure) => Err(BodyError {
            error: Payload::encode(&failure)?,
            message: failure.to_string(),
            class: failure.class(),
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
        Ok(Err(BodyError { error: unknown(&message)?, message, class }))
    })
}

/// Whether a call of unknown outcome may be sent again under its key.
pub(super) fn may_repeat(scripts: &Scripts, name: &str, class: EffectClass) -> bool {
    let retry = |options: StepOptions| options.on_unknown == aether_core::def::OnUnknown::Retry;
    !class.changes_world() || scripts.options_of(name).is_some_and(retry)
}
