//! Deciding a keyed start: which run holds the key, or what is gathered for it.
//!
//! Promise: of starts at the same time, in however many processes, one decides and the others find what it decided.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::create::NewRunOf;
use crate::engine::inner::{Inner, now};
use crate::engine::keyed::complete::{Completed, complete, end_replaced, put};
use crate::engine::keyed::key::{Batch, KeyError, KeyKind, Singleton, check};
use crate::engine::keyed::record::{Stage, Standing, StartRecord};
use crate::engine::same_input::first_input;
use crate::engine::started_as::is_or_was;
use crate::store::error::StoreError;
use crate::store::queues::{KeyedStart, Limit};
use crate::store::records::RunRecord;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::definition::Workflow;

/// When another worker completes what is decided.
const COMPLETED_WITHIN: Duration = Duration::from_secs(5);

/// A key, and what it means for the starts that have it.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    key: String,
    kind: KeyKind,
}

/// What came of a keyed start.
#[derive(Debug)]
pub(crate) enum KeyedEnd {
    /// This run, and its record if it was there before under the id that the start had.
    Run(RunId, Option<Box<RunRecord>>),
    /// The input was gathered for this run, under this name.
    Gathers { run: RunId, name: Arc<str> },
    /// Another run holds the key.
    Held(RunId),
    /// Too many runs are open.
    OverLimit { limit: Limit, open: u64 },
}

impl Keyed {
    pub(crate) fn once_per(key: String, otherwise: Singleton) -> Result<Self, KeyError> {
        check(&key, &[])?;
        Ok(Self { key, kind: KeyKind::OncePer(otherwise) })
    }

    pub(crate) fn dedup(key: String, window: Duration) -> Result<Self, KeyError> {
        check(&key, &[("the window", window.is_zero())])?;
        Ok(Self { key, kind: KeyKind::Dedup(window) })
    }

    pub(crate) fn debounce(key: String, quiet: Duration, max: Duration) -> Result<Self, KeyError> {
        check(&key, &[("the quiet time", quiet.is_zero()), ("the longest time", max.is_zero())])?;
        Ok(Self { key, kind: KeyKind::Debounce { quiet, max } })
    }

    pub(crate) fn collect<T, W: Workflow<Input = Vec<T>>>(
        key: String,
        max: usize,
        wait: Duration,
    ) -> Result<Self, KeyError> {
        check(&key, &[("the number of elements", max == 0), ("the longest wait", wait.is_zero())])?;
        Ok(Self { key, kind: KeyKind::Collect { max, wait, batch: Batch::of::<T, W>() } })
    }

