//! Looks for open runs under other code: at the start for all, later for those that are due.
//!
//! Promise: a run is left to a worker that has its code, for as long as there is one; of the others, those that this
//! program's code fits are claimed when they are due, and those that it does not fit are parked.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::StreamExt as _;
use futures_util::future::{join_all, select};
use futures_util::stream::iter;

use crate::engine::adopt::known::{Known, Misfit};
use crate::engine::adopt::park::{Held, park};
use crate::engine::adopt::trial::{Trial, try_run};
use crate::engine::advance::launch::{LOADS, begins_later, launch_claimed};
use crate::engine::code::code_of;
use crate::engine::inner::{Inner, now};
use crate::engine::pace::Pace;
use crate::journal::frame::StoredFrame;
use crate::run::fault::Fault;
use crate::sched::HashMap;
use crate::store::append::END_REQUESTS;
use crate::store::codes::{DefinitionRecord, ForeignRuns, Recode};
use crate::store::error::StoreError;
use crate::store::records::{ClaimRequest, Lease, RunRecord};
use crate::store::workers::{Serving, SilentWorker};
use crate::vocabulary::contract::Status;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::payload::Payload;

/// Runs that are claimed at once.
const PAGE: usize = 256;
/// Runs that are listed at once. A store that keeps runs by their code reads and sorts all of them for each list, also where only
/// those are wanted that are due.
const LIST: usize = 4_096;

/// Looks for runs under other code, for as long as the engine runs: once in each lease at all of them, and in between at
/// those that are due, while there are any.
pub(crate) async fn adopt(inner: Weak<Inner>) {
    let Some(mut full_looks) = inner.upgrade().map(|inner| Pace::of(&inner)) else { return };
    let mut looked = false;
    loop {
        // Held for no longer, so that an engine without users goes, and its store with it.
        let (environment, wake, pause) = {
            let Some(inner) = inner.upgrade().filter(|inner| inner.takes_runs()) else { return };
            keep_definitions(&inner).await;
            let (full, first) = (full_looks.is_time(), !std::mem::replace(&mut looked, true));
            match look(&inner, full).await {
                Ok(found) if first => found.tell(),
                Ok(_) => {}
                Err(_closed) if !inner.takes_runs() => return,
                Err(error) => {
                    tracing::warn!(target: "aether::engine", %error, "cannot look for runs under other code");
                }
            }
            let some = inner.adoptions.some.load(Ordering::Acquire);
            let pause = if some { inner.settings.poll } else { inner.settings.lease };
            (Arc::clone(&inner.shared.environment), Arc::clone(&inner.adoptions.wake), pause)
        };
        select(environment.sleep(pause), Box::pin(wake.notified())).await;
    }
}

/// Keeps the definitions of code that records runs here in the store, each once: for whoever asks later what changed.
async fn keep_definitions(inner: &Inner) {
    for def in inner.adoptions.take_new_codes() {
        let Ok(definition) = Payload::encode(&def.json()) else { continue };
        let (code, workflow, version) = (code_of(def), def.name.to_owned(), def.version);
        let record = DefinitionRecord { code, workflow, version, definition, first_seen: now(inner) };
        if let Err(error) = inner.shared.store.put_definition(record).await {
            tracing::warn!(target: "aether::engine", workflow = def.name, %error, "cannot keep a definition");
        }
    }
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    fits: usize,
    pub(crate) claimed: usize,
    /// Runs that their queues give to this program's code from now on.
    pub(crate) recoded: usize,
    parked: Vec<(RunId, Fault)>,
    /// Those that do not fit, and that may not begin yet.
    early: Vec<(RunId, Fault)>,
}

impl Found {
    fn tell(&self) {
        if self.fits > 0 {
            let fits = self.fits;
            tracing::info!(target: "aether::engine", fits, "open runs of other code fit this program; it adopts them as they wake");
        }
        if let Some((run, fault)) = self.parked.first() {
            let parked = self.parked.len();
            tracing::warn!(target: "aether::engine", parked, %run, %fault,
                "open runs do not fit this program and are parked; `Engine::parked` lists them");
        }
        if let Some((run, fault)) = self.early.first() {
            let early = self.early.len();
            tracing::warn!(target: "aether::engine", early, %run, %fault,
                "runs that begin later do not fit this program; it parks them when they are due");
        }
    }
}

