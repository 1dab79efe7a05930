//! A run, or a branch of it, on its way to its end: cancelled, unwound, given up, and what it still owes.
//!
//! Promise: a run that is being cancelled begins nothing; one that is being unwound knows its former history no more.

use std::sync::Arc;

use crate::journal::event::{Event, InvocationAbandoned};
use crate::journal::history::History;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::step::body::Undo;
use crate::step::cancellation::Cancellation;
use crate::vocabulary::id::CommandId;

impl Run {
    /// Gives up the invocations inside of `scopes` (all of them for `None`) that were started and of which nothing is
    /// known or decided: events that name them, and the rows that they leave in doubt. What is inside of `scopes` must
    /// not be polled any more.
    ///
    /// # Errors
    /// [`Fault`] when the store fails.
    pub(crate) async fn abandon(
        &self,
        scopes: Option<&[String]>,
    ) -> Result<(Vec<Event>, AppendExtras), Fault> {
        let _in_flight = self.in_flight_here();
        let given_up = |command: &CommandId| scopes.is_none_or(|s| s.iter().any(|s| command.is_within(s)));
        let mut open = self.with_obligations(|obligations| obligations.invocations());
        open.retain(|(command, _)| given_up(command));
        if !open.is_empty() {
            // An intent that is on its way has a row when it has arrived.
            self.watermark.reached(self.next()).await?;
        }
        let (mut events, mut riders) = (Vec::new(), AppendExtras::default());
        for (command, invocation) in open {
            let update = self.in_doubt(&invocation);
            let row = self.shared.store.entry(&update.key).await?;
            // A row that is missing is not needed; one that holds the outcome is kept.
            riders.ledger.extend(row.filter(|row| !row.committed).map(|_| update));
            events.push(InvocationAbandoned { command, invocation }.into());
        }
        Ok((events, riders))
    }

    /// Tells bodies that the run is being cancelled, lets them end, and begins nothing more.
    pub(crate) fn begin_cancelling(&self) {
        let mut state = self.lock();
        state.cancelling = true;
        let cancellation = Arc::clone(&state.cancellation);
        drop(state);
        cancellation.cancel();
    }

    /// Whether live work goes on.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.lock().in_flight > 0
    }

    /// What bodies that begin now are told about cancellation.
    pub(crate) fn cancellation(&self) -> Arc<Cancellation> {
        Arc::clone(&self.lock().cancellation)
    }

    /// The workflow is over: from here on only its compensations are replayed, from `history`, and run.
    pub(crate) fn begin_unwinding(&self, history: History) {
        let mut state = self.lock();
        state.cancelling = false;
        state.unwinding = true;
        state.cancellation = Arc::default();
        state.history = history;
    }

    /// Whether steps are being undone.
    pub(crate) fn is_unwinding(&self) -> bool {
        self.lock().unwinding
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
    pub(crate) fn is_stalled(&self) -> bool {
        let mut state = self.lock();
        let next = state.next;
        std::mem::replace(&mut state.looked_at, next) == next
    }
}
