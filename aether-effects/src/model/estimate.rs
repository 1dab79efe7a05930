//! What a question may take at most, before it is sent, and what it took: what budgets reserve and count.
//!
//! Promise: an answer that tells no usage took what was reserved; a question that was not sent took nothing. Tokens of a
//! question are estimated from its length, generously for plain text.

use aether_core::budget::{Spend, Spent};
use aether_core::step::Estimating;

use super::chat::{ChatMessage, ChatRequest, ChatResponse};
use super::client::{ASSUMED_OUTPUT, Models};
use super::error::ModelError;
use super::usage::Usage;

/// Bytes of text that are reckoned as one token: fewer than plain text of the usual scripts has.
const BYTES_OF_A_TOKEN: u64 = 3;
/// Tokens for what frames each message, tool and schema.
const FRAME: u64 = 8;
/// Tokens of an image or a file.
const ATTACHMENT: u64 = 2_000;

/// What one attempt at `request` may take.
///
/// # Errors
/// Why its cost cannot be estimated.
pub(crate) fn estimate(request: &ChatRequest, facts: &Estimating<'_>) -> Result<Spend, String> {
    let models = facts.deps.get::<Models>().ok();
    let assumed = models.as_ref().map_or(ASSUMED_OUTPUT, |models| models.assumed_output());
    let usage = Usage::of(input(request), request.max_tokens.map_or(assumed, u64::from));
    let cost_nanos = match (facts.currency, models) {
        (None, _) => 0,
        (Some(currency), Some(models)) => models.highest_cost(request, &usage, currency)?,
        (Some(_), None) => return Err("the program provides no models".into()),
    };
    Ok(Spend { calls: 1, tokens: usage.total(), cost_nanos })
}

/// Tokens of the question, estimated from its length.
fn input(request: &ChatRequest) -> u64 {
    let json = |value: &serde_json::Value| text(&value.to_string());
    let messages = request.messages.iter().map(tokens);
    let tools = request.tools.iter().map(|tool| json(&tool.schema).saturating_add(text(&tool.description)));
    let schema = request.response_schema.iter().map(json);
    messages.chain(tools).chain(schema).fold(FRAME, u64::saturating_add)
}

/// Tokens of a message, estimated from its length. Agents decide by this whether they make their conversation shorter, so
/// another estimate is a change of code for open runs that do.
pub(crate) fn tokens(message: &ChatMessage) -> u64 {
    match message {
        ChatMessage::System { content } => text(content),
        ChatMessage::User { content, attachments } => {
            text(content).saturating_add(ATTACHMENT.saturating_mul(attachments.len() as u64))
        }
        ChatMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls.iter().map(|call| text(&call.arguments).saturating_add(text(&call.name)));
            calls.fold(content.as_deref().map_or(0, text), u64::saturating_add)
        }
        ChatMessage::Tool { content, .. } => text(content),
    }
}

fn text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_OF_A_TOKEN).saturating_add(FRAME)
}

/// What an answer took.
pub(crate) fn spent(answer: &ChatResponse) -> Spent {
    let tokens = Some(answer.usage.total()).filter(|tokens| *tokens > 0);
    // Without usage the cost is that of no tokens.
    let cost_nanos = answer.cost.as_ref().filter(|_| tokens.is_some()).map(|cost| cost.nanos);
    Spent { calls: Some(1), tokens, cost_nanos }
}

/// What a question without an answer took; `None` where that is not known. `began` says that a part of the answer came.
pub(crate) fn spent_without_answer(error: &ModelError, was_held: bool, began: bool) -> Option<Spent> {
    match error {
        _ if began => None,
        // A gateway that gave up, or does not know what became of it: the provider may have answered.
        ModelError::Overloaded { status: 408 | 504 | 520 | 524, .. } => None,
        ModelError::RateLimited { .. } if was_held => Some(Spent::NOTHING),
        ModelError::Attachment { .. } | ModelError::NotRecorded { .. } | ModelError::Setup(_) => {
            Some(Spent::NOTHING)
        }
        ModelError::RateLimited { .. }
        | ModelError::Overloaded { .. }
        | ModelError::Unauthorized { .. }
        | ModelError::BadRequest { .. } => {
            Some(Spent { calls: Some(1), tokens: Some(0), cost_nanos: Some(0) })
        }
        ModelError::Timeout { .. }
        | ModelError::Network { .. }
        | ModelError::NotJson { .. }
        | ModelError::WrongShape { .. }
        | ModelError::TooLarge { .. }
        | ModelError::WrongAnswer { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_estimated_by_its_length_and_its_limit() {
        let deps = aether_core::deps::Deps::default();
        let facts = Estimating { deps: &deps, currency: None };
        let messages = vec![ChatMessage::user("x".repeat(300))];
        let request = ChatRequest { messages, max_tokens: Some(50), ..ChatRequest::default() };
        assert_eq!(estimate(&request, &facts), Ok(Spend { calls: 1, tokens: 8 + 108 + 50, cost_nanos: 0 }));
        let open = ChatRequest { max_tokens: None, ..request.clone() };
        assert_eq!(estimate(&open, &facts).unwrap().tokens, 116 + ASSUMED_OUTPUT);
        let cost = Estimating { currency: Some("EUR"), ..facts };
        assert!(estimate(&request, &cost).unwrap_err().contains("no models"));
    }

    #[test]
    fn an_answer_without_usage_says_nothing_of_tokens() {
        let silent = ChatResponse::default();
        assert_eq!(spent(&silent), Spent { calls: Some(1), tokens: None, cost_nanos: None });
        let told = ChatResponse { usage: Usage::of(3, 4), ..silent };
        assert_eq!(spent(&told).tokens, Some(7));
        assert_eq!(spent_without_answer(&ModelError::Network { message: String::new() }, false, false), None);
        let busy = ModelError::Overloaded { status: 502, retry_after: None, message: String::new() };
        assert_eq!(spent_without_answer(&busy, false, false).and_then(|spent| spent.tokens), Some(0));
        assert_eq!(spent_without_answer(&busy, false, true), None, "a part of the answer came");
        for status in [408, 504, 524] {
            let gone = ModelError::Overloaded { status, retry_after: None, message: String::new() };
            assert_eq!(spent_without_answer(&gone, false, false), None, "{status} is a gateway's word");
        }
    }
}
