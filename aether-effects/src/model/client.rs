//! What a model provider must offer, why it may fail, and which provider answers which call.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::outcome::{Classify, FailureClass};
use futures_util::future::BoxFuture;

use super::chat::{ChatRequest, ChatResponse};

/// A provider of models. Implement it for a provider of your own, or for a script in tests.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client for models",
    label = "implement `ModelClient` for it, or use `OpenAiClient`"
)]
pub trait ModelClient: Send + Sync + Debug + 'static {
    /// Asks a model once. Retries are the engine's.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>>;
}

impl<C: ModelClient + ?Sized> ModelClient for Arc<C> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        (**self).chat(request)
    }
}

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
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<ModelError>().map(ErrorHints::of))
}

/// The clients of a program, by the name of the call. Give it to the engine with `.provide(..)`.
///
/// ```no_run
/// use aether_effects::llm::{Models, OpenAiClient};
/// let models = Models::new(OpenAiClient::from_env()?)
///     .with("draft", OpenAiClient::new("http://localhost:11434/v1", "none", "llama3"));
/// # Ok::<(), aether_effects::llm::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Models {
    default: Arc<dyn ModelClient>,
    named: HashMap<String, Arc<dyn ModelClient>>,
}

impl Models {
    /// Every call goes to `default`, unless another client is named for it.
    pub fn new(default: impl ModelClient) -> Self {
        Self { default: Arc::new(default), named: HashMap::new() }
    }

    /// Calls named `call` go to `client`.
    #[must_use]
    pub fn with(mut self, call: impl Into<String>, client: impl ModelClient) -> Self {
        self.named.insert(call.into(), Arc::new(client));
        self
    }

    /// The client for calls named `call`.
    pub fn client(&self, call: &str) -> &Arc<dyn ModelClient> {
        self.named.get(call).unwrap_or(&self.default)
    }
}
