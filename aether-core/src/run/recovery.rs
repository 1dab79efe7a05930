//! What only a resumed run needs: divergence of the whole run, outcomes that a crash kept out of the journal, and the
//! confirmation of resources before an answer is delivered.
//!
//! Promise: nothing here advances replay; a command that looks while its answer is next stays the next one.

use std::future::poll_fn;
use std::task::Poll;

use crate::journal::event::{CodeAdopted, ForkDecided};
use crate::journal::history::History;
use crate::journal::kept::{KeptCall, choose};
use crate::journal::obligations::{decided_call, undoes_another};
use crate::run::append::AppendExtras;
use crate::run::changes::ValueChanges;
use crate::run::claim::Run;
use crate::run::fault::{CommandSummary, Divergence, Fault};
use crate::run::matcher::recorded_side;
use crate::run::unreadable::Unreadable;
use crate::store::append::StoredEffect;
use crate::store::records::CodeChange;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::{CommandId, IdempotencyKey};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Digest, Payload, PayloadError};

/// Whether code and history of a run fit.
pub(crate) enum Proof {
    /// That was seen before.
    Known,
    /// That is seen now; what waited for it was woken.
    New,
    /// More must happen first.
    Open,
    /// They do not.
    Differs(Box<Fault>),
}

impl Run {
    /// Stops the run: the recorded value of `command` is not readable by its code. The sites are those of the recording and
    /// of today.
    pub(crate) async fn unreadable<T>(
        &self,
        command: &CommandId,
        what: &'static str,
        sites: (Option<String>, Option<String>),
        error: PayloadError,
    ) -> T {
        let unreadable = Unreadable::new(&self.id, command, what, sites, error);
        self.stop(Fault::Unreadable(Box::new(unreadable))).await
    }

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

    /// Of a fork: the call of its origin that `command` takes over. Returned once. `is_asked` says of other recorded
    /// arguments whether they are the same in today's encoding; it is user code, and not called under the lock.
    pub(crate) fn take_kept(
        &self,
        command: &CommandId,
        digest: &Digest,
        path: Option<&str>,
        is_asked: impl Fn(&Payload) -> bool,
    ) -> Option<ForkDecided> {
        if undoes_another(command) {
            return None;
        }
        let state = self.lock();
        let stands =
            |(number, kept): &KeptCall| state.obligations.stands(&decided_call(*number, &kept.origin));
        let candidates = state.history.kept(command).into_iter().filter(stands).map(|(_, kept)| kept);
        let mut candidates: Vec<_> = candidates.collect();
        drop(state);
        // A step that was moved to another module is known by its name, as long as its old path is free.
        let other = |kept: &ForkDecided| {
            let recorded = kept.path.as_deref().filter(|recorded| path.is_some_and(|path| path != *recorded));
            recorded.is_some_and(|recorded| self.shared.steps.contains_key(recorded))
        };
        candidates.retain(|kept| !other(kept));
        let is_same = |kept: &ForkDecided| kept.args.as_ref().is_some_and(&is_asked);
        let taken = choose(candidates, command, digest, is_same)?;
        self.lock().history.take_kept(&taken);
        Some(taken)
    }

    /// Of a fork: the calls of its origin that nothing has taken over yet, and that were not undone.
    pub(crate) fn open_decisions(&self) -> Vec<ForkDecided> {
        let state = self.lock();
        let stands =
            |(number, kept): &&KeptCall| state.obligations.stands(&decided_call(*number, &kept.origin));
        state.history.open_decisions().filter(stands).map(|(_, kept)| kept.clone()).collect()
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
            if self.holds_back(cx) {
                return Poll::Pending;
            }
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
        let mut state = self.lock();
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

    /// Looks whether code and history fit, when no part of the run can move: all that is recorded was delivered, and every
    /// command that was begun was asked for again. Then live effects may go on in every branch. Until then none does, or
    /// one branch would act before another one is found to differ.
    pub(crate) fn prove(&self) -> Proof {
        let mut state = self.lock();
        if state.history.is_proven() {
            return Proof::Known;
        }
        // Work in flight may still ask for the rest.
        if state.in_flight > 0 || !state.history.is_exhausted() {
            return Proof::Open;
        }
        if let Some(record) = state.history.leftover() {
            let recorded = recorded_side(record, EffectClass::Pure);
            let scope = scope_of(&recorded.command);
            let in_scope = state.ahead.iter().find(|side| scope_of(&side.command) == scope);
            let requested = in_scope.or(state.ahead.first()).cloned();
            return Proof::Differs(Box::new(self.divergence(recorded, requested)));
        }
        state.history.prove();
        Proof::New
    }

    /// Records that this code advances the run from now on, where other code did: it was seen to fit all that is recorded.
    /// Returns whether there was something to record.
    pub(crate) fn adopt(&self) -> bool {
        let Some(code) = self.take_adoption() else { return false };
        let _first = self.adopted.set(self.now());
        let change = Some(CodeChange::Adopted(code.id()));
        self.append(
            vec![CodeAdopted { code }.into()],
            AppendExtras { code: change, ..AppendExtras::default() },
        );
        true
    }

    /// What is written with the beginning, or the resumption, of the undoing of a run that is parked: it is so no more,
    /// because that needs none of the code that it waits for. Its code stays.
    pub(crate) fn unpark(&self) -> Option<CodeChange> {
        self.take_parked().filter(|_| !self.has_adopted()).map(CodeChange::Adopted)
    }

    /// Whether a panic of the workflow tells that code and history do not fit: the code ran before, or `adopts` what other
    /// code recorded and was not yet seen to fit.
    pub(crate) fn panics_in_replay(&self, adopts: bool) -> bool {
        self.is_behind_history() || adopts && !self.is_proven()
    }

    /// Whether all that is recorded was asked for.
    pub(crate) fn is_proven(&self) -> bool {
        self.lock().history.is_proven()
    }

    /// Whether the code that runs now ran before, as far as the journal tells: it may not end the run differently.
    pub(crate) fn is_behind_history(&self) -> bool {
        self.lock().history.replays("")
    }

    /// The divergence of a run that ended before history did.
    pub(crate) fn leftover(&self) -> Option<Fault> {
        let mut state = self.lock();
        let recorded = recorded_side(state.history.leftover()?, EffectClass::Pure);
        Some(self.divergence(recorded, None))
    }

    fn divergence(&self, recorded: CommandSummary, requested: Option<CommandSummary>) -> Fault {
        let (run, recorded) = (self.id.clone(), Some(recorded));
        Fault::Diverged(Box::new(Divergence {
            run,
            recorded,
            requested,
            changes: ValueChanges::default(),
            same_code: self.is_of_same_code(),
        }))
    }

    /// Number of recorded answers, and of answers that were matched.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.history.progress().1 as u64, state.matched)
    }
}

fn scope_of(command: &CommandId) -> &str {
    command.place().rsplit_once('.').map_or("", |(scope, _)| scope)
}
