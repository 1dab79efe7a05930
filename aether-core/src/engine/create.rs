//! Creating a run.
//!
//! Promise: neither a caller that is dropped between the creation and its answer nor a store that carries a creation out
//! and says that it failed leaves a run that this worker owns and does not advance.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::OwnedRwLockReadGuard;

use crate::engine::admission::Admission;
use crate::engine::advance::launch::{launch_run, release_run};
use crate::engine::advance::load::Launch;
use crate::engine::code::run_code;
use crate::engine::inner::{Inner, now};
use crate::engine::whole::whole;
use crate::journal::event::RunCreated;
use crate::journal::frame::Frame;
use crate::journal::generation::Generation;
use crate::journal::history::History;
use crate::journal::large_values::{LargeValue, large};
use crate::journal::obligations::Obligations;
use crate::journal::spending::Spending;
use crate::policy::replay::Mode;
use crate::run::claim::Origin;
use crate::run::fault::Fault;
use crate::run::program::RegisteredWorkflow;
use crate::store::birth::BirthNotice;
use crate::store::error::StoreError;
use crate::store::open_waits::OpenWaits;
use crate::store::records::{Created, Decision, NewRun};
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Digest, Payload, PayloadError, hex};
use crate::vocabulary::queue::StartTerms;

/// A run to be created.
pub(crate) struct NewRunOf {
    pub(super) workflow: RegisteredWorkflow,
    pub(super) id: RunId,
    pub(super) input: Payload,
    pub(super) parent: Option<RunId>,
    pub(super) labels: Labels,
    pub(super) traceparent: Option<String>,
    /// The epoch at which this worker holds the parent.
    pub(super) parent_epoch: Option<Epoch>,
    /// Its queue, and when it may begin.
    pub(super) terms: StartTerms,
    /// Whether the run's id was generated for it, so that no other run can have it.
    pub(super) unique: bool,
}

