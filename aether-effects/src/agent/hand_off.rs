//! A hand-off as a model sees it: a tool.
//!
//! Promise: its name is one that providers take, whatever the agent is called.

use std::sync::LazyLock;

use aether_core::payload::{Payload, PayloadError};
use serde::Deserialize;
use serde_json::{Value, json};

/// How the names of hand-offs begin.
const PREFIX: &str = "hand_off_to_";
/// Longest name of a tool that providers of models take.
const LONGEST_NAME: usize = 64;

/// A hand-off as a tool.
#[derive(Clone)]
pub(super) struct HandOffTool {
    /// The name by which a model calls it.
    pub(super) name: String,
    pub(super) description: String,
    /// To whom it hands over.
    pub(super) to: String,
}

/// What a model may say of a hand-off.
#[derive(Deserialize)]
pub(super) struct HandOffArgs {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let reason = "Why, and what the other agent needs to know beyond the conversation.";
    json!({ "type": "object", "properties": { "reason": { "type": "string", "description": reason } } })
});

impl HandOffTool {
    pub(super) fn new(to: &str, description: &str) -> Self {
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let shown = to.chars().map(|c| if taken(c) { c } else { '_' });
        let name = PREFIX.chars().chain(shown).take(LONGEST_NAME).collect();
        let says =
            format!("Hand the conversation over to `{to}`, who then answers in your place. {description}");
        Self { name, description: says, to: to.to_owned() }
    }

    pub(super) fn schema(&self) -> &Value {
        &SCHEMA
    }

    /// # Errors
    /// [`PayloadError`] where they are no object, or the reason is no text.
    pub(super) fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        args.decode::<HandOffArgs>().map(drop)
    }

    /// What the model is told of the hand-off that counts.
    pub(super) fn told(&self) -> String {
        format!("The conversation is handed over to `{}`.", self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_a_name_that_providers_take() {
        let name = |to: &str| HandOffTool::new(to, "").name;
        assert_eq!(name("billing-2"), "hand_off_to_billing-2");
        assert_eq!(name("the shop.eu"), "hand_off_to_the_shop_eu");
        assert_eq!(name(&"ä".repeat(99)).len(), LONGEST_NAME);
    }
}
