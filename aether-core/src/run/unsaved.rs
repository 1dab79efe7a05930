//! Outcomes that were known, and not yet written, when their calls were cut off.
//!
//! Promise: such an outcome is not lost with its call: whoever says what became of the call, and whoever releases the run,
//! has it written, and finds it. Of a call of a branch that lost a race, it is not said before it is said who won.

use futures_util::FutureExt as _;

use crate::journal::event::Event;
use crate::journal::large_values::LargeValue;
use crate::run::append::AppendExtras;
use crate::run::came_back::CameBack;
use crate::run::claim::Run;
use crate::run::won::WonRace;
use crate::store::append::StoredEffect;
use crate::store::error::AppendError;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId};

/// An outcome, and the large values that it refers to.
type Writing = (StoredEffect, Vec<LargeValue>);

/// An outcome that is being written. Dropped before that is done, it stays with its run.
struct Unsaved<'r> {
    run: &'r Run,
    outcome: Option<Writing>,
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        // Without a row it is that of a call that changed nothing, which nobody asks for.
        if let Some(outcome) = self.outcome.take().filter(|(effect, _)| effect.status.is_some()) {
            self.run.lock().unsaved.push(outcome);
        }
    }
}

impl CameBack {
    /// As it is appended.
    pub(crate) fn append(self) -> (Vec<Event>, AppendExtras) {
        let Self { events, ledger, streams, .. } = self;
        (events, AppendExtras { ledger, streams, ..AppendExtras::default() })
    }
}

impl Run {
    /// Keeps what is known of a call that is dropped, until an append says it.
    pub(crate) fn keep_known(&self, known: CameBack) {
        let open = self.with_obligations(|obligations| obligations.invocations());
        let is_open = |of: &InvocationId| open.iter().any(|(_, invocation)| invocation == of);
        let mut state = self.lock();
        // Nobody asks for those any more that an append has said since.
        state.came_back.retain(|known| is_open(&known.invocation));
        state.came_back.push(known);
    }

    /// What is known of those of these invocations whose bodies had come back, and that no append says yet.
    pub(crate) fn came_back(&self, open: &[(CommandId, InvocationId)]) -> Vec<CameBack> {
        let of = |known: &&CameBack| open.iter().any(|(_, invocation)| *invocation == known.invocation);
        self.lock().came_back.iter().filter(of).cloned().collect()
    }

    /// Writes what is known of calls whose bodies had come back when they were cut off: what was on its way to the effect store,
    /// and what was to be appended. Nobody advances the run any more.
    pub(crate) async fn append_known(&self) {
        let mut open = self.with_obligations(|obligations| obligations.invocations());
        let keys: Vec<_> = open.iter().map(|(_, invocation)| self.key_of(invocation)).collect();
        self.save_again(&keys).await;
        // It is said in one append with who won.
        open.retain(|(command, _)| !self.has_lost_undecided(command));
        for known in self.came_back(&open) {
            let (events, extras) = known.append();
            self.append_large(events, extras).await;
        }
    }

    /// Makes an outcome durable in the effect store.
    pub(crate) async fn save(&self, effect: StoredEffect, values: Vec<LargeValue>) {
        let mut unsaved = Unsaved { run: self, outcome: Some((effect, values)) };
        if let Some((effect, values)) = &unsaved.outcome {
            self.put(effect, values).await;
        }
        unsaved.outcome = None;
    }

    /// Makes those outcomes durable under these keys whose calls were cut off while they were written. What was written
    /// already stays as it is.
    pub(crate) async fn save_again(&self, keys: &[IdempotencyKey]) {
        let of = |(effect, _): &&Writing| keys.contains(&effect.key);
        let unsaved: Vec<Writing> = self.lock().unsaved.iter().filter(of).cloned().collect();
        for (effect, values) in &unsaved {
            self.put(effect, values).await;
        }
    }

    async fn put(&self, effect: &StoredEffect, values: &[LargeValue]) {
        let put = || {
            let put = self.shared.store.put_effect(effect.clone(), self.epoch, values.to_vec());
            put.map(|put| match put {
                Err(AppendError::Store(error)) => Err(error),
                put => Ok(put),
            })
            .boxed()
        };
        if let Err(lost) = self.insist(put).await {
            self.stop(lost).await
        }
    }

    /// Notes who won.
    pub(crate) fn note_won(&self, race: WonRace) {
        self.lock().won.push(race);
    }

    /// An append says who won.
    pub(crate) fn note_decided(&self, race: &WonRace) {
        let is_over = |other: &WonRace| other.command == race.command || race.has_lost(&other.command);
        self.lock().won.retain(|other| !is_over(other));
    }

    /// Races that whoever releases the run is to decide: all that is recorded was delivered before they were won.
    pub(crate) fn undecided_races(&self) -> Vec<WonRace> {
        let state = self.lock();
        if state.cancelling || !state.history.is_exhausted() || !state.history.is_proven() {
            return Vec::new();
        }
        let is_lost = |race: &&WonRace| state.won.iter().any(|other| other.has_lost(&race.command));
        state.won.iter().filter(|race| !is_lost(race)).cloned().collect()
    }

    /// Whether a call is one of a branch that lost a race of which no append says so yet.
    pub(super) fn has_lost_undecided(&self, command: &CommandId) -> bool {
        let losers: Vec<String> =
            self.lock().won.iter().flat_map(|race| race.losers.iter().cloned()).collect();
        self.is_lost_with(command, &losers)
    }
}
