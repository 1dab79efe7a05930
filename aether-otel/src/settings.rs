//! What may be exported, and under which names.
//!
//! Promise: without `capture_content` nothing that a program, a model or a person has said leaves the journal.

use std::fmt;
use std::sync::Arc;

use aether_core::recording::Masking;

use crate::semconv::gen_ai::OTHER_PROVIDER;

/// Names the provider of a model.
pub(crate) type ProviderOf = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// What spans hold.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Whether spans hold what was said.
    pub(crate) content: bool,
    /// What is replaced in what was said.
    pub(crate) masking: Masking,
    pub(crate) provider_of: ProviderOf,
}

impl Default for Settings {
    fn default() -> Self {
        let provider_of = |model: &str| provider_by_name(model).to_owned();
        Self { content: false, masking: Masking::standard(), provider_of: Arc::new(provider_of) }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("content", &self.content).finish_non_exhaustive()
    }
}

/// How names of models begin, and their providers in the words of the conventions.
const PROVIDERS: [(&str, &str); 11] = [
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("command", "cohere"),
    ("grok", "x_ai"),
    ("deepseek", "deepseek"),
    ("llama", "meta"),
];

fn provider_by_name(model: &str) -> &'static str {
    let begins = |(prefix, _): &&(&str, &str)| model.starts_with(prefix);
    PROVIDERS.iter().find(begins).map_or(OTHER_PROVIDER, |(_, provider)| provider)
}
