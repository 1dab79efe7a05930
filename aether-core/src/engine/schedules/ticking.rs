//! Looking for ticks that are due, deciding them, and starting their runs.
//!
//! Promise: a decision is durable before a run is created, so a worker that dies in between leaves the start to the
//! next. Of two workers that decide at the same time one decision counts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select;
use futures_util::stream::{self, StreamExt as _};
use jiff::Timestamp;

use crate::engine::admission::Admission;
use crate::engine::inner::{Inner, now};
use crate::engine::operate::send_end_request;
use crate::engine::schedules::decision::{aim, cron_of, decide, is_aimed_too_far};
use crate::engine::schedules::error::ScheduleError;
use crate::engine::schedules::handle::{self, change, find, linked, run_id};
use crate::engine::start::StartError;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::store::error::StoreError;
use crate::store::schedules::{DueSchedules, Overlap, ScheduleRecord, Tick, TickOutcome};
use crate::vocabulary::environment::{CLOCKS_APART, Environment, later};

/// How often a worker looks, at most. An engine that polls less often looks when it polls.
const LOOK: Duration = Duration::from_secs(1);
/// How often schedules are looked for that a clock has aimed too far.
const SEARCH: Duration = Duration::from_secs(300);
/// How many schedules are read at a time.
const BATCH: usize = 256;
/// How many are advanced at the same time, so that their writes share commits.
const AT_ONCE: usize = 64;

/// Looks for due ticks until the engine stops.
pub(crate) async fn tick(inner: Weak<Inner>, environment: Arc<dyn Environment>, poll: Duration) {
    let pause = poll.max(LOOK);
    let mut searched: Option<Duration> = None;
    loop {
        // Held for no longer than a look, so that an engine without users goes, and its store with it.
        let (wake, next) = {
            let Some(inner) = inner.upgrade().filter(|inner| inner.takes_runs()) else { return };
            let is_time = searched.is_none_or(|at| environment.monotonic().saturating_sub(at) >= SEARCH);
            if inner.steady.is_steady(&*environment) && is_time {
                searched = Some(environment.monotonic());
                if let Err(error) = aim_again(&inner).await {
                    tracing::debug!(target: "aether::engine", %error, "cannot look for schedules that are aimed too far");
                }
            }
            let next = look(&inner, pause).await.unwrap_or_else(|error| {
                tracing::warn!(target: "aether::engine", %error, "cannot look for schedules that are due");
                None
            });
            (Arc::clone(&inner.wake_ticking), next)
        };
        let due = match next {
            Some(next) => environment.sleep_until(next),
            None => Box::pin(std::future::pending()),
        };
        select(Box::pin(wake.notified()), select(due, environment.sleep(pause))).await;
    }
}

/// Advances what is due; returns when to look again, if that is before the pause is over.
async fn look(inner: &Arc<Inner>, pause: Duration) -> Result<Option<Timestamp>, StoreError> {
    let horizon = later(now(inner), pause);
    let mut query =
        DueSchedules { now: horizon, workflows: inner.workflow_names(), after: None, limit: BATCH };
    let mut next: Option<Timestamp> = None;
    // Page after page: those that are due and wait, or whose zone this machine does not know, hide no others.
    loop {
        let page = inner.shared.store.due_schedules(query.clone()).await?;
        let is_last = page.len() < BATCH;
        query.after = page.last().and_then(|last| last.due_at().map(|due| (due, last.name.clone())));
        let looked: Vec<Option<Timestamp>> = stream::iter(page)
            .map(|schedule| look_at(inner, schedule))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        next = looked.into_iter().flatten().chain(next).min();
        if is_last || !inner.takes_runs() {
            return Ok(next);
        }
    }
}

/// Aims schedules anew of which a clock that was ahead has decided ticks whose time has not come.
async fn aim_again(inner: &Arc<Inner>) -> Result<(), StoreError> {
    let mut query = DueSchedules {
        now: Timestamp::MAX,
        workflows: inner.workflow_names(),
        after: Some((later(now(inner), CLOCKS_APART), String::new())),
        limit: BATCH,
    };
    while inner.takes_runs() {
        let page = inner.shared.store.due_schedules(query.clone()).await?;
        query.after = page.last().and_then(|last| last.due_at().map(|due| (due, last.name.clone())));
        for schedule in &page {
            let Some(_admission) = inner.admit().await else { return Ok(()) };
            if let Err(error) = aim_one_again(inner, schedule).await {
                tracing::warn!(target: "aether::engine", schedule = schedule.name, %error, "cannot aim a schedule again");
            }
        }
        if page.len() < BATCH {
            return Ok(());
        }
    }
    Ok(())
}

async fn aim_one_again(inner: &Inner, schedule: &ScheduleRecord) -> Result<(), ScheduleError> {
    let now = now(inner);
    let cron = cron_of(&schedule.spec)?;
    if !is_aimed_too_far(schedule, &cron, now) {
        return Ok(());
    }
    tracing::warn!(
        target: "aether::engine", schedule = schedule.name, next = %schedule.next,
        "a clock that was ahead has decided ticks of a schedule whose time has not come: it ticks again from now on"
    );
    change(inner, &schedule.name, |schedule| {
        if is_aimed_too_far(schedule, &cron, now) {
            schedule.starting.retain(|at| *at <= now);
            aim(schedule, &cron, cron.due_after(now));
        }
    })
    .await
}

