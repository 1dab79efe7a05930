//! Making a recording from a store.
//!
//! Promise: nothing in the store changes; secrets are replaced before the recording exists.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::journal::frame::read_verified;
use crate::journal::large_values::named_contents;
use crate::recording::recorded::{RecordedFrame, RecordedRun, Recording, RecordingError};
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::ledger::LedgerEntry;
use crate::store::read::whole_run;
use crate::store::recorded_calls::approved_with;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::masking::Masking;
use crate::vocabulary::masking::Secrets;
use crate::vocabulary::payload::{Digest, Payload, hex};
use crate::vocabulary::seed::masked;
use crate::vocabulary::walk::quoted;

impl Recording {
    /// Records `run` and the runs it started, with their journals up to now. Changes nothing in the store.
    ///
    /// Secrets that `masking` finds are replaced, each by the same text wherever it occurs (short ones only where they
    /// were found). Digests of arguments and inputs are computed again, so that code which passes a secret on unchanged
    /// still matches. Code that computes something from a secret diverges: its next argument differs from the recorded
    /// one.
    ///
    /// # Errors
    /// [`RecordingError`] when there is no such run, or the store or a journal cannot be read.
    pub async fn export(store: &dyn Store, run: &RunId, masking: &Masking) -> Result<Self, RecordingError> {
        let (mut runs, mut next, mut seen) = (Vec::new(), vec![run.clone()], BTreeSet::new());
        while let Some(id) = next.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            let Some(recorded) = load(store, &id).await? else {
                // A child is named before it is created.
                if id == *run {
                    return Err(StoreError::UnknownRun { run: id }.into());
                }
                continue;
            };
            next.extend(started_by(&recorded)?.into_iter().rev());
            runs.push(recorded);
        }
        let blobs = blobs(store, &runs, !masking.is_off()).await?;
        let mut recording = Self { runs, blobs, masked: 0 };
        recording.mask(masking);
        // The first event was parsed before it was masked.
        for run in &mut recording.runs {
            if let Some(Event::RunCreated(created)) = run.events()?.into_iter().next() {
                run.created = created;
            }
        }
        Ok(recording)
    }

    fn mask(&mut self, masking: &Masking) {
        let mut secrets = Secrets::default();
        for run in &self.runs {
            run.texts().for_each(|text| secrets.search(masking, text.as_str(), true));
            run.values().for_each(|value| secrets.search(masking, value.as_str(), false));
        }
        for blob in self.blobs.values().filter_map(|blob| std::str::from_utf8(blob).ok()) {
            secrets.search(masking, blob, false);
        }
        secrets.settle();
        self.masked = secrets.len();
        for run in &mut self.runs {
            run.mask(masking, &secrets);
        }
        self.mask_blobs(masking, &secrets);
    }

    /// Masks the blobs. A masked blob has another name, its new hash, so the references to it change too.
    fn mask_blobs(&mut self, masking: &Masking, secrets: &Secrets) {
        let mut renamed = Vec::new();
        for (name, blob) in std::mem::take(&mut self.blobs) {
            let text = std::str::from_utf8(&blob).ok();
            let masked = text.and_then(|text| {
                secrets.replace(masking, text, false).or_else(|| secrets.replace_text(text))
            });
            match masked {
                Some(masked) => {
                    let new = hex(&Sha256::digest(masked.as_bytes()));
                    self.blobs.insert(new.clone(), masked.into_bytes());
                    renamed.push((name, new));
                }
                None => drop(self.blobs.insert(name, blob)),
            }
        }
        for (old, new) in &renamed {
            for payload in self.runs.iter_mut().flat_map(RecordedRun::payloads_mut) {
                put(
                    payload,
                    payload.as_str().contains(old.as_str()).then(|| payload.as_str().replace(old, new)),
                );
            }
        }
    }
}

