//! Which reply of its conversation each question is given, over all processes of a simulation.
//!
//! Promise: a question whose answer was lost in a crash is given the same reply again. A reply follows the one before it in
//! the same conversation, whatever the question still holds of it.

use aether_core::id::{CommandId, RunId};
use aether_effects::llm::{ChatMessage, ChatRequest};

use crate::sim::script::conversation::Reply;

/// The command by which a question is asked, and which attempt at it this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    pub(super) run: RunId,
    pub(super) command: CommandId,
    pub(super) attempt: u32,
}

impl Asking {
    /// The scope in which it is asked.
    fn scope(&self) -> (&RunId, &str) {
        (&self.run, self.command.place().rsplit_once('.').map_or("", |(scope, _)| scope))
    }
}

/// A question, and the replies that it was given.
#[derive(Debug)]
struct Question {
    asking: Asking,
    call: String,
    /// Without system messages: they are those of whoever is at work.
    messages: Vec<ChatMessage>,
    /// The reply to its first attempt.
    first: usize,
    /// The reply that is due next in the conversation.
    next: usize,
    /// Whether its last reply was an error, so that there is no answer yet.
    failed: bool,
}

/// The questions so far.
#[derive(Debug, Default)]
pub(super) struct Conversations(Vec<Question>);

impl Conversations {
    /// The number of the reply to this question, from 0.
    pub(super) fn place(&mut self, asking: &Asking, request: &ChatRequest, replies: &[Reply]) -> usize {
        let messages = spoken(request);
        let is_it = |it: &Question| {
            let (known, asked) = (&it.asking, asking);
            (&known.run, &known.command, &it.messages) == (&asked.run, &asked.command, &messages)
        };
        let known = self.0.iter().position(is_it);
        let first = known.map_or_else(|| self.first(asking, &request.call, &messages), |at| self.0[at].first);
        let is_once = |at: usize| replies.get(at).is_some_and(Reply::is_once);
        let place = (0..asking.attempt).fold(first, |at, _| at + usize::from(is_once(at)));
        let failed = replies.get(place).is_some_and(Reply::fails);
        let next = if failed { place + usize::from(is_once(place)) } else { place + 1 };
        let (asking, call) = (asking.clone(), request.call.clone());
        let question = Question { asking, call, messages, first, next, failed };
        match known {
            Some(at) => self.0[at] = question,
            None => self.0.push(question),
        }
        place
    }

    /// The reply to the first attempt at a question that was not asked before.
    fn first(&self, asking: &Asking, call: &str, messages: &[ChatMessage]) -> usize {
        let of_call = || self.0.iter().filter(|it| it.call == call);
        let here = || of_call().filter(|it| it.asking.scope() == asking.scope());
        let is_shorter = self.was_shortened(asking, call);
        match here().rfind(|it| it.messages == messages) {
            // It is asked of another model.
            Some(same) if same.failed => return same.next,
            // It is asked once more. Only behind a summary, it may be another question in the same words.
            Some(same) if !is_shorter => return same.first,
            _ => {}
        }
        // The newest of those that are equally long.
        let longest = |it: &&Question| it.messages.len();
        let continued = here().filter(|it| continues(messages, it)).max_by_key(longest);
        // By a history, from another scope of the run.
        let is_first = here().next().is_none();
        let elsewhere = || of_call().filter(|it| it.asking.run == asking.run && continues(messages, it));
        let elsewhere = || elsewhere().filter(|_| is_first).max_by_key(longest);
        let shortened = || here().next_back().filter(|_| is_shorter || holds_answers(messages));
        continued.or_else(elsewhere).or_else(shortened).map_or(0, |before| before.next)
    }

    /// Whether a summary was asked for since the last question of this conversation.
    fn was_shortened(&self, asking: &Asking, call: &str) -> bool {
        let here = self.0.iter().rev().filter(|it| it.asking.scope() == asking.scope());
        let mut last = here.filter(|it| it.call.strip_suffix(".compact").unwrap_or(&it.call) == call);
        last.next().is_some_and(|it| it.call != call)
    }
}

fn spoken(request: &ChatRequest) -> Vec<ChatMessage> {
    let spoken = request.messages.iter().filter(|message| !matches!(message, ChatMessage::System { .. }));
    spoken.cloned().collect()
}

/// Whether these messages are those of an earlier question, an answer, and perhaps more.
fn continues(messages: &[ChatMessage], earlier: &Question) -> bool {
    let more = messages.strip_prefix(&*earlier.messages);
    matches!(more, Some([ChatMessage::Assistant { .. }, ..]))
}

fn holds_answers(messages: &[ChatMessage]) -> bool {
    messages.iter().any(|it| matches!(it, ChatMessage::Assistant { .. } | ChatMessage::Tool { .. }))
}