/// An id that no other run has: a UUIDv7 from the engine's clock and entropy (RFC 9562, section 5.7).
pub(super) fn fresh_id(inner: &Inner) -> RunId {
    let mut random = [0; 10];
    inner.shared.environment.fill_random(&mut random);
    let millis = u64::try_from(now(inner).as_millisecond()).unwrap_or(0);
    RunId::from(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
}

/// Under what a run is created.
#[derive(Debug, Default)]
struct Under {
    /// Of the caller, if it has one.
    admission: Option<Admission>,
    decision: Option<Decision>,
}

/// Creates a child run, and launches it unless its id is taken. `start_guard` is dropped when the run exists.
pub(super) async fn create_child(
    inner: &Arc<Inner>,
    new: NewRunOf,
    start_guard: OwnedRwLockReadGuard<()>,
) -> Result<Created, StoreError> {
    create_under(inner, new, Some(start_guard), Under::default()).await
}

/// Creates a run, and launches it unless its id is taken.
pub(super) async fn create_run(
    inner: &Arc<Inner>,
    new: NewRunOf,
    admission: Admission,
) -> Result<Created, StoreError> {
    create_under(inner, new, None, Under { admission: Some(admission), decision: None }).await
}

/// As [`create_run`], as long as what it rests on stands.
pub(super) async fn create_decided(
    inner: &Arc<Inner>,
    new: NewRunOf,
    decision: Decision,
    admission: Admission,
) -> Result<Created, StoreError> {
    create_under(inner, new, None, Under { admission: Some(admission), decision: Some(decision) }).await
}

async fn create_under(
    inner: &Arc<Inner>,
    new: NewRunOf,
    start_guard: Option<OwnedRwLockReadGuard<()>>,
    under: Under,
) -> Result<Created, StoreError> {
    if new.unique {
        // Needs no task: it launches the run before it waits for the store, so a caller that is dropped at any await
        // leaves either no run or one that is advanced.
        return create_and_launch(inner, new, under).await;
    }
    // The caller may be dropped while the store creates the run: a step that lost a race, a request that timed out.
    // The row then names this worker as its owner, and every renewal extends its lease, but no task advances it; no
    // other worker could ever claim it. A task of its own always comes from the creation to the launch.
    //
    // The guard travels with it. A parent that ends waits until no start of a child is under way, and only then asks
    // its children to end; a guard that the caller held would be dropped too early, and that child would be missed.
    let engine = Arc::clone(inner);
    let creation = async move {
        let _start_guard = start_guard;
        create_and_launch(&engine, new, under).await
    };
    whole(inner, creation).await
}

async fn create_and_launch(inner: &Arc<Inner>, new: NewRunOf, under: Under) -> Result<Created, StoreError> {
    let NewRunOf { workflow, id, input, parent, labels, traceparent, parent_epoch, terms, unique } = new;
    // Until the run is launched or released: a shutdown waits for it.
    let _admission = match under.admission {
        Some(admission) => admission,
        None => inner.admissions.begin().await,
    };
    let def = workflow.def;
    let shared = &inner.shared;
    let input = shared.redaction.value(input);
    let mut seed = [0; 16];
    shared.environment.fill_random(&mut seed);
    let seed = hex(&seed);
    let unencodable = |error: PayloadError| StoreError::Unencodable {
        what: format!("the input of run `{id}`"),
        reason: error.to_string(),
    };
    let digest = Digest::of(&input).map_err(unencodable)?;
    let code = run_code(def);
    let code_id = code.id();
    let created = RunCreated {
        workflow: def.name.into(),
        module: def.module.into(),
        version: def.version,
        fingerprint: code.fingerprint.clone(),
        input: input.clone(),
        digest: digest.clone(),
        seed: seed.clone(),
        parent: parent.clone(),
        labels: labels.clone(),
        forked_from: None,
        terms: terms.clone(),
    };
    let (at, run, budget, started_in) = (now(inner), id.clone(), terms.budget.clone(), traceparent.clone());
    let created: crate::journal::event::Event = created.into();
    let events = std::slice::from_ref(&created);
    let large_values = large(events, shared.limits.inline);
    shared.store.announce(&id, &labels);
    store_values(inner, &id, &large_values).await?;
    let frame = Frame::referring(events, &large_values).map_err(unencodable)?;
    inner.adoptions.note_code(code_id.clone(), def);
    // Its queue or its time comes first: whoever claims it then advances it.
    let waits = terms.queue.is_some() || terms.not_before.is_some_and(|begins| begins > at);
    // A drain that begins from here on finds the run active, or releases it.
    let advances = inner.takes_runs() && inner.serves.others && !waits;
    let new_run = NewRun {
        id: id.clone(),
        workflow: def.name.into(),
        version: def.version,
        code: code_id,
        digest,
        parent: parent.clone(),
        labels,
        traceparent,
        frame,
        at,
        owner: advances.then(|| shared.worker.clone()),
        parent_epoch,
        terms,
    };
    let mut early = None;
    let creation = match under.decision {
        Some(decision) => shared.store.create_decided(new_run, decision),
        // Large values are stored anew behind the creation, before the run reads them.
        None if advances && !unique && large_values.is_empty() => {
            let (notice, news) = BirthNotice::new();
            early = Some((notice.birth(), news));
            shared.store.create_early(new_run, notice)
        }
        None => shared.store.create(new_run),
    };
    if !advances {
        let created = creation.await;
        if created == Ok(Created::New) {
            store_values(inner, &run, &large_values).await?;
        }
        inner.wake_scheduler.notify_one();
        return created;
    }
    let launch = |birth| {
        let origin = Origin {
            id,
            def: workflow.def,
            epoch: 1,
            mode: Mode::Recover,
            seed,
            traceparent: started_in,
            next: 1,
            generation: Generation::default(),
            history: History::default(),
            obligations: Obligations::default(),
            spending: Spending::of(budget.as_deref()),
            open_waits: OpenWaits::default(),
            inbox: Vec::new(),
            effects: Vec::new(),
            streams: Vec::new(),
            adopts: None,
            parked: None,
            same_code: true,
            queued: false,
            read_since: None,
            birth,
        };
        shared.observe(&origin.id, || at, vec![created]);
        launch_run(
            inner,
            Launch {
                origin,
                workflow,
                input,
                parent,
                needs: code,
                begun: false,
                lacks: None,
                expired: None,
                unwinding: None,
                beginning: None,
            },
        )
    };
    // Left: the run is new, and its creation is on its way to the disk.
    let known = match early {
        // No other run can have the id, so the answer is known: the run is launched at once. `Store::create` queued its first
        // event when it was called, and a store keeps the order of its queue: nothing of the run becomes durable, and no
        // world-changing call is permitted, before the creation is durable.
        _ if unique => Either::Left((None, creation)),
        // The id may belong to another run, which must not be launched under this input: the store's word comes first.
        Some((birth, news)) => match select(news, creation).await {
            Either::Left((Ok(()), creation)) => Either::Left((Some(birth), creation)),
            Either::Left((Err(_nothing_is_told), creation)) => Either::Right(creation.await),
            Either::Right((answer, _)) => Either::Right(answer),
        },
        None => Either::Right(creation.await),
    };
    let (launched, answer) = match known {
        Either::Left((birth, creation)) => (Some(launch(birth)), creation.await),
        Either::Right(Ok(Created::New)) => {
            // An older run of this id may have been purged since its values were stored, or another start of it refused, and
            // they went with that.
            let stored = store_values(inner, &run, &large_values).await;
            (stored.is_ok().then(|| launch(None)), stored.map(|()| Created::New))
        }
        Either::Right(answer) => (None, answer),
    };
    look_for_failed(inner, &run, at, &answer);
    let is_new = answer == Ok(Created::New);
    match launched {
        // Where nothing stops here, this claim is given back, and whoever does that releases the run.
        Some(None) if (unique || is_new) && !inner.takes_runs() => {
            release_run(inner, &run, 1, Fault::ShutDown { run: run.clone() }).await;
        }
        Some(Some(launched)) if !unique && !is_new => launched.fail(launched.unborn()),
        _ => {}
    }
    answer
}

/// Stores the large values of a run that is to be created, or was.
pub(super) async fn store_values(
    inner: &Inner,
    run: &RunId,
    values: &[LargeValue],
) -> Result<(), StoreError> {
    for LargeValue { value, at } in values {
        inner.shared.store.put_blob(run, &at.sha256, value.as_str().into()).await?;
    }
    Ok(())
}

/// The longest pause between two looks for a creation that failed.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long it is looked for. What takes effect later still is found among the runs that are owned and not advanced.
const LATE: Duration = Duration::from_secs(120);

/// A creation that failed may have been carried out all the same: its answer was lost, and nobody waited for longer.
fn look_for_failed(inner: &Arc<Inner>, run: &RunId, at: Timestamp, answer: &Result<Created, StoreError>) {
    let may_be_there = |error: &StoreError| !matches!(error, StoreError::Unencodable { .. });
    if answer.as_ref().is_err_and(may_be_there) {
        inner.spawn(release_if_created(Arc::clone(inner), run.clone(), at));
    }
}

/// Releases a run that this worker owns without knowing it; its next claim launches it.
async fn release_if_created(inner: Arc<Inner>, run: RunId, at: Timestamp) {
    let shared = &inner.shared;
    let (mut wait, mut absent) = (inner.settings.poll, Duration::ZERO);
    while !inner.is_stopping() && absent < LATE {
        shared.environment.sleep(wait).await;
        match shared.store.run(&run).await {
            Ok(Some(record)) => {
                // The run may have been created by somebody else, or have been launched before its creation was answered.
                let is_of_this_call = record.owner.as_ref() == Some(&shared.worker)
                    && record.epoch == 1
                    && record.created_at.as_microsecond() == at.as_microsecond();
                if !is_of_this_call || inner.active().contains_key(&run) {
                    return;
                }
                if shared.store.release(&shared.worker, &run, 1, now(&inner)).await.is_ok() {
                    return inner.wake_scheduler.notify_one();
                }
            }
            Ok(None) => absent += wait,
            Err(_) => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT.max(inner.settings.poll));
    }
}
