//! Questions that may take several commands: to one model after another, and back to a model whose answer cannot be used.
//!
//! Promise: every round is a command in the journal, and there are as many as the call allows; which one follows is decided
//! by recorded answers alone.

use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::failure::{Failure, StepError};
use aether_core::step::Recordable;
use aether_core::workflow::Cx;

use super::call::{CallSettings, Expect, ModelResult, REPAIR, ask_for, check_json, parse};
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse};
use crate::model::error::ModelError;

/// Retries of a model that another one follows, where the call says nothing.
const BEFORE_ANOTHER: Retry = Retry::times(2);

/// The longest wait that a model is granted which another one follows. One that asks for more gives no answer.
const PATIENCE_BEFORE_ANOTHER: Duration = Duration::from_secs(10);

/// Asks one model after the other until one answers.
pub(crate) async fn ask_in_turn<T: Recordable>(
    cx: &mut Cx,
    request: &ChatRequest,
    expect: Expect,
    settings: &CallSettings,
    fallbacks: &[String],
) -> ModelResult<T> {
    let mut asked = request.clone();
    for model in fallbacks {
        let retry = settings.retry.or(Some(BEFORE_ANOTHER));
        let patience = Some(PATIENCE_BEFORE_ANOTHER);
        let settings = CallSettings { retry, patience, ..settings.clone() };
        match ask_for(cx, asked.clone(), expect, settings).await {
            Err(error) if goes_to_another(&error) => asked.model = Some(model.clone()),
            answered => return answered,
        }
    }
    ask_for(cx, asked, expect, settings.clone()).await
}

/// Whether another model may do what this one did not. What people and the engine decided holds for all of them.
fn goes_to_another(error: &StepError<Failure>) -> bool {
    match error {
        StepError::App(_) | StepError::Exhausted(_) | StepError::Panicked(_) => true,
        StepError::TimedOut(failure) => failure.time_limit().is_none_or(|limit| limit.waiting.is_none()),
        _ => false,
    }
}

/// A question for JSON, and how often an answer may be sent back.
pub(super) struct Repair {
    pub(super) request: ChatRequest,
    pub(super) settings: CallSettings,
    pub(super) fallbacks: Vec<String>,
    pub(super) rounds: u32,
}

/// Asks for JSON, and shows a model what is wrong with its answer.
pub(super) async fn ask_repaired<T: Recordable>(cx: &mut Cx, repair: Repair) -> ModelResult<T> {
    let Repair { mut request, settings, fallbacks, rounds } = repair;
    let expect = Expect::Repaired(check_json::<T>);
    let mut left = rounds;
    loop {
        let answer: ChatResponse = ask_in_turn(cx, &request, expect, &settings, &fallbacks).await?;
        match parse(&answer) {
            Ok(value) => return Ok(value),
            Err(error) if left == 0 => return Err(StepError::Exhausted(Failure::from(error))),
            Err(error) => request.messages.extend(sent_back(answer, &error)),
        }
        left -= 1;
    }
}

/// The answer, where there is one, and what to do about it.
pub(crate) fn sent_back(answer: ChatResponse, error: &ModelError) -> Vec<ChatMessage> {
    let wrong = match error {
        ModelError::WrongAnswer { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    let cut_off = if answer.is_cut_off() { " It was cut off: give a shorter one." } else { "" };
    let advice = format!(
        "{REPAIR}{wrong}.{cut_off} Answer again, with nothing but JSON after the schema that was given."
    );
    let said = answer.content.filter(|text| !text.trim().is_empty()).map(ChatMessage::assistant);
    said.into_iter().chain([ChatMessage::user(advice)]).collect()
}
