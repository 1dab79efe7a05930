//! The inbox of one run in memory.
//!
//! Promise: reading after a number costs what is read; counting costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::store::records::{Message, Unread};

/// What was sent to one run.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    messages: BTreeMap<u64, Message>,
    /// Ids of consumed messages too, so that a repeated send is a duplicate also after its run has ended.
    ids: BTreeSet<String>,
    unread: Unread,
}

impl Inbox {
    pub(super) fn knows(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn push(&mut self, message: Message) {
        self.ids.insert(message.id.clone());
        self.unread = [self.unread, Unread::of(&message)].into_iter().sum();
        self.messages.insert(message.seq, message);
    }

    pub(super) fn consume(&mut self, seq: u64) {
        if let Some(message) = self.messages.remove(&seq) {
            let gone = Unread::of(&message);
            self.unread.messages -= gone.messages;
            self.unread.bytes -= gone.bytes;
        }
    }

    /// The unread messages above a number.
    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Message> {
        self.messages.range((Bound::Excluded(seq), Bound::Unbounded)).map(|(_, message)| message)
    }

    pub(super) fn unread(&self) -> Unread {
        self.unread
    }
}
