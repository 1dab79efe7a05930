//! Ending a run or a branch of it: cancellation, unwinding, and invocations that are abandoned.
//!
//! Promise: a run that is being cancelled starts nothing new; one that is being unwound no longer sees the history of
//! its workflow.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::journal::event::{Event, InvocationAbandoned, InvocationDecision, InvocationResolved};
use crate::journal::history::History;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::undoing::Undoing;
use crate::sched::HashMap;
use crate::step::body::Undo;
use crate::step::cancellation::Cancellation;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::store::streams::StreamEnd;
use crate::vocabulary::id::{CommandId, InvocationId};

impl Run {
    /// Abandons the invocations of commands that `of` holds for, if they were started and their outcome is neither known nor
    /// decided. Returns the events that name them, those first that are known not to have been executed, and the changes of
    /// their ledger rows: the others are in doubt. The caller has dropped what made them; where other branches go on, it
    /// appends what is returned before it waits for anything.
    ///
    /// # Errors
    /// [`Fault`] when the store fails.
    pub(crate) async fn abandon(
        &self,
        of: impl Fn(&CommandId) -> bool,
    ) -> Result<(Vec<Event>, AppendExtras), Fault> {
        let _in_flight = self.in_flight_here();
        let mut open = self.with_obligations(|obligations| obligations.invocations());
        open.retain(|(command, _)| of(command));
        if !open.is_empty() {
            // An intent that is still queued has no row yet. Looking before it is durable would find none, and the row
            // that it inserts would stay `Started`.
            self.watermark.reached(self.next()).await?;
        }
        let mut found = Vec::new();
        for (command, invocation) in open {
            let update = self.in_doubt(&invocation);
            let row = self.asking(|| self.shared.store.entry(&self.id, &update.key)).await?;
            found.push((command, invocation, update, row));
        }
        // Meanwhile somebody else may have gone on with a call that undoes a step: it is theirs.
        found.retain(|(command, ..)| of(command));
        let (mut events, mut in_doubt, mut extras) = (Vec::new(), Vec::new(), AppendExtras::default());
        for (command, invocation, mut update, row) in found {
            if self.take_uncalled(&invocation, row.as_ref()) {
                (update.status, update.committed) = (LedgerStatus::Failed, true);
                events.push(not_called(command, invocation, "engine: abandoned"));
            } else {
                in_doubt.push(InvocationAbandoned { command, invocation }.into());
            }
            // An update of a missing row would be refused; a row that holds a final outcome keeps it.
            extras.ledger.extend(row.filter(|row| !row.committed).map(|_| update));
        }
        events.extend(in_doubt);
        Ok((events, extras))
    }

    /// As [`Run::abandon`], of branches that lost a race, without the commands that are `settled`; also what they sent to
    /// streams.
    ///
    /// # Errors
    /// [`Fault`] when the store fails.
    pub(crate) async fn abandon_lost(
        &self,
        scopes: &[String],
        settled: &BTreeSet<CommandId>,
    ) -> Result<(Vec<Event>, AppendExtras), Fault> {
        let _in_flight = self.in_flight_here();
        let lost = |command: &CommandId| self.is_lost_with(command, scopes);
        let streams = self.drop_streams(lost).await;
        let (events, extras) = self.abandon(|command| lost(command) && !settled.contains(command)).await?;
        Ok((events, AppendExtras { streams, ..extras }))
    }

    /// Notes that a call was dropped between its intent, which may be durable or not, and its body.
    pub(crate) fn note_uncalled(&self, invocation: InvocationId) {
        self.lock().uncalled.push(invocation);
    }

    /// Whether a call was dropped between its intent and its body, and nothing says so yet.
    pub(super) fn has_uncalled(&self, command: &CommandId) -> bool {
        let state = self.lock();
        let of = |(of, invocation): &(CommandId, InvocationId)| {
            of == command && state.uncalled.contains(invocation)
        };
        state.obligations.invocations().iter().any(of)
    }

    /// Whether a call was dropped between its intent, which has this `row`, and its body; answered so once. A row of an earlier
    /// claim may stand for a call that was made.
    fn take_uncalled(&self, invocation: &InvocationId, row: Option<&LedgerEntry>) -> bool {
        if row.is_none_or(|row| row.epoch != self.epoch) {
            return false;
        }
        let uncalled = &mut self.lock().uncalled;
        let found = uncalled.iter().position(|uncalled| uncalled == invocation);
        found.map(|found| uncalled.swap_remove(found)).is_some()
    }

