//! What a journal holds of each command, by its place.
//!
//! Promise: whether a record is open or closed is seen by nobody else; who asks for one gets it open.

use super::closed::{Closed, Shapes};
use super::place::Place;
use super::record::CommandRecord;
use crate::sched::{HashMap, HashSet};
use crate::vocabulary::id::CommandId;

/// The records of a history.
#[derive(Debug, Default)]
pub(super) struct Commands {
    open: HashMap<Place, Box<CommandRecord>>,
    /// Those of commands that are complete and that nobody asked for yet.
    closed: HashSet<Closed>,
    shapes: Shapes,
}

impl Commands {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    /// The record of a command, which is new where there was none.
    pub(super) fn of(&mut self, command: &CommandId) -> &mut CommandRecord {
        self.reopen(command.place());
        let new = || Box::new(CommandRecord::new(command.clone()));
        self.open.entry(Place(command.clone())).or_insert_with(new)
    }

    /// What is recorded at `place`.
    pub(super) fn get(&mut self, place: &str) -> Option<&mut CommandRecord> {
        self.reopen(place);
        self.open.get_mut(place).map(Box::as_mut)
    }

    /// Takes out what is recorded at `place`.
    pub(super) fn take(&mut self, place: &str) -> Option<CommandRecord> {
        self.reopen(place);
        self.open.remove(place).map(|record| *record)
    }

    /// Replaces what is recorded of the record's command.
    pub(super) fn put(&mut self, record: CommandRecord) {
        self.closed.remove(record.command.place());
        self.open.insert(Place(record.command.clone()), Box::new(record));
    }

    /// Takes a record that is complete out of the way, where that saves memory.
    pub(super) fn close(&mut self, command: &CommandId) {
        let Some(closed) = self.open.get(command.place()).and_then(|record| self.shapes.close(record)) else {
            return;
        };
        self.open.remove(command.place());
        self.closed.insert(closed);
    }

    fn reopen(&mut self, place: &str) {
        if self.closed.is_empty() {
            return;
        }
        if let Some(closed) = self.closed.take(place) {
            let record = self.shapes.open(&closed);
            self.open.insert(Place(record.command.clone()), Box::new(record));
        }
    }

    /// The records that are open: of commands that are not complete, or that somebody asked for, and a few others.
    pub(super) fn open(&self) -> impl Iterator<Item = &CommandRecord> {
        self.open.values().map(Box::as_ref)
    }

    /// As [`Commands::open`].
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut CommandRecord> {
        self.open.values_mut().map(Box::as_mut)
    }

    /// The record at `place`, where it is open.
    pub(super) fn get_open(&self, place: &str) -> Option<&CommandRecord> {
        self.open.get(place).map(Box::as_ref)
    }

    /// Whether there is a record at `place`.
    pub(super) fn has(&self, place: &str) -> bool {
        self.open.contains_key(place) || self.closed.contains(place)
    }

    /// Whether there is one, and nobody asked for it.
    pub(super) fn is_unrequested(&self, place: &str) -> bool {
        self.closed.contains(place) || self.open.get(place).is_some_and(|record| !record.requested)
    }

    /// The places of all records.
    pub(super) fn places(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(Place::place).chain(self.closed.iter().map(Closed::place))
    }

    /// The places of commands that nobody asked for.
    pub(super) fn unrequested(&self) -> impl Iterator<Item = &str> {
        let open = self.open.iter().filter(|(_, record)| !record.requested);
        open.map(|(place, _)| place.place()).chain(self.closed.iter().map(Closed::place))
    }

    /// Keeps what `keep` says of its place.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.open.retain(|place, _| keep(place.place()));
        self.closed.retain(|closed| keep(closed.place()));
    }

    /// Keeps of the open ones what `keep` says.
    pub(super) fn retain_open(&mut self, keep: impl Fn(&CommandRecord) -> bool) {
        self.open.retain(|_, record| keep(record));
    }
}
