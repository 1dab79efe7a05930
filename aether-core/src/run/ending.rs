//! A run on its way to its end: cancelled, unwound, and what it still owes.
//!
//! Promise: a run that is being cancelled begins nothing; one that is being unwound knows its former history no more.

use std::sync::Arc;

use super::Run;
use crate::cancellation::Cancellation;
use crate::id::CommandId;
use crate::obligations::Obligations;
use crate::replay::History;
use crate::step::Undo;

impl Run {
    /// Does not return in a run that is being cancelled: nothing begins any more.
    pub(crate) async fn still_open(&self) {
        if self.is_closing() {
            std::future::pending().await
        }
    }

    /// Whether the run is being cancelled.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Tells bodies that the run is being cancelled, lets them end, and begins nothing more.
    pub(crate) fn begin_closing(&self) {
        let mut state = self.lock();
        state.closing = true;
        let cancellation = Arc::clone(&state.cancellation);
        drop(state);
        cancellation.cancel();
    }

    /// Whether live work goes on.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().busy > 0
    }

    /// What bodies that begin now are told about cancellation.
    pub(crate) fn cancellation(&self) -> Arc<Cancellation> {
        Arc::clone(&self.lock().cancellation)
    }

    /// The workflow is over: from here on only its compensations are replayed, from `history`, and run.
    pub(crate) fn begin_unwinding(&self, history: History) {
        let mut state = self.lock();
        state.closing = false;
        state.unwinding = true;
        state.cancellation = Arc::default();
        state.history = history;
    }

    /// Whether steps are being undone.
    pub(crate) fn is_unwinding(&self) -> bool {
        self.lock().unwinding
    }

    /// What the run owes.
    pub(crate) fn owes<T>(&self, ask: impl FnOnce(&mut Obligations) -> T) -> T {
        ask(&mut self.lock().obligations)
    }

    /// Keeps what would undo `command`.
    pub(crate) fn remember_undo(&self, command: &CommandId, undo: Undo) {
        self.lock().undos.insert(command.clone(), undo);
    }

    /// Gives what this run knows of undoing steps to another replay of it.
    pub(crate) fn hand_over_undos(&self, to: &Self) {
        let undos = self.lock().undos.clone();
        to.lock().undos = undos;
    }

    /// What would undo `command`, if this process has seen it.
    pub(crate) fn undo_of(&self, command: &CommandId) -> Option<Undo> {
        self.lock().undos.get(command).cloned()
    }

    /// Whether the run is where it was when this was asked last: then its inbox is worth a look.
    pub(crate) fn lingers(&self) -> bool {
        let mut state = self.lock();
        let next = state.next;
        std::mem::replace(&mut state.looked_at, next) == next
    }
}