/// Tries the open runs under other code (only the due ones unless `full`), and claims or parks them.
async fn look(inner: &Arc<Inner>, full: bool) -> Result<Found, StoreError> {
    let shared = &inner.shared;
    let codes = inner.codes();
    let silent = inner.watch().silent();
    let mut found = Found::default();
    adopt_asked(inner).await?;
    let mut after = None;
    let mut seen = BTreeSet::new();
    loop {
        let due = (!full).then(|| (now(inner), silent.clone()));
        let query = ForeignRuns { codes: codes.clone(), due, after, limit: LIST };
        let mut page = shared.store.foreign(query).await?;
        if full && after.is_none() {
            inner.adoptions.some.store(!page.is_empty(), Ordering::Release);
        }
        let Some(last) = page.last() else { break };
        after = Some(last.place);
        seen.extend(page.iter().map(|record| record.id.clone()));
        let is_last = page.len() < LIST;
        while !page.is_empty() && inner.takes_runs() {
            let rest = page.split_off(PAGE.min(page.len()));
            treat(inner, std::mem::replace(&mut page, rest), false, &mut found).await?;
            // To try many runs takes long, and whoever answers one of them waits for it.
            adopt_asked(inner).await?;
        }
        if is_last || !inner.takes_runs() {
            break;
        }
    }
    if full {
        inner.adoptions.forget_others(&seen, shared.environment.monotonic());
    }
    Ok(found)
}

/// Looks at the runs that somebody waits for.
async fn adopt_asked(inner: &Arc<Inner>) -> Result<(), StoreError> {
    for run in inner.adoptions.take_asked() {
        adopt_now(inner, &run, false).await?;
    }
    Ok(())
}

/// Looks at one run under other code now, due or not: claims or parks it, or leaves it to its queue under this program's code.
/// One that may not begin yet is left alone, unless it is `wanted` before.
pub(crate) async fn adopt_now(inner: &Arc<Inner>, run: &RunId, wanted: bool) -> Result<Found, StoreError> {
    let shared = &inner.shared;
    let mut found = Found::default();
    let Some(record) = shared.store.run(run).await?.filter(|record| !record.status.is_terminal()) else {
        return Ok(found);
    };
    if !record.parked && inner.codes().contains(&record.code) {
        return Ok(found);
    }
    let due = RunRecord { wake_at: Some(now(inner)), ..record };
    treat(inner, vec![due], wanted, &mut found).await?;
    Ok(found)
}

/// Tries the runs of a page, and claims or parks them; those that may not begin yet only where they are `wanted` before.
async fn treat(
    inner: &Arc<Inner>,
    page: Vec<RunRecord>,
    wanted: bool,
    found: &mut Found,
) -> Result<(), StoreError> {
    let shared = &inner.shared;
    // To try many takes long, in which workers come and go.
    let elsewhere = shared.store.serving_elsewhere(&shared.worker).await?;
    let ours = page.into_iter().filter(|record| {
        !inner.active().contains_key(&record.id)
            && inner.serves.takes(record.terms.queue.as_ref())
            && (record.parked || !is_left_to_others(inner, record, &elsewhere))
    });
    let tried: Vec<_> = iter(ours)
        .map(|record| async { (known_or_tried(inner, &record).await, record) })
        .buffered(LOADS)
        .collect()
        .await;
    let silent = inner.watch().silent();
    let (mut fits, mut queued, mut misfits) = (Vec::new(), Vec::new(), HashMap::new());
    for (known, record) in tried {
        let Some(known) = known else { continue };
        let due = record.wake_at.is_some_and(|at| at <= now(inner)) || is_taken_over(&record, &silent);
        // To park it would take the time from it, and in a queue its first turn.
        let is_early = !wanted && !known.begun && begins_later(inner, &record).is_some();
        if is_early && !(due && is_asked_to_end(inner, &record.id).await) {
            match known.misfit {
                None => found.fits += 1,
                Some(misfit) if !record.parked => found.early.push((record.id, misfit.fault)),
                Some(_) => {}
            }
            continue;
        }
        match known.misfit {
            // It is asked to end, and has not begun: that needs none of its code.
            Some(_) if is_early => fits.push(record.id),
            None => {
                found.fits += 1;
                // A run of which this program has no code is one whose steps are undone: no turn is granted to that here.
                if !waits_for_a_turn(&record) || known.code.is_none() {
                    if due || record.parked {
                        fits.push(record.id);
                    }
                } else if due
                    && inner.adoptions.may_recode(&record.id, shared.environment.monotonic())
                    && let Some(code) = known.code
                {
                    // Its turn is its queue's to give, among those of this program's own code.
                    let RunRecord { id: run, epoch, code: was, .. } = record;
                    queued.push(Recode { run, epoch, was, code });
                }
            }
            // Somebody else may have it who has not said so.
            Some(misfit)
                if !record.parked
                    && is_unlinked(&misfit.fault)
                    && elsewhere.iter().any(|worker| !worker.codes.is_empty())
                    && !overdue(inner, &record) => {}
            Some(misfit) if !record.parked => {
                misfits.insert(record.id, (known.position, misfit));
            }
            // Parked, and asked to end: that needs none of its code.
            Some(_) if due && is_asked_to_end(inner, &record.id).await => fits.push(record.id),
            Some(_) => {}
        }
    }
    found.claimed += claim_fitting(inner, fits, wanted).await?;
    found.parked.extend(park_all(inner, misfits).await?);
    // Last: who holds the lock of a queue keeps nothing else back.
    match recode(inner, queued, &elsewhere).await {
        Ok(recoded) => found.recoded += recoded,
        Err(error) => {
            tracing::warn!(target: "aether::engine", %error, "runs of other code cannot be left to their queues yet");
        }
    }
    Ok(())
}

