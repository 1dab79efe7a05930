//! Deciding a keyed start: which run holds the key, or what is gathered for it.
//!
//! Promise: of starts at the same time, in however many processes, one decides and the others find what it decided.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::admission::Admission;
use crate::engine::create::NewRunOf;
use crate::engine::inner::{Inner, now};
use crate::engine::keyed::batch::Batch;
use crate::engine::keyed::complete::{Completed, bring_back, complete, end_replaced, put};
use crate::engine::keyed::key::{KeyError, KeyKind, Singleton, check};
use crate::engine::keyed::record::{Stage, Standing, StartRecord};
use crate::engine::same_input::{first_input, is_same_input};
use crate::engine::started_as::is_or_was;
use crate::store::error::StoreError;
use crate::store::queues::{KeyedStart, Limit};
use crate::store::records::RunRecord;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Digest, Payload};

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

    pub(crate) fn collect(key: String, max: usize, wait: Duration) -> Result<Self, KeyError> {
        check(&key, &[("the number of elements", max == 0), ("the longest wait", wait.is_zero())])?;
        Ok(Self { key, kind: KeyKind::Collect { max, wait } })
    }

    /// The key as it was given.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Decides the start of `new`.
    pub(crate) async fn start(
        self,
        inner: &Arc<Inner>,
        new: NewRunOf,
        admission: &Admission,
    ) -> Result<KeyedEnd, StoreError> {
        loop {
            // Another start may decide between the look and the write, which is refused then: look again.
            let (name, start) = self.look(inner, &new).await?;
            let found = match start {
                // Nobody will read it again, and its run does nothing more: the key is free.
                Some(start) if start.record == Payload::null() => {
                    inner.shared.store.remove_keyed_start(&name, start.revision).await?;
                    continue;
                }
                Some(start) => {
                    let record = StartRecord::read(&start)?;
                    if bring_back(inner, &start, &record).await? {
                        continue;
                    }
                    Some((record, start))
                }
                None => None,
            };
            // Behind that look: a record goes only when its run is there.
            if let Some(existing) = started_before(inner, self.kind, &new).await? {
                return Ok(existing);
            }
            let attempt = Attempt { inner, admission, name: &name, kind: self.kind, new: &new };
            let ended = match self.kind {
                KeyKind::OncePer(otherwise) => attempt.once_per(otherwise, found).await?,
                KeyKind::Dedup(window) => attempt.dedup(window, found).await?,
                KeyKind::Debounce { .. } | KeyKind::Collect { .. } => attempt.gather(found).await?,
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    /// Where the record of the key stands, and the record: under the plain name, or under one with module and version.
    ///
    /// A workflow whose name another module's workflow has as well has keys of its own; what it began under the plain name,
    /// before the other one was there, stays there. Elements for two versions of a workflow are gathered apart.
    async fn look(&self, inner: &Inner, new: &NewRunOf) -> Result<(String, Option<KeyedStart>), StoreError> {
        let (kind, def, store) = (self.kind.name(), new.workflow.def, &inner.shared.store);
        let (has_namesakes, is_batch) =
            (inner.has_namesakes(def.name), matches!(self.kind, KeyKind::Collect { .. }));
        let plain = format!("{kind}:{}:{}", def.name, self.key);
        let found = store.keyed_start(&plain).await?;
        let is_own = match found.as_ref().map(StartRecord::read) {
            // Elements may have been gathered under the other name while this one was taken.
            None => !has_namesakes && !is_batch,
            Some(Ok(record)) => {
                (!has_namesakes || record.module == def.module)
                    && (!is_batch || record.version == def.version)
            }
            // The caller tells.
            Some(Err(_)) => true,
        };
        if is_own {
            return Ok((plain, found));
        }
        let version = if is_batch { format!("#{}", def.version) } else { String::new() };
        let own = format!("{kind}:{}@{}{version}:{}", def.name, def.module, self.key);
        let found_own = store.keyed_start(&own).await?;
        if found_own.is_none() && found.is_none() && !has_namesakes {
            return Ok((plain, None));
        }
        Ok((own, found_own))
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
    if let KeyKind::Collect { .. } = kind
        && existing.terms.inputs > 1
        && is_or_was(store, &existing, new.workflow.def.name).await?
        && let Some(input) = first_input(inner, &existing).await?
    {
        // What is not readable as a list is no batch.
        is_first = begins(inner, &input, new).unwrap_or(false);
    }
    Ok(Some(KeyedEnd::Run(new.id.clone(), (!is_first).then(|| Box::new(existing)))))
}

/// Whether the batch `all` begins with the elements of this start, in whatever encoding.
fn begins(inner: &Inner, all: &Payload, new: &NewRunOf) -> Option<bool> {
    let (all, first) = (Batch::read(all)?, Batch::read(&new.input)?);
    let recorded = all.first(first.len()).write().ok()?;
    let digest = Digest::of(&new.input).ok()?;
    Some(is_same_input(inner, &new.workflow, &recorded, &digest))
}

/// One look at a key, and what it leads to.
struct Attempt<'a> {
    inner: &'a Arc<Inner>,
    admission: &'a Admission,
    name: &'a str,
    kind: KeyKind,
    new: &'a NewRunOf,
}

type Found = Option<(StartRecord, KeyedStart)>;

/// `None` where another start was first.
type Ended = Result<Option<KeyedEnd>, StoreError>;

impl Attempt<'_> {
    async fn once_per(&self, otherwise: Singleton, found: Found) -> Ended {
        let mut record = StartRecord::new(Stage::Decided, self.new);
        let Some((held, start)) = found else { return self.propose(record, 0).await };
        let standing = held.standing(self.inner).await?;
        if standing == Standing::NotCreated {
            return self.help(&start, held).await;
        }
        // Who created it may not have come to that, and the next record does not know the run that it replaces.
        end_replaced(self.inner, &held).await?;
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
        self.propose(record, start.revision).await
    }

    async fn dedup(&self, window: Duration, found: Found) -> Ended {
        let mut record = StartRecord::new(Stage::Decided, self.new);
        (record.window, record.until) = (Some(window), Some(later(now(self.inner), window)));
        let Some((held, start)) = found else { return self.propose(record, 0).await };
        let is_past = held.until.is_none_or(|until| until <= now(self.inner));
        // Before its run is there, a window has not begun, however long the way to that takes.
        if is_past && held.stage != Stage::Decided {
            return self.propose(record, start.revision).await;
        }
        match held.standing(self.inner).await? {
            Standing::NotCreated => match self.help(&start, held).await? {
                // Nobody here can begin it, and it has had its time.
                Some(KeyedEnd::Held(_)) if is_past => self.propose(record, start.revision).await,
                ended => Ok(ended),
            },
            Standing::Open | Standing::Over => Ok(Some(KeyedEnd::Run(held.run, None))),
        }
    }

    /// Writes a record in place of revision `replaces`; `None` where another start was first.
    async fn put(
        &self,
        record: &StartRecord,
        due_at: Timestamp,
        replaces: u64,
    ) -> Result<Option<KeyedStart>, StoreError> {
        let times = (now(self.inner), due_at);
        let start = record.write(self.name, self.new.workflow.def.name, times, replaces)?;
        let put = self.inner.shared.store.put_keyed_start(start.clone(), replaces).await?;
        Ok(put.then_some(start))
    }

    /// Writes a decided record, and creates its run.
    async fn propose(&self, record: StartRecord, replaces: u64) -> Ended {
        let due_at = later(now(self.inner), COMPLETED_WITHIN);
        let Some(start) = self.put(&record, due_at, replaces).await? else { return Ok(None) };
        let run = record.run.clone();
        Ok(match complete(self.inner, &start, record, self.admission).await? {
            Completed::Created(existing) => Some(KeyedEnd::Run(run, existing)),
            Completed::OverLimit { limit, open } => Some(KeyedEnd::OverLimit { limit, open }),
            // It is linked: the start has registered it. Or another one was quicker with it.
            Completed::NotLinked | Completed::Gone => None,
        })
    }

    /// Completes what another start has decided; then the key is looked at again.
    async fn help(&self, start: &KeyedStart, record: StartRecord) -> Ended {
        let (run, name, is_gathered) = (record.run.clone(), &start.name, record.terms.inputs > 0);
        Ok(match complete(self.inner, start, record, self.admission).await? {
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

    async fn gather(&self, found: Found) -> Ended {
        let (inner, kind, now) = (self.inner, self.kind, now(self.inner));
        let Some((held, start)) = found else {
            let record = StartRecord::gathering(self.new, now, longest(kind, now));
            return self.gathered(decided_if_full(kind, record)?, now, 0).await;
        };
        if held.stage != Stage::Gathering {
            return self.help(&start, held).await;
        }
        let limit = inner.shared.limits.payload;
        let merged = merge(kind, &held, self.new)?.filter(|merged| merged.input.as_str().len() <= limit);
        match merged {
            Some(merged) if start.due_at > now => {
                self.gathered(decided_if_full(kind, merged)?, now, start.revision).await
            }
            // Its time has come, or it takes no more: it begins, and this input is the first of the next.
            _ => {
                let decided = StartRecord { stage: Stage::Decided, ..held };
                put(inner, &start, &decided, now).await?;
                Ok(None)
            }
        }
    }

    /// Writes a record that holds the input, and creates its run where nothing can follow.
    async fn gathered(&self, record: StartRecord, now: Timestamp, replaces: u64) -> Ended {
        let due_at = due(self.kind, &record, now);
        let Some(start) = self.put(&record, due_at, replaces).await? else { return Ok(None) };
        let (run, name) = (record.run.clone(), Arc::from(self.name));
        if record.stage == Stage::Decided
            && let Completed::Created(_) = complete(self.inner, &start, record, self.admission).await?
        {
            return Ok(Some(KeyedEnd::Run(run, None)));
        }
        self.inner.wake_gathering.notify_one();
        Ok(Some(KeyedEnd::Gathers { run, name }))
    }
}

/// The record with one more input; `None` where that cannot stand beside what it holds.
fn merge(kind: KeyKind, held: &StartRecord, new: &NewRunOf) -> Result<Option<StartRecord>, StoreError> {
    let mut merged = held.clone();
    merged.terms.inputs = merged.terms.inputs.saturating_add(1);
    let def = new.workflow.def;
    if let KeyKind::Collect { .. } = kind {
        let (held_batch, next) = (batch_of(&held.input, &held.run)?, batch_of(&new.input, &new.id)?);
        let Some(joined) = held_batch.join(next) else { return Ok(None) };
        merged.input = joined.write().map_err(|error| unreadable(&held.run, error.to_string()))?;
    } else {
        // The last input wins, with the code that it is for.
        merged.input = new.input.clone();
        (merged.module, merged.version) = (def.module.into(), def.version);
    }
    Ok(Some(merged))
}

fn batch_of(input: &Payload, run: &RunId) -> Result<Batch, StoreError> {
    Batch::read(input).ok_or_else(|| unreadable(run, "it is not one list".into()))
}

fn unreadable(run: &RunId, reason: String) -> StoreError {
    StoreError::Unencodable { what: format!("the input that is gathered for run `{run}`"), reason }
}

/// A batch that has all the elements that it may have is decided.
fn decided_if_full(kind: KeyKind, mut record: StartRecord) -> Result<StartRecord, StoreError> {
    if let KeyKind::Collect { max, .. } = kind
        && batch_of(&record.input, &record.run)?.len() >= max
    {
        record.stage = Stage::Decided;
    }
    Ok(record)
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