    /// Records of calls that were dropped between their intents and their bodies that they were not made. Nobody advances the
    /// run any more. Of a branch that lost a race, that is said in one append with who won.
    pub(crate) async fn append_uncalled(&self) {
        let mut open = self.with_obligations(|obligations| obligations.invocations());
        open.retain(|(command, _)| self.has_uncalled(command) && !self.has_lost_undecided(command));
        if open.is_empty() {
            return;
        }
        // An intent that is still queued has no row yet.
        self.durable_so_far().await;
        for (command, invocation) in open {
            let key = self.key_of(&invocation);
            let row = self.insist(|| self.shared.store.entry(&self.id, &key)).await;
            if !self.take_uncalled(&invocation, row.as_ref()) {
                continue;
            }
            let mut update = self.in_doubt(&invocation);
            (update.status, update.committed) = (LedgerStatus::Failed, true);
            let ledger = row.filter(|row| !row.committed).map(|_| update).into_iter().collect();
            let events = vec![not_called(command, invocation, "engine: released")];
            self.append(events, AppendExtras { ledger, ..AppendExtras::default() });
        }
    }

    /// What an append says of the commands that `of` holds for and that have no outcome: what they sent to streams does not
    /// count. From here on they send nothing, and what they sent is written or given up.
    pub(crate) async fn drop_streams(&self, of: impl Fn(&CommandId) -> bool) -> Vec<StreamEnd> {
        let open = self.shared.streams.end_all(|| self.streams.stop(of));
        if !open.is_empty() {
            self.shared.streams.flushed().await;
        }
        let dropped = |(command, attempt)| StreamEnd { command, attempt, keeps: None, digest: None };
        open.into_iter().map(dropped).collect()
    }

    /// Tells the bodies in flight that the run is being cancelled. From here on nothing new starts.
    pub(crate) fn begin_cancelling(&self) {
        let mut state = self.lock();
        state.cancelling = true;
        let cancellation = Arc::clone(&state.cancellation);
        // Outside of the lock: the bodies that this wakes may call back into the run.
        drop(state);
        cancellation.cancel();
    }

    /// Whether work is in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.lock().in_flight > 0
    }

    /// The cancellation flag for bodies that start now.
    pub(crate) fn cancellation(&self) -> Arc<Cancellation> {
        Arc::clone(&self.lock().cancellation)
    }

    /// The workflow has ended: from here on only its compensations run, replayed from `history`.
    pub(crate) fn begin_unwinding(&self, history: History) {
        let mut state = self.lock();
        // Compensations must start also in a run that was cancelled, and must not see its cancellation.
        state.cancelling = false;
        state.unwinding = true;
        state.cancellation = Arc::default();
        state.history = history;
        // What became of their losers is said with the end.
        state.won.clear();
        state.undoing = HashMap::default();
        state.undoers = HashMap::default();
    }

    /// Replaces the history that commands are matched with, and returns the one before.
    pub(crate) fn replace_history(&self, history: History) -> History {
        std::mem::replace(&mut self.lock().history, history)
    }

    /// Whether steps are being undone.
    pub(crate) fn is_unwinding(&self) -> bool {
        self.lock().unwinding
    }

    /// Where those meet who undo `command`.
    pub(crate) fn undoing(&self, command: &CommandId) -> Arc<Undoing> {
        Arc::clone(self.lock().undoing.entry(command.clone()).or_default())
    }

    /// Remembers the call that would undo `command`.
    pub(crate) fn remember_undo(&self, command: &CommandId, undo: Undo) {
        self.lock().undos.insert(command.clone(), undo);
    }

    /// Copies the undoing calls that this run knows to another replay of it.
    pub(crate) fn hand_over_undos(&self, to: &Self) {
        let undos = self.lock().undos.clone();
        to.lock().undos = undos;
    }

    /// The call that would undo `command`, if this process has seen it.
    pub(crate) fn undo_of(&self, command: &CommandId) -> Option<Undo> {
        self.lock().undos.get(command).cloned()
    }
}

/// Says of a call that it was not made.
fn not_called(command: CommandId, invocation: InvocationId, actor: &str) -> Event {
    let (decision, actor) = (InvocationDecision::DidNotHappen, actor.into());
    InvocationResolved { command, invocation, decision, actor, resend: None }.into()
}