/// Whether a silent worker was advancing the run: it is due, whatever the clock said when it was created or claimed.
fn is_taken_over(record: &RunRecord, silent: &[SilentWorker]) -> bool {
    record.status == Status::Running
        && record.owner.as_ref().is_some_and(|owner| silent.iter().any(|silent| silent.id == *owner))
}

/// Whether only its queue can give the run its next turn.
fn waits_for_a_turn(record: &RunRecord) -> bool {
    record.terms.queue.is_some() && record.owner.is_none() && !record.parked
}

/// For so many leases a run that was given this program's code, although there is a worker with its own, is not given it
/// again: that worker may take it back, because it cannot know either whether the other one advances its queue.
const CONTESTED: u32 = 20;
/// As well where there was no such worker, as far as is known.
const UNCONTESTED: u32 = 2;

/// Gives runs of queues this program's code. Whoever has it claims them.
async fn recode(inner: &Inner, runs: Vec<Recode>, elsewhere: &[Serving]) -> Result<usize, StoreError> {
    if runs.is_empty() {
        return Ok(0);
    }
    let recoded = inner.shared.store.recode(runs.clone()).await?;
    let (now, lease) = (inner.shared.environment.monotonic(), inner.settings.lease);
    for Recode { run, was, .. } in runs {
        let is_contested = elsewhere.iter().any(|worker| worker.codes.contains(&was));
        let leases = if is_contested { CONTESTED } else { UNCONTESTED };
        inner.adoptions.remember_recoded(run, now.saturating_add(lease.saturating_mul(leases)));
    }
    inner.adoptions.count_adopted(recoded);
    inner.wake_scheduler.notify_one();
    Ok(recoded)
}

/// Whether a worker with the run's code is there to advance it. One that has let it lie for a whole lease is not, and none
/// that does not take runs of its queue.
fn is_left_to_others(inner: &Inner, record: &RunRecord, elsewhere: &[Serving]) -> bool {
    let place = record.terms.queue.as_ref().filter(|_| waits_for_a_turn(record));
    let takes = |worker: &Serving| {
        worker.codes.contains(&record.code) && place.is_none_or(|place| worker.serves.takes(Some(place)))
    };
    elsewhere.iter().any(takes) && !overdue(inner, record)
}

/// What is known of a run as it is now; tries it where nothing is.
async fn known_or_tried(inner: &Arc<Inner>, record: &RunRecord) -> Option<Known> {
    let adoptions = &inner.adoptions;
    let known = adoptions.known().get(&record.id).cloned();
    if let Some(known) = known
        && (known.position == record.next || lasts(inner, &known, record).await)
    {
        return Some(known);
    }
    let environment = &inner.shared.environment;
    if adoptions.has_just_failed(&record.id, record.next, environment.monotonic()) {
        return None;
    }
    adoptions.tried.fetch_add(1, Ordering::Relaxed);
    match try_run(inner, record).await {
        Ok(Trial { position, begun, needs, code, misfit, .. }) => {
            let misfit = misfit.map(|fault| Misfit { fault, needs });
            let known = Known { position, lasting: false, begun, code, misfit };
            adoptions.known().insert(record.id.clone(), known.clone());
            Some(known)
        }
        // It says nothing of the code. A damaged journal is a fault of the run's next claim.
        Err(fault) => {
            tracing::warn!(target: "aether::engine", run = %record.id, %fault, "cannot try an open run of other code");
            // A store that fails may answer the next time.
            if !matches!(fault, Fault::Store(_)) {
                let until = environment.monotonic().saturating_add(inner.settings.lease);
                adoptions.remember_failed(&record.id, record.next, until);
            }
            None
        }
    }
}

