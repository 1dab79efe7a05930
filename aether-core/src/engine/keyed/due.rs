//! Looking for keyed starts whose time has come: what is gathered begins, what is decided is created, what is over goes.
//!
//! Promise: a start that was answered begins even if the process that answered it is gone, and its clock was wrong.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::select;
use futures_util::stream;
use jiff::Timestamp;

use crate::engine::inner::{Inner, now};
use crate::engine::keyed::complete::{HELD, bring_back, complete, put};
use crate::engine::keyed::record::{Stage, Standing, StartRecord};
use crate::engine::steady_clock::STEADY;
use crate::store::error::StoreError;
use crate::store::queues::{DueStarts, KeyedStart};
use crate::vocabulary::environment::{Environment, later};
use crate::vocabulary::payload::Payload;

/// How many records are read at a time.
const BATCH: usize = 256;
/// How many of them are completed at a time: each is written by itself, and a store writes what comes together at once.
const AT_ONCE: usize = 16;
/// How often records are looked for that a clock put far off.
const SEARCH: Duration = Duration::from_secs(300);
/// What is due later than this is looked at then. Those before it begin, or the next start with their key brings them back.
const FAR_OFF: Duration = Duration::from_secs(32 * 24 * 3_600);

/// Completes due keyed starts until the engine stops.
pub(crate) async fn complete_starts(inner: Weak<Inner>, environment: Arc<dyn Environment>, poll: Duration) {
    let mut searched: Option<Duration> = None;
    loop {
        // Held for no longer than a look, so that an engine without users goes, and its store with it.
        let (wake, next) = {
            let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping()) else { return };
            let is_time = searched.is_none_or(|at| environment.monotonic().saturating_sub(at) >= SEARCH);
            if inner.steady.is_steady(&*environment) && is_time {
                searched = Some(environment.monotonic());
                if let Err(error) = search(&inner).await {
                    tracing::debug!(target: "aether::engine", %error, "cannot look for keyed starts that are far off");
                }
            }
            let next = look_unless_drained(&inner, poll).await.unwrap_or_else(|error| {
                if !matches!(error, StoreError::NoQueues { .. }) {
                    tracing::warn!(target: "aether::engine", %error, "cannot look for keyed starts that are due");
                }
                None
            });
            (Arc::clone(&inner.wake_gathering), next)
        };
        let due = match next {
            Some(next) => environment.sleep_until(next),
            None => Box::pin(std::future::pending()),
        };
        select(Box::pin(wake.notified()), select(due, environment.sleep(poll))).await;
    }
}

/// As [`look`]; an engine that drains leaves it to others.
async fn look_unless_drained(inner: &Arc<Inner>, poll: Duration) -> Result<Option<Timestamp>, StoreError> {
    if inner.takes_runs() { look(inner, poll).await } else { Ok(None) }
}

/// Completes what is due; returns when the next is, if that is within a poll interval.
async fn look(inner: &Arc<Inner>, poll: Duration) -> Result<Option<Timestamp>, StoreError> {
    let horizon = later(now(inner), poll);
    let mut query = DueStarts { now: horizon, workflows: inner.workflow_names(), after: None, limit: BATCH };
    // Page after page: those that this build cannot complete, or not read, hide no others.
    loop {
        let page = inner.shared.store.due_starts(query.clone()).await?;
        let is_last = page.len() < BATCH;
        query.after = page.last().map(|last| (last.due_at, last.name.clone()));
        let now = now(inner);
        let next = page.iter().map(|start| start.due_at).find(|due_at| *due_at > now);
        let due = page.into_iter().take_while(|start| start.due_at <= now);
        let completed = stream::iter(due).for_each_concurrent(AT_ONCE, async |start| {
            if let Err(error) = complete_due(inner, &start).await {
                tracing::warn!(target: "aether::engine", name = start.name, %error, "cannot complete a keyed start yet");
            }
        });
        completed.await;
        if next.is_some() {
            return Ok(next);
        }
        if is_last || !inner.takes_runs() {
            return Ok(None);
        }
    }
}

/// Brings back what a clock that was ahead has put far off.
async fn search(inner: &Arc<Inner>) -> Result<(), StoreError> {
    let mut query = DueStarts {
        now: Timestamp::MAX,
        workflows: inner.workflow_names(),
        after: Some((later(now(inner), FAR_OFF), String::new())),
        limit: BATCH,
    };
    while inner.takes_runs() {
        let page = inner.shared.store.due_starts(query.clone()).await?;
        query.after = page.last().map(|last| (last.due_at, last.name.clone()));
        for start in &page {
            let Some(_admission) = inner.admit().await else { return Ok(()) };
            // One that cannot be read is told when it is due.
            if let Ok(record) = StartRecord::read(start) {
                bring_back(inner, start, &record).await?;
            }
        }
        if page.len() < BATCH {
            return Ok(());
        }
    }
    Ok(())
}

async fn complete_due(inner: &Arc<Inner>, start: &KeyedStart) -> Result<(), StoreError> {
    // A shutdown waits for what is written here, and nothing is written behind it.
    let Some(admission) = inner.admit().await else { return Ok(()) };
    // Its key was destroyed: what would begin cannot be read any more, and a run that has the name does nothing more.
    if start.record == Payload::null() {
        return inner.shared.store.remove_keyed_start(&start.name, start.revision).await.map(drop);
    }
    let record = StartRecord::read(start)?;
    match record.stage {
        Stage::Gathering => {
            let decided = StartRecord { stage: Stage::Decided, ..record };
            // An input that came first makes it due again later.
            if put(inner, start, &decided, now(inner)).await? {
                let start = KeyedStart { revision: start.revision + 1, ..start.clone() };
                complete(inner, &start, decided, &admission).await?;
            }
        }
        Stage::Decided | Stage::Refused => {
            complete(inner, start, record, &admission).await?;
        }
        // Its window may be over by nothing but this clock.
        Stage::Created if record.until.is_some() && !inner.steady.is_steady(&*inner.shared.environment) => {
            put(inner, start, &record, later(now(inner), STEADY)).await?;
        }
        Stage::Created if record.until.is_some() || record.standing(inner).await? == Standing::Over => {
            inner.shared.store.remove_keyed_start(&start.name, start.revision).await?;
        }
        Stage::Created => {
            put(inner, start, &record, later(now(inner), HELD)).await?;
        }
    }
    Ok(())
}
