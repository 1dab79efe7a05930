//! Why a model gave no usable answer, and what that says about asking again.

use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::outcome::{Classify, FailureClass};

/// Why a model gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The key is missing, wrong, or not allowed to do this.
    #[error("the provider refuses the key (status {status}): {message}")]
    Unauthorized {
        /// HTTP status of the provider's answer.
        status: u16,
        /// What the provider said.
        message: String,
    },
    /// Too many requests, or too many tokens.
    #[error("the provider limits the rate: {message}")]
    RateLimited {
        /// How long it asks to wait.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The provider fails at the moment.
    #[error("the provider is overloaded or failing (status {status}): {message}")]
    Overloaded {
        /// HTTP status of the provider's answer.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The provider does not accept the request: unknown model, too long a prompt, a schema it cannot use.
    #[error("the provider does not accept the request (status {status}): {message}")]
    BadRequest {
        /// HTTP status of the provider's answer.
        status: u16,
        /// What the provider said.
        message: String,
    },
    /// No answer within the timeout.
    #[error("the provider did not answer in time: {message}")]
    Timeout {
        /// Which exchange, and how long.
        message: String,
    },
    /// No connection to the provider, or it broke before the answer was complete.
    #[error("the provider cannot be reached: {message}")]
    Network {
        /// What the transport reported.
        message: String,
    },
    /// The provider's answer is not JSON.
    #[error("the provider's answer is not JSON: {reason}; it starts {start:?}")]
    NotJson {
        /// What the parser said.
        reason: String,
        /// First characters of the answer.
        start: String,
    },
    /// The provider's answer is JSON of another shape.
    #[error("the provider's answer has the wrong shape: {reason}; it starts {start:?}")]
    WrongShape {
        /// What is missing or wrong.
        reason: String,
        /// First characters of the answer.
        start: String,
    },
    /// The provider's answer is over the limit of the client.
    #[error("the provider's answer is too large: {message}")]
    TooLarge {
        /// Which exchange, and the limit.
        message: String,
    },
    /// The model's text is not what the workflow asked for.
    #[error("model `{model}` did not answer with a `{wanted}`: {reason}; its answer starts {start:?}")]
    WrongAnswer {
        /// Name of the model that answered.
        model: String,
        /// What was asked for: a Rust type, or `text`.
        wanted: String,
        /// What is wrong with it.
        reason: String,
        /// First characters of the answer.
        start: String,
    },
    /// A file cannot be sent along.
    #[error("the file `{path}` cannot be sent to the model: {reason}")]
    Attachment {
        /// Path of the file, as the question names it.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A cassette is played back, and the question is not on it. No model was asked.
    #[error("the question is refused: {refusal}")]
    NotRecorded {
        /// The question, and those that are on the cassette.
        refusal: String,
    },
    /// The program is not set up to ask models.
    #[error("{0}")]
    Setup(String),
}

impl ModelError {
    /// How it is to be treated. A model changes nothing, so what passes by itself is retryable. An answer that is not what
    /// was asked for has no class: the next one may be better, but each is paid for, so only a few are asked for.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Unauthorized { .. }
            | Self::BadRequest { .. }
            | Self::TooLarge { .. }
            | Self::Attachment { .. }
            | Self::NotRecorded { .. }
            | Self::Setup(_) => FailureClass::Permanent,
            Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Timeout { .. }
            | Self::Network { .. } => FailureClass::Retryable,
            Self::NotJson { .. } | Self::WrongShape { .. } | Self::WrongAnswer { .. } => {
                FailureClass::Unclassified
            }
        }
    }
}

impl Classify for ModelError {
    fn class(&self) -> FailureClass {
        self.class()
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<ModelError>().map(ErrorHints::of))
}
