//! A message that was taken out of a run's inbox and is not consumed yet.
//!
//! Promise: it goes back, in its order, unless the append that consumes it was queued.

use std::ops::Deref;
use std::sync::Arc;

use crate::run::claim::Run;
use crate::sched::mutated;
use crate::store::records::Message;

/// A message that was taken; dropping it puts it back.
#[derive(Debug)]
pub(crate) struct Taken {
    run: Arc<Run>,
    message: Box<Message>,
    queued: bool,
}

impl Run {
    /// Takes the first message of `topic`; waits until there is one.
    pub(crate) async fn message(self: &Arc<Self>, topic: &str) -> Taken {
        self.message_of(&[topic]).await
    }

    /// Takes the first message of one of `topics`; waits until there is one.
    pub(crate) async fn message_of(self: &Arc<Self>, topics: &[&str]) -> Taken {
        loop {
            // Created before the look into the inbox: a message that arrives after the look still wakes this wait.
            let notified = self.notified.notified();
            if let Some(message) = topics.iter().find_map(|topic| self.take_message(topic)) {
                return message;
            }
            notified.await;
        }
    }

    /// Takes the first message of `topic` out of the inbox in memory. In the store it stays unread until an append
    /// consumes it, so that a crash in between does not lose it.
    pub(crate) fn take_message(self: &Arc<Self>, topic: &str) -> Option<Taken> {
        let mut state = self.lock();
        let at = state.inbox.iter().position(|message| message.topic == topic)?;
        let message = Box::new(state.inbox.remove(at)?);
        Some(Taken { run: Arc::clone(self), message, queued: false })
    }

    /// Whether there is a message of `topic` that was not taken.
    pub(crate) fn has_message(&self, topic: &str) -> bool {
        self.lock().inbox.iter().any(|message| message.topic == topic)
    }

    fn put_back(&self, message: Message) {
        let mut state = self.lock();
        let at = state.inbox.partition_point(|known| known.seq < message.seq);
        state.inbox.insert(at, message);
        self.notified.notify_waiters();
        drop(state);
        self.root.wake();
    }
}

impl Taken {
    /// The message's number, for the append that consumes it and is being queued.
    pub(crate) fn queued(mut self) -> u64 {
        self.queued = true;
        self.message.seq
    }
}

impl Deref for Taken {
    type Target = Message;
    fn deref(&self) -> &Message {
        &self.message
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // In a run that appends no more no wait may find it again: one that refuses it would take it for ever.
        if !self.queued && !self.run.is_halted() && !mutated("taken-is-lost") {
            self.run.put_back(Message::clone(&self.message));
        }
    }
}
