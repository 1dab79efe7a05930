//! Reading whole events: large values are fetched from the effect store and put back into their events.
//!
//! Promise: a value that is missing or was altered is an error that names run, command and hash.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::journal::frame::{JournalError, StoredFrame};
use crate::journal::large_values::{BlobRef, LargeValue, references, returned};
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::append::StoredEffect;
use crate::store::error::StoreError;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::store::pages::{PAGE, Pages};
use crate::store::records::RunRecord;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Payload, hex};

/// Reads values from the effect store, each once.
struct Reader<'a> {
    store: &'a dyn Store,
    run: &'a RunId,
    known: HashMap<BlobRef, Payload>,
}

impl Reader<'_> {
    fn corrupt(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Corrupt { store: self.store.describe(), reason: format!("run `{}`: {reason}", self.run) }
    }

    /// Puts the values of `text`'s references into its `events`.
    async fn fill(&mut self, text: &str, events: &mut [Event]) -> Result<(), StoreError> {
        let references =
            references(text).map_err(|e| self.corrupt(format_args!("unreadable references: {e}")))?;
        for (event, references) in events.iter_mut().zip(references) {
            for (field, at) in references {
                let value = self.value(event, at).await?;
                // A field of a kind that only a newer build knows is none of ours.
                let _known = event.put_large(&field, value);
            }
        }
        Ok(())
    }

    async fn value(&mut self, event: &Event, at: BlobRef) -> Result<Payload, StoreError> {
        if let Some(value) = self.known.get(&at) {
            return Ok(value.clone());
        }
        let about = || {
            let of = event.command().map_or_else(|| event.kind(), |command| format!("command `{command}`"));
            format!("the value {} ({} bytes) of {of}", at.sha256, at.bytes)
        };
        let Some(bytes) = self.store.blob(self.run, &at.sha256).await? else {
            return Err(self.corrupt(format_args!("{} is missing from the effect store", about())));
        };
        if bytes.len() as u64 != at.bytes || hex(&Sha256::digest(&bytes)) != at.sha256 {
            return Err(self.corrupt(format_args!("{} was altered in the effect store", about())));
        }
        let value = String::from_utf8(bytes).ok().and_then(|text| Payload::from_text(text).ok());
        let Some(value) = value else {
            return Err(self.corrupt(format_args!("{} is not JSON", about())));
        };
        self.known.insert(at, value.clone());
        Ok(value)
    }
}

/// How often a run that moves is read anew.
const TRIES: usize = 20;

/// A run's row, its journal and its ledger, of one moment as far as they speak of each other: both or neither of row and
/// journal say that it has ended, and the rows of the ledger are as the journal has them. Only where a run made calls all the
/// time while it was read again and again are rows ahead of the journal.
///
/// # Errors
/// [`StoreError::UnknownRun`], or the store's error.
pub(crate) async fn whole_run(
    store: &dyn Store,
    run: &RunId,
) -> Result<(RunRecord, Vec<StoredFrame>, Vec<LedgerEntry>), StoreError> {
    let unknown = || StoreError::UnknownRun { run: run.clone() };
    let mut record = store.run(run).await?.ok_or_else(unknown)?;
    let mut tries = 1;
    loop {
        let frames = store.load(run, 0).await?;
        // After the journal: a row that is behind it is nothing that a crash could leave.
        let rows = store.entries(run).await?;
        let now = store.run(run).await?.ok_or_else(unknown)?;
        if is_still(store, &record, &now).await? || tries == TRIES {
            return Ok((record, frames, rows));
        }
        (record, tries) = (now, tries + 1);
    }
}

/// Whether nothing happened between the two that another part of the run speaks of.
async fn is_still(store: &dyn Store, before: &RunRecord, now: &RunRecord) -> Result<bool, StoreError> {
    let of = |run: &RunRecord| (run.place, run.version, run.workflow.clone(), run.status.is_terminal());
    if of(before) != of(now) {
        return Ok(false);
    }
    if before.next == now.next {
        return Ok(true);
    }
    let since = store.load(&now.id, before.next).await?;
    Ok(!since.iter().any(|frame| frame.text.contains("invocation_") || frame.text.contains("run_continued")))
}

/// Replaces references by the values in the effect store. `events` are those of `frames`, in order.
///
/// # Errors
/// [`StoreError::Corrupt`] naming run, command and hash where a value is missing or was altered.
pub async fn fill(
    store: &dyn Store,
    run: &RunId,
    frames: &[StoredFrame],
    events: &mut [Event],
) -> Result<(), StoreError> {
    let mut reader = Reader { store, run, known: HashMap::new() };
    let first = frames.first().map_or(0, |frame| frame.position);
    for frame in frames {
        let from = usize::try_from(frame.position.saturating_sub(first)).unwrap_or(usize::MAX);
        let text = frame.readable().map_err(|e| reader.corrupt(e))?;
        reader.fill(text, events.get_mut(from..).unwrap_or_default()).await?;
    }
    Ok(())
}