    /// The key as it was given.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Decides the start of `new`.
    pub(crate) async fn start(self, inner: &Arc<Inner>, new: NewRunOf) -> Result<KeyedEnd, StoreError> {
        let name = format!("{}:{}:{}", self.kind.name(), new.workflow.def.name, self.key);
        loop {
            // Another start may decide between the look and the write, which is refused then: look again.
            let found = inner.shared.store.keyed_start(&name).await?;
            let found = match found {
                // Nobody will read it again, and its run does nothing more: the key is free.
                Some(start) if start.record == Payload::null() => {
                    inner.shared.store.remove_keyed_start(&name, start.revision).await?;
                    continue;
                }
                Some(start) => Some((StartRecord::read(&start)?, start)),
                None => None,
            };
            // Behind that look: a record goes only when its run is there.
            if let Some(existing) = started_before(inner, self.kind, &new).await? {
                return Ok(existing);
            }
            let ended = match self.kind {
                KeyKind::OncePer(otherwise) => once_per(inner, &name, otherwise, &new, found).await?,
                KeyKind::Dedup(window) => dedup(inner, &name, window, &new, found).await?,
                KeyKind::Debounce { .. } | KeyKind::Collect { .. } => {
                    gather(inner, &name, self.kind, &new, found).await?
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }
}

/// The end of a start under the id of a run that exists: it begins nothing, and is that run where both have one input. A
/// batch has the id of its first start, and begins with its elements.
async fn started_before(
    inner: &Inner,
    kind: KeyKind,
    new: &NewRunOf,
) -> Result<Option<KeyedEnd>, StoreError> {
    let store = &*inner.shared.store;
    if new.unique {
        return Ok(None);
    }
    let Some(existing) = store.run(&new.id).await? else { return Ok(None) };
    let mut is_first = false;
    if let KeyKind::Collect { batch, .. } = kind
        && existing.terms.inputs > 1
        && is_or_was(store, &existing, new.workflow.def.name).await?
        && let Some(input) = first_input(inner, &existing).await?
    {
        // What is not readable as a list is no batch.
        is_first = (batch.begins)(&input, &new.input).unwrap_or(false);
    }
    Ok(Some(KeyedEnd::Run(new.id.clone(), (!is_first).then(|| Box::new(existing)))))
}

type Found = Option<(StartRecord, KeyedStart)>;

async fn once_per(
    inner: &Arc<Inner>,
    name: &str,
    otherwise: Singleton,
    new: &NewRunOf,
    found: Found,
) -> Result<Option<KeyedEnd>, StoreError> {
    let mut record = StartRecord::new(Stage::Decided, new);
    let Some((held, start)) = found else { return propose(inner, name, new, record, 0).await };
    let standing = held.standing(inner).await?;
    if standing == Standing::NotCreated {
        return help(inner, &start, held).await;
    }
    // Who created it may not have come to that, and the next record does not know the run that it replaces.
    end_replaced(inner, &held).await?;
    match standing {
        Standing::Over | Standing::NotCreated => {}
        // The same start again.
        Standing::Open if held.run == record.run => return Ok(Some(KeyedEnd::Run(held.run, None))),
        Standing::Open => match otherwise {
            Singleton::Reject => return Ok(Some(KeyedEnd::Held(held.run))),
            Singleton::Join => return Ok(Some(KeyedEnd::Run(held.run, None))),
            Singleton::Replace => record.replaces = Some(held.run),
        },
    }
    propose(inner, name, new, record, start.revision).await
}

async fn dedup(
    inner: &Arc<Inner>,
    name: &str,
    window: Duration,
    new: &NewRunOf,
    found: Found,
) -> Result<Option<KeyedEnd>, StoreError> {
    let mut record = StartRecord::new(Stage::Decided, new);
    record.until = Some(later(now(inner), window));
    let Some((held, start)) = found else { return propose(inner, name, new, record, 0).await };
    if held.until.is_none_or(|until| until <= now(inner)) {
        return propose(inner, name, new, record, start.revision).await;
    }
    match held.standing(inner).await? {
        Standing::NotCreated => help(inner, &start, held).await,
        Standing::Open | Standing::Over => Ok(Some(KeyedEnd::Run(held.run, None))),
    }
}

/// Writes a decided record, and creates its run. `None` where another start was first.
async fn propose(
    inner: &Arc<Inner>,
    name: &str,
    new: &NewRunOf,
    record: StartRecord,
    replaces: u64,
) -> Result<Option<KeyedEnd>, StoreError> {
    let due_at = later(now(inner), COMPLETED_WITHIN);
    let start = record.write(name, new.workflow.def.name, due_at, replaces)?;
    if !inner.shared.store.put_keyed_start(start.clone(), replaces).await? {
        return Ok(None);
    }
    let run = record.run.clone();
    Ok(match complete(inner, &start, record, None).await? {
        Completed::Created(existing) => Some(KeyedEnd::Run(run, existing)),
        Completed::OverLimit { limit, open } => Some(KeyedEnd::OverLimit { limit, open }),
        // It is linked: the start has registered it. Or another one was quicker with it.
        Completed::NotLinked | Completed::Gone => None,
    })
}

/// Completes what another start has decided; then the key is looked at again.
async fn help(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
) -> Result<Option<KeyedEnd>, StoreError> {
    let (run, name, is_gathered) = (record.run.clone(), &start.name, record.terms.inputs > 0);
    Ok(match complete(inner, start, record, None).await? {
        Completed::Created(_) | Completed::Gone => None,
        Completed::OverLimit { limit, open } if is_gathered => Some(KeyedEnd::OverLimit { limit, open }),
        // That start is refused, and its key is free for this one.
        Completed::OverLimit { .. } => None,
        Completed::NotLinked => {
            tracing::warn!(target: "aether::engine", %run, name, "the module of a keyed start is not linked here");
            Some(KeyedEnd::Held(run))
        }
    })
}

async fn gather(
    inner: &Arc<Inner>,
    name: &str,
    kind: KeyKind,
    new: &NewRunOf,
    found: Found,
) -> Result<Option<KeyedEnd>, StoreError> {
    let now = now(inner);
    let Some((held, start)) = found else {
        let mut record = StartRecord::new(Stage::Gathering, new);
        record.terms.inputs = 1;
        record.until = Some(longest(kind, now));
        if is_full(kind, &record.input)? {
            record.stage = Stage::Decided;
        }
        let due_at = due(kind, &record, now);
        let start = record.write(name, new.workflow.def.name, due_at, 0)?;
        let put = inner.shared.store.put_keyed_start(start.clone(), 0).await?;
        return if put { gathered(inner, &start, record).await.map(Some) } else { Ok(None) };
    };
    if held.stage != Stage::Gathering {
        return help(inner, &start, held).await;
    }
    let merged = merge(kind, &held, new)?;
    // Its time has come, or it holds what it can: it begins, and this input is the first of the next.
    if start.due_at <= now || merged.input.as_str().len() > inner.shared.limits.payload {
        let decided = StartRecord { stage: Stage::Decided, ..held };
        put(inner, &start, &decided, now).await?;
        return Ok(None);
    }
    let due_at = due(kind, &merged, now);
    let next = merged.write(name, &start.workflow, due_at, start.revision)?;
    let put = inner.shared.store.put_keyed_start(next.clone(), start.revision).await?;
    if put { gathered(inner, &next, merged).await.map(Some) } else { Ok(None) }
}

/// The record with one more input.
fn merge(kind: KeyKind, held: &StartRecord, new: &NewRunOf) -> Result<StartRecord, StoreError> {
    let mut merged = held.clone();
    merged.terms.inputs = merged.terms.inputs.saturating_add(1);
    merged.input = match kind {
        KeyKind::Collect { batch, .. } => (batch.join)(&held.input, &new.input).map_err(unreadable(held))?,
        _ => new.input.clone(),
    };
    if is_full(kind, &merged.input)? {
        merged.stage = Stage::Decided;
    }
    Ok(merged)
}

fn unreadable(record: &StartRecord) -> impl Fn(PayloadError) -> StoreError + '_ {
    |error| StoreError::Unencodable {
        what: format!("the input that is gathered for run `{}`", record.run),
        reason: error.to_string(),
    }
}

/// Whether a batch has all the elements that it may have.
fn is_full(kind: KeyKind, input: &Payload) -> Result<bool, StoreError> {
    let KeyKind::Collect { max, batch, .. } = kind else { return Ok(false) };
    let count = (batch.count)(input).map_err(|error| StoreError::Unencodable {
        what: "a gathered input".into(),
        reason: error.to_string(),
    })?;
    Ok(count >= max)
}

fn longest(kind: KeyKind, now: Timestamp) -> Timestamp {
    match kind {
        KeyKind::Debounce { max, .. } => later(now, max),
        KeyKind::Collect { wait, .. } => later(now, wait),
        KeyKind::OncePer(_) | KeyKind::Dedup(_) => now,
    }
}

/// When the run of a record begins if no input follows.
fn due(kind: KeyKind, record: &StartRecord, now: Timestamp) -> Timestamp {
    let until = record.until.unwrap_or(now);
    match kind {
        _ if record.stage == Stage::Decided => now,
        KeyKind::Debounce { quiet, .. } => later(now, quiet).min(until),
        _ => until,
    }
}

/// The answer to a start whose input is in a record; creates the run where nothing can follow.
async fn gathered(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
) -> Result<KeyedEnd, StoreError> {
    let (run, name) = (record.run.clone(), Arc::from(&*start.name));
    if record.stage == Stage::Decided
        && let Completed::Created(_) = complete(inner, start, record, None).await?
    {
        return Ok(KeyedEnd::Run(run, None));
    }
    inner.wake_gathering.notify_one();
    Ok(KeyedEnd::Gathers { run, name })
}
