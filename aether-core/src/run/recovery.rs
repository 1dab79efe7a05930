//! What only a resumed run needs: divergence of the whole run, outcomes that a crash kept out of the journal, and the
//! confirmation of resources before an answer is delivered.
//!
//! Promise: nothing here advances replay; a command that looks while its answer is next stays the next one.

use std::future::poll_fn;
use std::task::Poll;

use crate::journal::event::ForkDecided;
use crate::journal::history::History;
use crate::run::claim::Run;
use crate::run::fault::{CommandSummary, Divergence, Fault};
use crate::run::matcher::recorded_side;
use crate::store::api::StoredEffect;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::{CommandId, IdempotencyKey};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Digest;

impl Run {
    /// Fails the run permanently, whatever its workflow would do. Never returns.
    pub(crate) async fn fail_permanently<T>(&self, failure: Failure) -> T {
        let _first = self.permanent_failure.set(failure);
        self.root.wake();
        std::future::pending().await
    }

    /// The failure that ends the run, if [`Run::fail_permanently`] was called.
    pub(crate) fn permanent_failure(&self) -> Option<&Failure> {
        self.permanent_failure.get()
    }

    /// Reads what history still holds, under the run's lock.
    pub(crate) fn history<T>(&self, read: impl FnOnce(&mut History) -> T) -> T {
        read(&mut self.lock().history)
    }

    /// Of a fork: the call of its origin that `command` takes over. Returned once.
    pub(crate) fn take_kept(&self, command: &CommandId, digest: &Digest) -> Option<ForkDecided> {
        self.lock().history.take_kept(command, digest)
    }

    /// Whether the run may wait for child runs that are not its own.
    pub(crate) fn took_over(&self) -> bool {
        self.lock().history.took_over()
    }

    /// The outcome that the effect store held under `key` when the run was claimed. Returned once: it is committed once.
    pub(crate) fn take_effect(&self, key: impl FnOnce() -> IdempotencyKey) -> Option<StoredEffect> {
        let mut state = self.lock();
        if state.effects.is_empty() { None } else { state.effects.remove(&key()) }
    }

    /// Waits until this command's answer is the next one to be delivered, without taking it.
    pub(crate) async fn due(&self, command: &CommandId) {
        poll_fn(|cx| {
            let due = self.lock().history.is_due(command.place(), cx.waker());
            if due { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Says whether replay waits for an operator, so that the run may be suspended before all of history was delivered.
    pub(crate) fn pause_for_operator(&self, paused: bool) {
        self.lock().paused_for_operator = paused;
    }

    /// The divergence of a replay that cannot make progress: no command requests the next recorded answer.
    pub(crate) fn stuck(&self) -> Option<Fault> {
        let state = self.lock();
        // Work in flight may still request it.
        if state.in_flight > 0 {
            return None;
        }
        let recorded = recorded_side(state.history.stuck_at()?, EffectClass::Pure);
        let requested = state.history.frontier_request().map(|command| {
            let known = state.ahead.iter().find(|side| side.command == *command).cloned();
            known.unwrap_or_else(|| CommandSummary {
                command: command.clone(),
                class: EffectClass::Pure,
                digest: None,
                site: None,
            })
        });
        Some(self.divergence(recorded, requested))
    }

    /// The divergence of a run that ended before history did.
    pub(crate) fn leftover(&self) -> Option<Fault> {
        let state = self.lock();
        let recorded = recorded_side(state.history.leftover()?, EffectClass::Pure);
        Some(self.divergence(recorded, None))
    }

    fn divergence(&self, recorded: CommandSummary, requested: Option<CommandSummary>) -> Fault {
        Fault::Diverged(Box::new(Divergence { run: self.id.clone(), recorded: Some(recorded), requested }))
    }

    /// Number of recorded answers, and of answers that were matched.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.history.progress().1 as u64, state.matched)
    }
}