/// Writes the values in the effect store into those of a frame's events that refer to them; the other events stay byte
/// for byte. `events` are the frame's, as JSON.
///
/// # Errors
/// [`StoreError::Corrupt`] when the frame is unreadable, or a value is missing or was altered.
pub(crate) async fn inline(
    store: &dyn Store,
    run: &RunId,
    frame: &StoredFrame,
    events: &mut [Payload],
) -> Result<(), StoreError> {
    let mut reader = Reader { store, run, known: HashMap::new() };
    let text = frame.readable().map_err(|e| reader.corrupt(e))?;
    let references = references(text).map_err(|e| reader.corrupt(e))?;
    if references.iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    let mut whole = frame.events().map_err(|e| reader.corrupt(e))?;
    reader.fill(text, &mut whole).await?;
    for ((text, event), references) in events.iter_mut().zip(&whole).zip(references) {
        if !references.is_empty() {
            *text = Payload::encode(event).map_err(|e| reader.corrupt(e))?;
        }
    }
    Ok(())
}

/// The events of `frames`, with their large values from the effect store.
///
/// # Errors
/// [`StoreError::Corrupt`] when a frame is unreadable, or a value is missing or was altered.
pub async fn events(
    store: &dyn Store,
    run: &RunId,
    frames: &[StoredFrame],
) -> Result<Vec<Event>, StoreError> {
    let corrupt = |error: JournalError| StoreError::Corrupt {
        store: store.describe(),
        reason: format!("run `{run}`: {error}"),
    };
    let mut events = Vec::new();
    for frame in frames {
        events.append(&mut frame.events().map_err(corrupt)?);
    }
    fill(store, run, frames, &mut events).await?;
    Ok(events)
}

/// Fills in the results and errors of ledger rows of `run` that are large and therefore only in the effect store.
///
/// # Errors
/// [`StoreError::Corrupt`] naming run, command and hash where a value is missing or was altered.
pub async fn complete(store: &dyn Store, run: &RunId, rows: &mut [LedgerEntry]) -> Result<(), StoreError> {
    let bare = |row: &LedgerEntry| row.committed && row.result.is_none() && row.error.is_none();
    if !rows.iter().any(bare) {
        return Ok(());
    }
    let effects = store.effects(run).await?;
    for row in rows.iter_mut().filter(|row| bare(row)) {
        let Some(effect) = effects.iter().find(|effect| effect.key == row.key) else { continue };
        let (events, _) = effect_events(store, effect).await?;
        match returned(&events) {
            Some(Ok(value)) => row.result = Some(value),
            Some(Err(error)) => row.error = Some(error),
            None => {}
        }
    }
    complete_from_journal(store, run, rows).await
}

/// Fills in what only the journal has: large results of calls whose outcome became known when their run, or their branch, was
/// over already.
async fn complete_from_journal(
    store: &dyn Store,
    run: &RunId,
    rows: &mut [LedgerEntry],
) -> Result<(), StoreError> {
    let lacks = |row: &LedgerEntry| {
        let has_returned = matches!(row.status, LedgerStatus::Succeeded | LedgerStatus::Confirmed);
        has_returned && row.committed && row.result.is_none() && row.error.is_none()
    };
    if !rows.iter().any(lacks) {
        return Ok(());
    }
    let mut pages = Pages::new(store, run, 0, PAGE);
    while let Some(frames) = pages.next().await? {
        for event in events(store, run, &frames).await? {
            let Event::ToolInvocationFinished(finished) = event else { continue };
            if let Some(row) = rows.iter_mut().find(|row| row.invocation == finished.invocation && lacks(row))
            {
                (row.result, row.error) = (finished.result, finished.error);
            }
        }
    }
    Ok(())
}

/// The events of an outcome in the effect store, and the large values that they refer to.
pub(crate) async fn effect_events(
    store: &dyn Store,
    effect: &StoredEffect,
) -> Result<(Vec<Event>, Vec<LargeValue>), StoreError> {
    let mut reader = Reader { store, run: &effect.run, known: HashMap::new() };
    let mut events: Vec<Event> = serde_json::from_str(&effect.frame.text).map_err(|e| {
        reader.corrupt(format_args!("the effect stored under `{}` is unreadable: {e}", effect.key))
    })?;
    reader.fill(&effect.frame.text, &mut events).await?;
    Ok((events, reader.known.into_iter().map(|(at, value)| LargeValue { value, at }).collect()))
}
