//! Callbacks, as a body sees them: it hands its completion to a system outside, which reports the outcome later.
//!
//! Promise: a callback's token is the same whenever the attempt's body runs.

use std::time::Duration;

use crate::step::context::StepCx;
use crate::vocabulary::callback_token::CallbackToken;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;

/// Why a body gets no callback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "step `{command}` has effect class `{class}`, and only a world-changing step (`tool`, `external`, `http`) can hand its completion to somebody outside"
)]
pub struct CallbackError {
    /// The command.
    pub command: CommandId,
    /// Its class.
    pub class: EffectClass,
}

/// A body said that its outcome will be reported from outside. Return it as the body's error, as it is or as the
/// cause of one of your own: which type it has does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outcome will be reported by a callback")]
#[non_exhaustive]
pub struct CallbackPending;

/// The right to report the outcome of one attempt, to be sent to somebody outside.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::step::StepCx;
/// # async fn enqueue(_: &str) -> Result<()> { Ok(()) }
/// async fn render(cx: &mut StepCx) -> Result<String> {
///     let callback = cx.callback()?;
///     enqueue(callback.token()).await?;
///     Err(callback.pending().into())
/// }
/// ```
#[must_use = "the outcome is waited for when the body ends with `.pending()`"]
#[derive(Debug)]
pub struct Callback {
    cx: StepCx,
    token: String,
    limit: Option<Duration>,
}

impl Callback {
    /// What whoever reports the outcome must show, see `Engine::complete_callback`: printable ASCII that is safe in a
    /// URL. It is the same each time this attempt's body runs. Guessing it takes knowing the run's seed.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How long the report is waited for. When that is over nobody knows the outcome, and the step's `on_unknown`
    /// policy decides. Without it there is no limit: the step's timeout is for the body alone.
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Says that the outcome will be reported. Return the answer as the body's error; a body that returns a value all
    /// the same has completed the step itself.
    pub fn pending(self) -> CallbackPending {
        self.cx.hand_over(self.limit);
        CallbackPending
    }
}

impl StepCx {
    /// A callback for this attempt.
    ///
    /// # Errors
    /// [`CallbackError`] when this step does not change the world.
    pub fn callback(&self) -> Result<Callback, CallbackError> {
        if !self.class().changes_world() {
            return Err(CallbackError { command: self.command_id().clone(), class: self.class() });
        }
        let token = CallbackToken {
            run: self.run_id().clone(),
            command: self.command_id().clone(),
            attempt: self.attempt(),
        };
        Ok(Callback { cx: self.clone(), token: token.signed(self.seed()), limit: None })
    }
}
