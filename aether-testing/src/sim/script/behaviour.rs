//! What happens at one call of a body: an answer, the real body, nothing, or a completion that is reported later.
//!
//! Promise: a behaviour keeps no state, so that one of it can answer any number of calls.

use std::sync::Arc;
use std::time::Duration;

use aether_core::outcome::FailureClass;
use aether_core::payload::Payload;
use aether_core::step::StepCx;
use aether_core::step::{BodyError, BodyResult, Step};
use futures_util::future::BoxFuture;

use aether_core::step::encode_result;

/// Answers one call in the body's place.
pub(crate) type StubFn = Arc<dyn Fn(StepCx, Payload) -> BoxFuture<'static, BodyResult> + Send + Sync>;

/// What happens at one call.
#[derive(Clone)]
pub(crate) enum Behaviour {
    /// The stub answers.
    Stub(StubFn),
    /// The real body runs.
    Real,
    /// No answer ever comes.
    Never,
    /// The body hands its completion over; this is reported so much later.
    HandOver(Duration, Arc<dyn Fn(&Payload) -> BodyResult + Send + Sync>),
}

impl Behaviour {
    /// Answers with a closure; its panic is the body's panic.
    pub(crate) fn stub(answer: impl Fn(StepCx, Payload) -> BodyResult + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::Stub(Arc::new(move |cx, args| {
            let answer = Arc::clone(&answer);
            Box::pin(async move { answer(cx, args) })
        }))
    }

    /// Gives the same answer at every call.
    pub(crate) fn fixed(result: BodyResult) -> Self {
        Self::stub(move |_, _| result.clone())
    }

    /// Answers calls of `S` with a closure over its owned arguments.
    pub(crate) fn typed<S: Step>(
        answer: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        Self::stub(move |_, args| encode_result::<S>(answer(S::decode(&args)?)))
    }

    /// Answers calls of `S` with a future.
    pub(crate) fn typed_async<S: Step>(
        answer: impl Fn(StepCx, S::Args) -> BoxFuture<'static, Result<S::Output, S::Error>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::Stub(Arc::new(move |cx, args| {
            let answer = S::decode(&args).map(|args| answer(cx, args));
            Box::pin(async move { encode_result::<S>(answer?.await) })
        }))
    }

    /// Panics as a body would.
    pub(crate) fn panics(message: String) -> Self {
        Self::stub(move |_, _| panic!("{message}"))
    }

    /// Hands its completion over, and reports `outcome` after `wait`.
    ///
    /// # Panics
    /// When `S` does not change the world, so that it cannot hand its completion over.
    #[track_caller]
    pub(crate) fn hands_over<S: Step>(
        wait: Duration,
        outcome: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        assert_may_be_in_doubt::<S>();
        Self::HandOver(wait, Arc::new(move |args| encode_result::<S>(outcome(S::decode(args)?))))
    }

    /// Does nothing within its timeout, or fails without knowing what happened.
    ///
    /// # Panics
    /// When `S` changes nothing in the world, so that it cannot be in doubt.
    #[track_caller]
    pub(crate) fn in_doubt<S: Step>() -> Self {
        assert_may_be_in_doubt::<S>();
        if S::DEF.options.timeout.is_some() {
            return Self::Never;
        }
        Self::stub(move |_, _| {
            let message = "the stub does not know whether it happened".to_owned();
            let error = Payload::encode(&message)?;
            Ok(Err(BodyError { error, message, class: FailureClass::Unknown, retry_after: None }))
        })
    }

    /// Never comes back within its timeout.
    ///
    /// # Panics
    /// When `S` has no timeout, so that it would be waited for without end.
    #[track_caller]
    pub(crate) fn times_out<S: Step>() -> Self {
        let name = S::DEF.name;
        assert!(
            S::DEF.options.timeout.is_some(),
            "step `{name}` has no timeout: add `timeout = \"30s\"` to its `#[step]`"
        );
        Self::Never
    }
}

#[track_caller]
fn assert_may_be_in_doubt<S: Step>() {
    let class = S::DEF.options.class;
    assert!(class.changes_world(), "step `{}` has class `{class}` and cannot be in doubt", S::DEF.name);
}
