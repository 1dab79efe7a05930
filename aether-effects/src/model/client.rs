//! What a model provider must offer, and which provider answers which call.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use aether_core::outcome::Classify;
use futures_util::future::BoxFuture;

use super::chat::{ChatRequest, ChatResponse};
use super::error::ModelError;
use super::holds::{HeldModel, Holds};
use super::price::PriceTable;

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

/// The clients of a program, by the name of the call. Give it to the engine with `.provide(..)`.
///
/// A provider that answers "too many requests" or "overloaded" with a `Retry-After` is not asked before that time by any
/// run that uses these clients: a call to the same model fails at once as [`ModelError::RateLimited`], with what is left of
/// the wait, and is retried when it is over. Nothing is sent for it. Clones share this.
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
    prices: Option<Arc<PriceTable>>,
    holds: Holds,
}

impl Models {
    /// Every call goes to `default`, unless another client is named for it.
    pub fn new(default: impl ModelClient) -> Self {
        Self { default: Arc::new(default), named: HashMap::new(), prices: None, holds: Holds::default() }
    }

    /// Calls named `call` go to `client`.
    #[must_use]
    pub fn with(mut self, call: impl Into<String>, client: impl ModelClient) -> Self {
        self.named.insert(call.into(), Arc::new(client));
        self
    }

    /// Prices by which [`ChatResponse::cost`] is computed when an answer comes; the answer is recorded with it. Another
    /// table counts for answers from then on.
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = Some(Arc::new(prices));
        self
    }

    /// The client for calls named `call`.
    pub fn client(&self, call: &str) -> &Arc<dyn ModelClient> {
        self.named.get(call).unwrap_or(&self.default)
    }

    /// Asks the client for the call, unless its provider asked to wait, and puts the cost on the answer.
    ///
    /// # Errors
    /// That of the client; [`ModelError::RateLimited`] when the provider asked some call to wait, and the time is not over.
    pub async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let model = self.held_model(&request);
        if let Some((left, said)) = self.holds.left(&model) {
            let message = format!("it asked other calls to wait, and this one was not sent; it said: {said}");
            return Err(ModelError::RateLimited { retry_after: Some(left), message });
        }
        let asked = request.model.clone();
        match self.client(&request.call).chat(request).await {
            Ok(mut answer) => {
                if let (None, Some(prices)) = (&answer.cost, &self.prices) {
                    let cost = |model: &str| prices.cost(model, &answer.usage);
                    answer.cost = cost(&answer.model).or_else(|| cost(asked.as_deref()?));
                }
                Ok(answer)
            }
            Err(error) => {
                if let Some(wait) = Classify::retry_after(&error) {
                    self.holds.hold(model, wait, &error.to_string());
                }
                Err(error)
            }
        }
    }

    /// What a hold on `request` is about.
    fn held_model(&self, request: &ChatRequest) -> HeldModel {
        let client = self.named.contains_key(&request.call).then(|| request.call.clone());
        (client, request.model.clone())
    }
}
