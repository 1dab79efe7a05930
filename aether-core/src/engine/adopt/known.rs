//! What an engine knows of runs under other code: the results of its trials, and how many there were.
//!
//! Promise: a result holds for one journal at one length; nothing is tried twice as long as it does.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use crate::definition::def::WorkflowDef;
use crate::run::fault::Fault;
use crate::sched::{AtomicBool, AtomicU64, HashMap, Mutex, Notify};
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::{CodeId, Position, RunId};

/// What this engine knows of runs under other code, and what it did with them.
#[derive(Debug, Default)]
pub(crate) struct Adoptions {
    /// Ends the sleep between two looks.
    pub(crate) wake: Arc<Notify>,
    /// The newest look at all open runs found some under other code.
    pub(crate) some: AtomicBool,
    known: Mutex<HashMap<RunId, Known>>,
    /// Runs whose trial ended in a fault that says nothing of the code: at what length, and until when it is not tried again.
    failed: Mutex<HashMap<RunId, (Position, Duration)>>,
    /// Runs that were left to their queues under this program's code, and until when that is not done again: a worker with
    /// other code may have taken them back.
    recoded: Mutex<HashMap<RunId, Duration>>,
    /// Runs that got a message here and that this engine does not advance.
    asked: Mutex<BTreeSet<RunId>>,
    /// Code that records runs here, and whether its definition was taken to be kept.
    codes: Mutex<BTreeMap<CodeId, (&'static WorkflowDef, bool)>>,
    pub(crate) tried: AtomicU64,
    adopted: AtomicU64,
    parked: AtomicU64,
}

/// The result of a trial, and for which journal it holds.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) position: Position,
    /// It holds while the run is parked, whatever is appended meanwhile: the run went on live here and then did not fit.
    pub(crate) lasting: bool,
    /// The run's workflow has run, as far as that is recorded.
    pub(crate) begun: bool,
    /// This program's code for it.
    pub(crate) code: Option<CodeId>,
    pub(crate) misfit: Option<Misfit>,
}

#[derive(Clone, Debug)]
pub(crate) struct Misfit {
    pub(crate) fault: Fault,
    pub(crate) needs: Option<RunCode>,
}

/// How many runs under other code an engine has looked at since its start, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdoptionCounts {
    /// Replays that executed nothing, to see whether a run fits.
    pub tried: u64,
    /// Runs that were claimed, or left to their queues under this engine's code, because that fits them.
    pub adopted: u64,
    /// Runs that this engine has parked.
    pub parked: u64,
}

impl Adoptions {
    pub(crate) fn known(&self) -> MutexGuard<'_, HashMap<RunId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trial failed for a reason that may be there for long, such as a replay that does not end.
    pub(crate) fn remember_failed(&self, run: &RunId, position: Position, until: Duration) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.insert(run.clone(), (position, until));
    }

    /// Whether a trial of the run as it is failed, and it is too early for another.
    pub(crate) fn has_just_failed(&self, run: &RunId, position: Position, now: Duration) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(run).is_some_and(|(tried, until)| *tried == position && now < *until)
    }

    /// A run was parked here: this program does not try it again as it is.
    pub(crate) fn remember_parked(
        &self,
        run: &RunId,
        position: Position,
        fault: &Fault,
        needs: &RunCode,
        lasting: bool,
    ) {
        let misfit = Some(Misfit { fault: fault.clone(), needs: Some(needs.clone()) });
        let mut known = self.known();
        // One that was not tried before was advanced.
        let begun = known.get(run).is_none_or(|known| known.begun);
        known.insert(run.clone(), Known { position, lasting, begun, code: None, misfit });
        drop(known);
        self.some.store(true, Ordering::Release);
    }

    fn recoded(&self) -> MutexGuard<'_, HashMap<RunId, Duration>> {
        self.recoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run may be left to its queue under this program's code, which it was not just before.
    pub(crate) fn may_recode(&self, run: &RunId, now: Duration) -> bool {
        self.recoded().get(run).is_none_or(|until| *until <= now)
    }

    /// A run was left to its queue under this program's code.
    pub(crate) fn remember_recoded(&self, run: RunId, until: Duration) {
        self.recoded().insert(run, until);
    }

    /// Forgets what is known of runs that are not under other code any more.
    pub(crate) fn forget_others(&self, runs: &BTreeSet<RunId>, now: Duration) {
        self.recoded().retain(|_, until| *until > now);
        self.known().retain(|run, _| runs.contains(run));
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).retain(|run, _| runs.contains(run));
    }

    /// Whether this program tried the run as it is now, and does not fit it.
    pub(crate) fn is_misfit(&self, run: &RunId, position: Position) -> bool {
        let known = self.known();
        known
            .get(run)
            .is_some_and(|known| (known.lasting || known.position == position) && known.misfit.is_some())
    }

    /// Code records a run here: its definition is to be kept.
    pub(crate) fn note_code(&self, code: CodeId, def: &'static WorkflowDef) {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(new) = codes.entry(code) {
            new.insert((def, false));
            drop(codes);
            self.wake.notify_one();
        }
    }

    /// The definitions that were not taken before.
    pub(crate) fn take_new_codes(&self) -> Vec<&'static WorkflowDef> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = codes.values_mut().filter(|(_, taken)| !*taken);
        new.map(|(def, taken)| (*taken = true, *def).1).collect()
    }

    /// A run is due that the scheduler could not claim: it may be one under other code.
    pub(crate) fn wake_for_due(&self) {
        self.some.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// A message was sent, or a run became due: of a run under other code only the adopter takes notice.
    pub(crate) fn wake_for(&self, run: &RunId) {
        if self.some.load(Ordering::Acquire) {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone());
            self.wake.notify_one();
        }
    }

    /// The runs that got a message since the last call.
    pub(crate) fn take_asked(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn count_parked(&self) {
        self.parked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_adopted(&self, runs: usize) {
        self.adopted.fetch_add(runs as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> AdoptionCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AdoptionCounts { tried: of(&self.tried), adopted: of(&self.adopted), parked: of(&self.parked) }
    }
}