/// Whether a misfit that lasts while the run is parked still says something of it: not once steps are undone, for which other
/// code is looked at.
async fn lasts(inner: &Inner, known: &Known, record: &RunRecord) -> bool {
    if !known.lasting || !record.parked {
        return false;
    }
    let since = inner.shared.store.load(&record.id, known.position).await;
    // A store that cannot say it is asked again at the next look.
    let is_undoing =
        |frames: Vec<StoredFrame>| frames.iter().any(|frame| frame.text.contains("run_unwinding"));
    if since.is_ok_and(is_undoing) {
        return false;
    }
    if let Some(known) = inner.adoptions.known().get_mut(&record.id) {
        known.position = record.next;
    }
    true
}

fn is_unlinked(fault: &Fault) -> bool {
    matches!(fault, Fault::NotLinked { .. } | Fault::NewerVersion { .. })
}

/// Whether the run could be claimed for a whole lease and nobody has done so.
fn overdue(inner: &Inner, record: &RunRecord) -> bool {
    // What a worker held that is silent was due long before: others may take it only since then.
    if let Some(owner) = &record.owner {
        return inner.watch().is_long_silent(owner);
    }
    record.wake_at.is_some_and(|at| later(at, inner.settings.lease) <= now(inner))
}

/// A store that cannot say it is asked again at the next look.
async fn is_asked_to_end(inner: &Inner, run: &RunId) -> bool {
    let inbox = inner.shared.store.inbox(run, 0).await.unwrap_or_default();
    inbox.iter().any(|message| END_REQUESTS.contains(&message.topic.as_str()))
}

async fn claim(inner: &Arc<Inner>, runs: Vec<RunId>) -> Result<Vec<Lease>, StoreError> {
    let shared = &inner.shared;
    let request = ClaimRequest {
        worker: shared.worker.clone(),
        now: now(inner),
        silent: inner.watch().silent(),
        limit: runs.len(),
        codes: Vec::new(),
        only: None,
        adopt: runs,
        serves: inner.serves.clone(),
        others_first: false,
        lapsed_first: false,
    };
    shared.store.claim(request).await
}

/// Claims and launches runs that this program's code fits, as far as there is room.
async fn claim_fitting(inner: &Arc<Inner>, mut runs: Vec<RunId>, wanted: bool) -> Result<usize, StoreError> {
    runs.truncate(inner.room_for(runs.len()));
    if runs.is_empty() {
        return Ok(0);
    }
    let Some(admission) = inner.admit().await else { return Ok(0) };
    let leases = claim(inner, runs).await?;
    let claimed = leases.len();
    inner.adoptions.count_adopted(claimed);
    // As far as the scheduler is concerned they are claimed; whoever wants one of them at once waits for it.
    join_all(launch_claimed(inner, leases, wanted, admission)).await;
    Ok(claimed)
}

/// Claims runs that this program's code does not fit, and parks them.
async fn park_all(
    inner: &Arc<Inner>,
    mut misfits: HashMap<RunId, (Position, Misfit)>,
) -> Result<Vec<(RunId, Fault)>, StoreError> {
    if misfits.is_empty() {
        return Ok(Vec::new());
    }
    // A shutdown waits until what is claimed here is released.
    let Some(admission) = inner.admit().await else { return Ok(Vec::new()) };
    let runs = misfits.keys().cloned().collect();
    let (mut parked, mut others) = (Vec::new(), Vec::new());
    for lease in claim(inner, runs).await? {
        match misfits.remove(&lease.run.id) {
            Some((position, misfit)) => parked.push(park_one(inner, lease, position, misfit)),
            // A claim may bring back others, of which an earlier answer was lost.
            None => others.push(lease),
        }
    }
    let _tasks = launch_claimed(inner, others, false, admission.clone());
    Ok(join_all(parked).await.into_iter().flatten().collect())
}

/// The run with the difference, where it was parked; it is released otherwise.
async fn park_one(
    inner: &Arc<Inner>,
    lease: Lease,
    tried: Position,
    misfit: Misfit,
) -> Option<(RunId, Fault)> {
    let RunRecord { id: run, epoch, next, .. } = lease.run;
    let held = Held { run: &run, epoch, next, seen: 0, tried_live: false };
    let why = match misfit.needs {
        None => "its code is not known".to_owned(),
        Some(_) if next != tried => "its journal has grown since it was tried".to_owned(),
        Some(needs) => match park(inner, held, &misfit.fault, needs).await {
            Ok(()) => return Some((run, misfit.fault)),
            Err(error) => error.to_string(),
        },
    };
    tracing::debug!(target: "aether::engine", %run, why, "run not parked");
    if let Err(error) = inner.shared.store.release(&inner.shared.worker, &run, epoch, now(inner)).await {
        tracing::warn!(target: "aether::engine", %run, %error, "cannot release a run");
    }
    None
}
