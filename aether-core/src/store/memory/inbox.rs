//! The inbox of one run in memory.
//!
//! Promise: reading after a number costs what is read; counting costs nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::store::records::{Message, Unread};
use crate::vocabulary::id::Position;

/// What was sent to one run.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    messages: BTreeMap<u64, Message>,
    /// Ids of consumed messages too, with the position that consumed them, so that a repeated send is a duplicate also
    /// after its run has ended.
    ids: BTreeMap<String, Option<Position>>,
    unread: Unread,
}

impl Inbox {
    pub(super) fn knows(&self, id: &str) -> bool {
        self.ids.contains_key(id)
    }

    pub(super) fn push(&mut self, message: Message) {
        self.ids.insert(message.id.clone(), None);
        self.unread = [self.unread, Unread::of(&message)].into_iter().sum();
        self.messages.insert(message.seq, message);
    }

    pub(super) fn consume(&mut self, seq: u64, at: Position) {
        if let Some(message) = self.messages.remove(&seq) {
            self.ids.insert(message.id.clone(), Some(at));
            let gone = Unread::of(&message);
            self.unread.messages -= gone.messages;
            self.unread.bytes -= gone.bytes;
        }
    }

    /// Forgets the messages that were consumed before `position`.
    pub(super) fn forget_before(&mut self, position: Position) {
        self.ids.retain(|_, consumed| consumed.is_none_or(|at| at >= position));
    }

    /// The unread messages above a number.
    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Message> {
        self.messages.range((Bound::Excluded(seq), Bound::Unbounded)).map(|(_, message)| message)
    }

    pub(super) fn unread(&self) -> Unread {
        self.unread
    }
}
