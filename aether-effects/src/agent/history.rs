//! How a conversation begins: what was said before, and the prompt.
//!
//! Promise: no system message of another conversation is among it; every call has one answer, and every answer its call,
//! as providers demand.

use std::iter::from_fn;

use crate::model::attachment::Attachment;
use crate::model::chat::{ChatMessage, ToolCall};

// The words below stand in recorded questions: a change of them is a change of code for runs that are open.

/// What stands for the answer of a tool that the history does not have.
const NO_ANSWER: &str = "error: it is not known what became of this call";

/// What comes before the prompt, and what goes along with it.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) history: Vec<ChatMessage>,
    pub(super) attachments: Vec<Attachment>,
}

impl Opening {
    /// The messages with which the conversation begins; the last one is the prompt.
    pub(super) fn messages(self, prompt: String) -> Vec<ChatMessage> {
        let mut messages = paired(self.history);
        messages.push(ChatMessage::user_with(prompt, self.attachments));
        messages
    }
}

/// The history without system messages, each call with its answer right behind it.
fn paired(history: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let spoken = history.into_iter().filter(|message| !matches!(message, ChatMessage::System { .. }));
    let (mut spoken, mut paired) = (spoken.peekable(), Vec::new());
    while let Some(message) = spoken.next() {
        let calls = match &message {
            ChatMessage::Assistant { tool_calls, .. } => tool_calls.clone(),
            // Its call was left out by whoever made this history shorter.
            ChatMessage::Tool { .. } => continue,
            _ => Vec::new(),
        };
        paired.push(message);
        let mut answers: Vec<_> = from_fn(|| spoken.next_if(is_answer)).collect();
        paired.extend(calls.into_iter().map(|call| answer_to(call, &mut answers)));
    }
    paired
}

fn is_answer(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::Tool { .. })
}

/// Takes the answer to `call` out of those that follow it. Ids of calls are those of one answer of a model: another one may
/// have the same.
fn answer_to(call: ToolCall, answers: &mut Vec<ChatMessage>) -> ChatMessage {
    let is_its =
        |message: &ChatMessage| matches!(message, ChatMessage::Tool { call_id, .. } if *call_id == call.id);
    match answers.iter().position(is_its) {
        Some(at) => answers.remove(at),
        None => ChatMessage::Tool { call_id: call.id, name: call.name, content: NO_ANSWER.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> ChatMessage {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "look".into(), arguments: "{}".into() };
        ChatMessage::Assistant { content: None, tool_calls: ids.iter().map(call).collect() }
    }

    fn answer(id: &str, content: &str) -> ChatMessage {
        ChatMessage::Tool { call_id: id.into(), name: "look".into(), content: content.into() }
    }

    #[test]
    fn a_whole_history_stays_as_it_is_without_the_words_of_another_agent() {
        let spoken = [
            ChatMessage::user("a"),
            calls(&["1", "2"]),
            answer("1", "x"),
            answer("2", "y"),
            calls(&["1"]),
            answer("1", "z"),
            ChatMessage::assistant("b"),
        ];
        let mut history = spoken.to_vec();
        history.insert(0, ChatMessage::system("s"));
        history.insert(3, ChatMessage::system("s"));
        assert_eq!(paired(history), spoken);
    }

    #[test]
    fn a_call_without_an_answer_gets_one_and_an_answer_without_a_call_is_left_out() {
        let history = vec![answer("0", "of nothing"), calls(&["1", "2"]), answer("2", "y"), answer("3", "z")];
        assert_eq!(paired(history), [calls(&["1", "2"]), answer("1", NO_ANSWER), answer("2", "y")]);
        let history = vec![ChatMessage::user("a"), answer("0", "of nothing"), calls(&["1"])];
        assert_eq!(paired(history), [ChatMessage::user("a"), calls(&["1"]), answer("1", NO_ANSWER)]);
    }
}
