//! Looking for ticks that are due, deciding them, and starting their runs.
//!
//! Promise: a decision is durable before a run is created, so a worker that dies in between leaves the start to the
//! next. Of two workers that decide at the same time one decision counts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select;
use jiff::Timestamp;

use crate::engine::inner::{Inner, now};
use crate::engine::schedules::decision::decide;
use crate::engine::schedules::error::ScheduleError;
use crate::engine::schedules::handle::{change, start};
use crate::engine::start::StartError;
use crate::policy::cron::Cron;
use crate::store::error::StoreError;
use crate::store::schedules::{ScheduleRecord, Tick, TickOutcome, run_of_tick};
use crate::vocabulary::environment::{Environment, later};

/// How often a worker looks, at most. An engine that polls less often looks when it polls.
const LOOK: Duration = Duration::from_secs(1);
/// How many schedules one look takes.
const BATCH: usize = 100;

/// Looks for due ticks until the engine stops.
pub(crate) async fn tick(inner: Weak<Inner>, environment: Arc<dyn Environment>, poll: Duration) {
    let pause = poll.max(LOOK);
    loop {
        // Held for no longer than a look, so that an engine without users goes, and its store with it.
        let (wake, next) = {
            let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping()) else { return };
            let next = look(&inner, pause).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot look for schedules that are due");
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
    let (workflows, horizon) = (inner.workflow_names(), later(now(inner), pause));
    let mut again = None;
    for schedule in inner.shared.store.due_schedules(horizon, workflows, BATCH).await? {
        match schedule.due_at() {
            Some(due) if due > now(inner) => return Ok(again.or(Some(due))),
            _ if inner.is_stopping() => break,
            _ => {}
        }
        let name = schedule.name.clone();
        match advance(inner, schedule).await {
            // Its next tick may be near.
            Ok(true) => again = Some(now(inner)),
            Ok(false) => {}
            Err(error) => tracing::warn!(schedule = name, %error, "cannot start what a schedule has due"),
        }
    }
    Ok(again)
}

/// Starts what is decided, or decides what is due and starts that. Says whether anything has changed.
async fn advance(inner: &Arc<Inner>, schedule: ScheduleRecord) -> Result<bool, ScheduleError> {
    if !schedule.starting.is_empty() {
        // What else is due is decided by the next look: others may have written the schedule meanwhile.
        return start_decided(inner, &schedule).await.map(|()| true);
    }
    let cron = Cron::parse(&schedule.spec.cron, &schedule.spec.zone)?;
    let open = is_open(inner, &schedule).await?;
    let Some(mut decided) = decide(&schedule, &cron, now(inner), open) else { return Ok(false) };
    decided.revision = schedule.revision + 1;
    if inner.shared.store.put_schedule(decided.clone(), schedule.revision).await? {
        start_decided(inner, &decided).await?;
    }
    Ok(true)
}

/// Whether the run of the newest tick has not ended.
async fn is_open(inner: &Inner, schedule: &ScheduleRecord) -> Result<bool, ScheduleError> {
    let Some(last) = schedule.last else { return Ok(false) };
    let name = &schedule.name;
    let run = run_of_tick(name, last).map_err(|error| ScheduleError::Name { name: name.clone(), error })?;
    // A run that was purged has ended.
    Ok(inner.shared.store.run(&run).await?.is_some_and(|run| !run.status.is_terminal()))
}

async fn start_decided(inner: &Arc<Inner>, schedule: &ScheduleRecord) -> Result<(), ScheduleError> {
    for at in schedule.starting.iter().copied() {
        let failed = match start(inner, schedule, at).await {
            Ok(_) => None,
            // Another look tries again.
            Err(
                error @ (ScheduleError::Store(_)
                | ScheduleError::Start(StartError::Store(_) | StartError::ShutDown { .. })),
            ) => return Err(error),
            Err(error) => {
                tracing::error!(schedule = schedule.name, tick = %at, %error, "a tick has no run");
                Some(TickOutcome::Failed(error.to_string()))
            }
        };
        change(inner, &schedule.name, |schedule| {
            schedule.starting.retain(|starting| *starting != at);
            if let Some(outcome) = &failed {
                schedule.recent.retain(|tick| tick.at != at);
                schedule.keep(Tick { at, until: at, outcome: outcome.clone() });
            }
        })
        .await?;
    }
    Ok(())
}
