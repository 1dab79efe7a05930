//! Callbacks, as a body sees them: it hands its completion to an external system, which reports the outcome later.
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
    "step `{command}` has effect class `{class}`, and only a world-changing step (`tool`, `external`, `http`) can hand its completion to an external system"
)]
pub struct CallbackError {
    /// The step's command.
    pub command: CommandId,
    /// The step's effect class.
    pub class: EffectClass,
}

/// The error with which a body ends when its outcome will be reported by a callback. Return it as it is, or as the source
/// of an error of your own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outcome will be reported by a callback")]
#[non_exhaustive]
pub struct CallbackPending;

/// The right to report the outcome of one attempt, to be passed on to an external system.
///
/// The body sends [`Callback::token`] to that system and ends with [`Callback::pending`]. The run then waits, durably,
/// until `Engine::complete_callback` or `Engine::fail_callback` is called with the token.
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
    /// The token that authorizes a report, see `Engine::complete_callback`: printable ASCII that is safe in a URL. It is
    /// the same each time this attempt's body runs. It cannot be guessed without the run's seed; treat it as a secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How long the run waits for the report. After that the outcome is unknown, and the step's `on_unknown` policy
    /// decides. Without it there is no limit: the step's timeout applies to the body alone.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn enqueue(_: &str) -> Result<()> { Ok(()) }
    /// # async fn render(cx: &mut StepCx) -> Result<String> {
    /// let callback = cx.callback()?.expires(Duration::from_secs(3600));
    /// enqueue(callback.token()).await?;
    /// Err(callback.pending().into())
    /// # }
    /// ```
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Declares that the outcome will be reported. Return the result as the body's error; a body that returns a value
    /// instead has completed the step itself.
    pub fn pending(self) -> CallbackPending {
        self.cx.hand_over(self.limit);
        CallbackPending
    }
}

impl StepCx {
    /// A callback for this attempt; see [`Callback`].
    ///
    /// # Errors
    /// [`CallbackError`] when this step does not change the world.
    pub fn callback(&self) -> Result<Callback, CallbackError> {
        if !self.class().changes_world() {
            return Err(CallbackError { command: self.command_id().clone(), class: self.class() });
        }
        self.take_callback();
        let token = CallbackToken {
            run: self.run_id().clone(),
            command: self.command_id().clone(),
            attempt: self.attempt(),
        };
        Ok(Callback { cx: self.clone(), token: token.signed(self.seed()), limit: None })
    }
}
