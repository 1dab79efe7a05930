//! What a model provider must offer, and which provider answers which call.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use aether_core::outcome::Classify;
use futures_util::future::BoxFuture;

use super::chat::{ChatRequest, ChatResponse};
use super::error::ModelError;
use super::price::PriceTable;
use super::usage::Usage;
use crate::holds::Holds;

/// Tokens of an answer that a budget reckons with where the question does not limit them, unless the program says more.
pub(crate) const ASSUMED_OUTPUT: u64 = 4_096;

/// What the summaries of an agent's conversation are called behind its name.
pub(crate) const COMPACT: &str = ".compact";

/// A provider of models. Implement it for a provider of your own, or for a script in tests.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client for models",
    label = "implement `ModelClient` for it, or use `OpenAiClient`"
)]
pub trait ModelClient: Send + Sync + Debug + 'static {
    /// Asks a model once. Retries are the engine's.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>>;

    /// As [`ModelClient::chat`], and tells the text of the answer while it comes: the pieces in their order are
    /// [`ChatResponse::content`]. A client that does not stream tells it as one piece when it is there.
    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<ChatResponse, ModelError>> {
        Box::pin(async move {
            let answer = self.chat(request).await?;
            answer.content.iter().for_each(|text| on_text(text));
            Ok(answer)
        })
    }

    /// The model that is asked where a call names none, if the client knows it: a budget of cost reckons with its price. With
    /// a client that does not say it, it reckons with the highest of the table.
    fn model(&self) -> Option<&str> {
        None
    }
}

/// Takes the pieces of an answer's text.
pub type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

impl<C: ModelClient + ?Sized> ModelClient for Arc<C> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        (**self).chat(request)
    }

    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<ChatResponse, ModelError>> {
        (**self).chat_streamed(request, on_text)
    }

    fn model(&self) -> Option<&str> {
        (**self).model()
    }
}

/// A client by the name of its calls, and the model where the call names one.
type HeldModel = (Option<String>, Option<String>);

/// The clients of a program, by the name of the call. Give it to the engine with `.provide(..)`. Summaries of an agent
/// (`support.compact`) go to the client of that name, or else to the agent's.
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
    assumed_output: u64,
    holds: Holds<HeldModel>,
}

impl Models {
    /// Every call goes to `default`, unless another client is named for it.
    pub fn new(default: impl ModelClient) -> Self {
        let (named, holds) = (HashMap::new(), Holds::default());
        Self { default: Arc::new(default), named, prices: None, assumed_output: ASSUMED_OUTPUT, holds }
    }

    /// Calls named `call` go to `client`.
    #[must_use]
    pub fn with(mut self, call: impl Into<String>, client: impl ModelClient) -> Self {
        self.named.insert(call.into(), Arc::new(client));
        self
    }

    /// The same with another client in the place of each: for crates that script them. What providers asked for is
    /// forgotten.
    #[doc(hidden)]
    #[must_use]
    pub fn replaced<C: ModelClient>(&self, client: impl Fn(&dyn ModelClient) -> C) -> Self {
        let other = |of: &Arc<dyn ModelClient>| -> Arc<dyn ModelClient> { Arc::new(client(&**of)) };
        let named = self.named.iter().map(|(call, of)| (call.clone(), other(of))).collect();
        let (prices, assumed_output) = (self.prices.clone(), self.assumed_output);
        Self { default: other(&self.default), named, prices, assumed_output, holds: Holds::default() }
    }

    /// Prices by which [`ChatResponse::cost`] is computed when an answer comes; the answer is recorded with it. Another
    /// table counts for answers from then on.
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = Some(Arc::new(prices));
        self
    }

    /// How many tokens of an answer a budget reckons with where a question has no `max_tokens`. Default 4,096. An answer
    /// that takes more is counted with what it took.
    #[must_use]
    pub fn assume_output(mut self, tokens: u64) -> Self {
        self.assumed_output = tokens;
        self
    }

    pub(crate) fn assumed_output(&self) -> u64 {
        self.assumed_output
    }

    /// The most that `usage` costs for this question.
    pub(crate) fn highest_cost(
        &self,
        request: &ChatRequest,
        usage: &Usage,
        currency: &str,
    ) -> Result<u64, String> {
        let Some(prices) = &self.prices else { return Err("the program provides no table of prices".into()) };
        if prices.currency() != currency {
            return Err(format!(
                "the budget is in {currency}, and the table of prices in {}",
                prices.currency()
            ));
        }
        let model = request.model.as_deref().or_else(|| self.client(&request.call).model());
        let price = match model {
            Some(model) => prices.price(model).copied(),
            None => prices.highest(),
        };
        let unknown = || match model {
            Some(model) => format!("the table of prices does not have model `{model}`"),
            None => "the table of prices is empty".into(),
        };
        price.map(|price| price.nanos(usage)).ok_or_else(unknown)
    }

    /// Whether the provider asked to wait with such questions.
    pub(crate) fn is_held(&self, request: &ChatRequest) -> bool {
        self.holds.left(&self.held_model(request)).is_some()
    }

    /// The client for calls named `call`.
    pub fn client(&self, call: &str) -> &Arc<dyn ModelClient> {
        self.named(call).map_or(&self.default, |(_, client)| client)
    }

    /// The client that is named for calls named `call`, and its name.
    fn named(&self, call: &str) -> Option<(&String, &Arc<dyn ModelClient>)> {
        let of_agent = || self.named.get_key_value(call.strip_suffix(COMPACT)?);
        self.named.get_key_value(call).or_else(of_agent)
    }

    /// Asks the client for the call, unless its provider asked to wait, and puts the cost on the answer.
    ///
    /// # Errors
    /// That of the client; [`ModelError::RateLimited`] when the provider asked some call to wait, and the time is not over.
    pub async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.ask_with(request, |client, request| client.chat(request)).await
    }

    /// As [`Models::ask`], and tells the text of the answer while it comes: see [`ModelClient::chat_streamed`].
    ///
    /// # Errors
    /// As [`Models::ask`]; pieces of the text may have been told before.
    pub async fn ask_streamed(
        &self,
        request: ChatRequest,
        on_text: OnText<'_>,
    ) -> Result<ChatResponse, ModelError> {
        self.ask_with(request, |client, request| client.chat_streamed(request, on_text)).await
    }

    async fn ask_with<'a>(
        &'a self,
        request: ChatRequest,
        ask: impl FnOnce(&'a dyn ModelClient, ChatRequest) -> BoxFuture<'a, Result<ChatResponse, ModelError>>,
    ) -> Result<ChatResponse, ModelError> {
        let model = self.held_model(&request);
        if let Some((left, said)) = self.holds.left(&model) {
            let message = format!("it asked other calls to wait, and this one was not sent; it said: {said}");
            return Err(ModelError::RateLimited { retry_after: Some(left), message });
        }
        let asked = request.model.clone();
        match ask(&**self.client(&request.call), request).await {
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
        let client = self.named(&request.call).map(|(name, _)| name.clone());
        (client, request.model.clone())
    }
}