/// One run from a store.
async fn load(store: &dyn Store, id: &RunId) -> Result<Option<RecordedRun>, RecordingError> {
    let (_, stored, mut ledger) = match whole_run(store, id).await {
        Err(StoreError::UnknownRun { .. }) => return Ok(None),
        read => read?,
    };
    let journal = |error| RecordingError::Journal { run: id.clone(), error };
    let events = read_verified(&stored).map_err(journal)?;
    let Some(Event::RunCreated(created)) = events.into_iter().next() else {
        let reason = "a journal begins with `run_created`".into();
        return Err(journal(crate::journal::frame::JournalError::Unreadable { position: 0, reason }));
    };
    let mut frames = Vec::with_capacity(stored.len());
    for frame in &stored {
        let text = frame.readable().map_err(journal)?;
        let mut events: Vec<Payload> = serde_json::from_str(text).map_err(|error| {
            let (position, reason) = (frame.position, error.to_string());
            journal(crate::journal::frame::JournalError::Unreadable { position, reason })
        })?;
        crate::store::read::inline(store, id, frame, &mut events).await?;
        frames.push(RecordedFrame { at: frame.at, events });
    }
    crate::store::read::complete(store, id, &mut ledger).await?;
    Ok(Some(RecordedRun { run: id.clone(), created, frames, ledger }))
}

fn started_by(run: &RecordedRun) -> Result<Vec<RunId>, RecordingError> {
    let events = run.events()?.into_iter();
    Ok(events
        .filter_map(|event| match event {
            Event::ChildStarted(e) => Some(e.child),
            Event::ContinuedAsNew(e) => Some(e.next),
            _ => None,
        })
        .collect())
}

/// Every blob that a text of `runs` names: a blob's name is its SHA-256 in hexadecimal digits. With `values_only`, without
/// what bodies keep in pieces: a secret that is cut in two would not be found, and a piece that was masked not be read.
async fn blobs(
    store: &dyn Store,
    runs: &[RecordedRun],
    values_only: bool,
) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    let mut blobs = BTreeMap::new();
    for run in runs {
        let texts = run.texts().chain(run.values()).map(Payload::as_str);
        let contents: BTreeSet<&str> = texts.flat_map(named_contents).filter(|_| values_only).collect();
        for name in run.blob_names().difference(&contents).copied() {
            if !blobs.contains_key(name)
                && let Some(blob) = store.blob(&run.run, name).await?
            {
                blobs.insert(name.to_owned(), blob);
            }
        }
    }
    Ok(blobs)
}

/// Replaces a payload, if there is something to replace it with that is JSON.
fn put(payload: &mut Payload, text: Option<String>) -> bool {
    match text.map(Payload::from_text) {
        Some(Ok(new)) => {
            *payload = new;
            true
        }
        _ => false,
    }
}

impl RecordedRun {
    /// Its events as JSON.
    fn texts(&self) -> impl Iterator<Item = &Payload> {
        self.frames.iter().flat_map(|frame| &frame.events)
    }

