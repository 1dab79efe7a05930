//! What a run asks people, as requests to a client, and the client's answers.
//!
//! Promise: each request has a key of its own, and one that was refused has another one when it is asked again; an answer is
//! bound to what was shown.

use aether_core::engine::{DecideError, Engine};
use aether_core::payload::Payload;
use aether_core::view::WaitRef;
use aether_core::view::pending::{Pending, Waiting};
use rmcp::model::InputRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input::{InputAnswer, InputQuestion};

/// Whom a decision is recorded of.
pub(crate) const ACTOR: &str = "mcp client";

/// Whether a client is asked about this wait.
pub(crate) fn is_asked(wait: &Pending, approvals: bool) -> bool {
    match wait.waiting {
        Waiting::Question => true,
        Waiting::Approval => approvals,
        _ => false,
    }
}

/// The key of the request: no other wait has it, and neither has this one after an answer was refused.
pub(crate) fn key(wait: &Pending) -> String {
    format!("{}-{}", wait.shown(), wait.refused.len())
}

/// The wait as a request; `None` where the protocol has no words for it.
pub(crate) fn request(wait: &Pending) -> Option<InputRequest> {
    let params = match (forwarded(wait), wait.waiting) {
        // A tool of another server asks: its question is passed on.
        (Some(asked), _) => match asked.url {
            Some(url) => json!({ "mode": "url", "message": message(wait, &asked.message), "url": url }),
            None => {
                let schema = asked.schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
                json!({ "mode": "form", "message": message(wait, &asked.message), "requestedSchema": schema })
            }
        },
        (None, Waiting::Approval) => {
            let schema = json!({
                "type": "object",
                "properties": {
                    "decision": { "type": "string", "enum": ["approve", "reject"] },
                    "reason": { "type": "string", "description": "Why, where it is rejected." },
                },
                "required": ["decision"],
            });
            // What a step is called with; of `cx.approval`, what it was asked with.
            let details = || wait.question.as_ref().and_then(|asked| asked.decode::<Details>().ok()?.details);
            let shown = wait.args.clone().or_else(details);
            let shown = shown.map_or_else(String::new, |shown| format!(" {}", shown.as_str()));
            let text = format!("Is `{}` approved?{shown}", wait.name);
            json!({ "mode": "form", "message": message(wait, &text), "requestedSchema": schema })
        }
        _ => {
            let schema = json!({
                "type": "object",
                "properties": { "answer": { "type": "string", "description": "Text, or JSON." } },
                "required": ["answer"],
            });
            let text = wait.question.as_ref().map_or_else(|| wait.name.clone(), text);
            json!({ "mode": "form", "message": message(wait, &text), "requestedSchema": schema })
        }
    };
    serde_json::from_value(json!({ "method": "elicitation/create", "params": params })).ok()
}

/// What a person is shown about an approval that is no step's.
#[derive(Deserialize)]
struct Details {
    details: Option<Payload>,
}

fn text(question: &Payload) -> String {
    question.decode::<String>().unwrap_or_else(|_| question.as_str().to_owned())
}

/// The text, and why the last answer was not taken.
fn message(wait: &Pending, text: &str) -> String {
    match wait.refused.last() {
        Some((_, why)) => format!("{text}\n(The last answer was not taken: {why})"),
        None => text.to_owned(),
    }
}

fn forwarded(wait: &Pending) -> Option<InputQuestion> {
    wait.question.as_ref()?.decode().ok()
}

/// Gives the run the client's answer. One that decides nothing leaves the wait as it is, and is `false`.
///
/// # Errors
/// [`DecideError`], as `Engine::answer` and `Engine::approve`.
pub(crate) async fn take(engine: &Engine, wait: &Pending, answer: &Value) -> Result<bool, DecideError> {
    let to = || WaitRef::from(wait);
    let said: Option<InputAnswer> = serde_json::from_value(answer.clone()).ok();
    match (wait.waiting, said) {
        (Waiting::Question, Some(said)) if forwarded(wait).is_some() => {
            engine.answer(&wait.run, to(), &said, ACTOR).await?;
        }
        (Waiting::Question, Some(InputAnswer::Accept { content: Some(content) })) => {
            let Some(text) = content.get("answer").and_then(Value::as_str) else { return Ok(false) };
            engine.answer(&wait.run, to(), &read(text, wait), ACTOR).await?;
        }
        (Waiting::Approval, Some(InputAnswer::Accept { content: Some(content) })) => {
            match content.get("decision").and_then(Value::as_str) {
                Some("approve") => engine.approve(&wait.run, to(), ACTOR).await?,
                Some("reject") => {
                    let reason = content.get("reason").and_then(Value::as_str);
                    engine.reject(&wait.run, to(), reason.unwrap_or("rejected by the client"), ACTOR).await?;
                }
                _ => return Ok(false),
            }
        }
        (Waiting::Approval, Some(InputAnswer::Decline)) => {
            engine.reject(&wait.run, to(), "declined by the client", ACTOR).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// An answer that a person typed. What reads as JSON is taken for it, unless that was refused because a text is wanted: the
/// whole answer, and not a member of it.
fn read(text: &str, wait: &Pending) -> Value {
    let plain = || Value::from(text);
    let json: Option<Value> = serde_json::from_str(text).ok();
    let is_refused = wait.refused.last().is_some_and(|(_, why)| why.contains("expected a string"));
    json.filter(|json| !is_refused || json.is_object() || json.is_array()).unwrap_or_else(plain)
}