/// Advances one schedule; returns when to look at it again, if that is soon.
async fn look_at(inner: &Arc<Inner>, schedule: ScheduleRecord) -> Option<Timestamp> {
    let due = schedule.due_at()?;
    if due > now(inner) {
        return Some(due);
    }
    let name = schedule.name.clone();
    // A shutdown waits for what is written here, and nothing is written behind it.
    let admission = inner.admit().await?;
    match advance(inner, schedule, &admission).await {
        // Its next tick may be near.
        Ok(true) => Some(now(inner)),
        Ok(false) => None,
        Err(error) => {
            tracing::warn!(target: "aether::engine", schedule = name, %error, "cannot start what a schedule has due");
            None
        }
    }
}

/// Starts what is decided, or decides what is due and starts that. Says whether anything has changed.
async fn advance(
    inner: &Arc<Inner>,
    schedule: ScheduleRecord,
    admission: &Admission,
) -> Result<bool, ScheduleError> {
    // A worker that has the workflow advances it.
    if linked(inner, &schedule).is_none() {
        return Ok(false);
    }
    if !schedule.starting.is_empty() {
        return start_decided(inner, &schedule, admission).await.map(|()| true);
    }
    let (cron, now) = (cron_of(&schedule.spec)?, now(inner));
    let Some(mut decided) = decide(&schedule, &cron, now, false) else { return Ok(false) };
    // An earlier run is in the way only of a tick that is started for the first time.
    if let Some(&tick) = decided.starting.first()
        && schedule.last != Some(tick)
        && is_open(inner, &schedule).await?
    {
        if !end_earlier(inner, &schedule, tick).await? {
            return Ok(true);
        }
        let Some(overlapping) = decide(&schedule, &cron, now, true) else { return Ok(false) };
        decided = overlapping;
    }
    decided.revision = schedule.revision + 1;
    if inner.shared.store.put_schedule(decided.clone(), schedule.revision).await? {
        start_decided(inner, &decided, admission).await?;
    }
    Ok(true)
}

/// Whether the run of the newest tick has not ended.
pub(super) async fn is_open(inner: &Inner, schedule: &ScheduleRecord) -> Result<bool, ScheduleError> {
    let Some(last) = schedule.last else { return Ok(false) };
    let run = run_id(&schedule.name, last)?;
    // A run that was purged has ended.
    Ok(inner.shared.store.run(&run).await?.is_some_and(|run| !run.status.is_terminal()))
}

/// Asks the run of the newest tick to end, where the schedule says so, because `tick` is due. Asking again changes nothing.
/// Where the schedule has been changed or removed since it was read, nobody is asked, and the answer is no.
async fn end_earlier(
    inner: &Arc<Inner>,
    schedule: &ScheduleRecord,
    tick: Timestamp,
) -> Result<bool, ScheduleError> {
    let at_once = match schedule.spec.overlap {
        Overlap::Cancel => false,
        Overlap::Terminate => true,
        _ => return Ok(true),
    };
    let Some(last) = schedule.last else { return Ok(true) };
    let (reason, actor) = (format!("the tick of {tick} is due"), format!("schedule {}", schedule.name));
    let run = run_id(&schedule.name, last)?;
    // Last of all: who was paused since then knows nothing of what an operator has done meanwhile.
    let current = inner.shared.store.schedule(&schedule.name).await?;
    if current.is_none_or(|current| current.revision != schedule.revision) {
        return Ok(false);
    }
    match send_end_request(inner, &run, &EndRequest { reason, actor }, at_once).await {
        // It was purged since it was found open.
        Ok(_) | Err(SendError::Store(StoreError::UnknownRun { .. })) => Ok(true),
        Err(SendError::Store(error)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(target: "aether::engine", %run, %error, "a schedule cannot end the run of its earlier tick");
            Ok(true)
        }
    }
}

async fn start_decided(
    inner: &Arc<Inner>,
    schedule: &ScheduleRecord,
    admission: &Admission,
) -> Result<(), ScheduleError> {
    for at in schedule.starting.iter().copied() {
        // It may have been paused or removed since, or another worker was first.
        let current = find(inner, &schedule.name).await?;
        if current.paused || !current.starting.contains(&at) {
            continue;
        }
        let outcome = match handle::start_decided(inner, &current, at, admission).await {
            Ok(true) => TickOutcome::Started,
            // Decided on anew, or by another worker: the next look sees it.
            Ok(false) => continue,
            // Another look, or another worker, tries again.
            Err(
                error @ (ScheduleError::Store(_)
                | ScheduleError::NotLinked { .. }
                | ScheduleError::Start(StartError::Store(_) | StartError::ShutDown { .. })),
            ) => return Err(error),
            Err(error) => {
                tracing::error!(target: "aether::engine", schedule = schedule.name, tick = %at, %error, "a tick has no run");
                TickOutcome::Failed(error.to_string())
            }
        };
        change(inner, &schedule.name, |schedule| {
            let is_decided = schedule.starting.contains(&at);
            schedule.starting.retain(|starting| *starting != at);
            // Another worker has noted it, unless a pause came in between.
            if is_decided || schedule.paused {
                schedule.keep(Tick { at, until: at, outcome: outcome.clone(), noted_at: Some(now(inner)) });
            }
        })
        .await?;
    }
    Ok(())
}