    /// What may be the names of blobs in its texts.
    pub(super) fn blob_names(&self) -> BTreeSet<&str> {
        let words = self.texts().chain(self.values());
        let words = words.flat_map(|text| text.as_str().split(|c: char| !c.is_ascii_alphanumeric()));
        words.filter(|word| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit())).collect()
    }

    /// The values in its ledger rows.
    fn values(&self) -> impl Iterator<Item = &Payload> {
        self.ledger.iter().flat_map(|row| row.result.iter().chain(&row.error))
    }

    fn payloads_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        let rows = self.ledger.iter_mut().flat_map(|row| row.result.iter_mut().chain(&mut row.error));
        self.frames.iter_mut().flat_map(|frame| &mut frame.events).chain(rows)
    }

    fn mask(&mut self, masking: &Masking, secrets: &Secrets) {
        let (emitted, edited) = (self.emitted(), self.edited());
        if !masking.is_off() {
            self.mask_seed();
        }
        for event in self.frames.iter_mut().flat_map(|frame| &mut frame.events) {
            put(event, secrets.replace(masking, event.as_str(), true));
        }
        let masked = self.emitted();
        let mut digests = HashMap::new();
        for event in self.frames.iter_mut().flat_map(|frame| &mut frame.events) {
            follow(event, &emitted, &masked, &mut digests);
        }
        let masked = self.edited();
        for (command, was) in edited {
            let is = masked.get(&command).and_then(|is| Digest::of(is).ok());
            if let (Ok(old), Some(new)) = (Digest::of(&was), is) {
                digests.insert((command, old), new);
            }
        }
        for row in &mut self.ledger {
            mask_row(row, masking, secrets, &digests);
        }
    }

    /// The arguments with which people replaced those of commands.
    fn edited(&self) -> HashMap<CommandId, Payload> {
        let decided = self.texts().filter_map(|event| match event.decode() {
            Ok(Event::ApprovalDecided(e)) => Some((e.command, approved_with(&e.decision)?)),
            _ => None,
        });
        decided.collect()
    }

    /// Replaces the seed. Callback tokens are derived from it: a reader of the recording could otherwise report outcomes
    /// to the run.
    fn mask_seed(&mut self) {
        let seed = self.created.seed.clone();
        let Some(first) = self.frames.first_mut().and_then(|frame| frame.events.first_mut()) else { return };
        let masked = masked(&seed);
        if masked != seed {
            let member = |seed: &str| format!("\"seed\":{}", quoted(seed));
            let text = first.as_str().replace(&member(&seed), &member(&masked));
            put(first, Some(text));
        }
    }

    /// The input of every command.
    fn emitted(&self) -> HashMap<Option<CommandId>, Payload> {
        let mut inputs = HashMap::new();
        for event in self.texts() {
            let (command, input) = match event.decode() {
                Ok(Event::RunCreated(e)) => (None, Some(e.input)),
                Ok(Event::NodeStarted(e)) => (Some(e.command), e.input),
                Ok(Event::CommandEmitted(e)) => (Some(e.command), e.input),
                _ => continue,
            };
            if let Some(input) = input {
                inputs.entry(command).or_insert(input);
            }
        }
        inputs
    }
}

/// Computes the digest in an event again where its input was masked.
fn follow(
    event: &mut Payload,
    before: &HashMap<Option<CommandId>, Payload>,
    after: &HashMap<Option<CommandId>, Payload>,
    digests: &mut HashMap<(CommandId, Digest), Digest>,
) {
    let (command, old) = match event.decode() {
        Ok(Event::RunCreated(e)) => (None, e.digest),
        Ok(Event::NodeStarted(e)) => (Some(e.command), e.digest),
        _ => return,
    };
    let (Some(was), Some(is)) = (before.get(&command), after.get(&command)) else { return };
    let Ok(new) = Digest::of(is) else { return };
    if was != is && put(event, Some(event.as_str().replace(old.as_str(), new.as_str()))) {
        digests.extend(command.map(|command| ((command, old), new)));
    }
}

fn mask_row(
    row: &mut LedgerEntry,
    masking: &Masking,
    secrets: &Secrets,
    digests: &HashMap<(CommandId, Digest), Digest>,
) {
    for value in row.result.iter_mut().chain(&mut row.error) {
        put(value, secrets.replace(masking, value.as_str(), false));
    }
    if let Some(new) = digests.get(&(row.command.clone(), row.digest.clone())) {
        // Without a key of its own, an irreversible step's business key is its arguments' digest.
        if let Some(key) = &mut row.business_key {
            *key = key.replace(row.digest.as_str(), new.as_str());
        }
        row.digest = new.clone();
    }
    if let Some(key) = row.business_key.as_mut()
        && let Some(masked) = secrets.replace_text(key)
    {
        *key = masked;
    }
}
