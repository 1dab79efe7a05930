//! `.model(client)` on the builder of an engine, and what needs it: an engine does not start without a model where a linked
//! workflow calls one.

use aether_core::deps::Need;
use aether_core::engine::{EffectNeed, EngineBuilder};
use aether_core::private::inventory;

use crate::model::client::{ModelClient, Models};

/// Adds [`model`](EngineModel::model) to the builder of an engine. In `aether::prelude`.
pub trait EngineModel: Sized {
    /// Gives `cx.llm(..)` and `cx.agent(..)` this model. For one model by call name, `.provide(..)` a [`Models`].
    ///
    /// ```
    /// # fn with(builder: aether_core::engine::EngineBuilder) -> aether_core::engine::EngineBuilder {
    /// use aether_effects::llm::{EngineModel as _, OpenAiClient};
    /// builder.model(OpenAiClient::new("https://api.example.com/v1", "the key", "the-model"))
    /// # }
    /// ```
    #[must_use]
    fn model(self, client: impl ModelClient) -> Self;
}

impl EngineModel for EngineBuilder {
    fn model(self, client: impl ModelClient) -> Self {
        self.provide(Models::new(client))
    }
}

inventory::submit! { EffectNeed { effect: "llm", need: Need::provided::<Models>(), remedy: ".model(..)" } }
inventory::submit! { EffectNeed { effect: "agent", need: Need::provided::<Models>(), remedy: ".model(..)" } }
