//! Runs through the codec: whose they are, how they are created and forked, and what is appended to them.
//!
//! Promise: what a run's own key encodes is encoded with the labels that the run has, whoever hands it over. Appends and
//! creations are passed on in the order in which they are called.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::codec::coded::{CodedStore, failed, of_run};
use crate::codec::subjects::Subject;
use crate::codec::values::is_erased;
use crate::codec::work::CodedWork;
use crate::journal::encoded::key_of;
use crate::journal::event::Event;
use crate::journal::frame::{Frame, StoredFrame};
use crate::store::api::Store;
use crate::store::append::{Append, Work};
use crate::store::error::StoreError;
use crate::store::ledger::{Acquired, LedgerEntry};
use crate::store::records::{Created, Lease, NewRun, RunRecord};
use crate::store::waits::WaitChange;
use crate::vocabulary::codec::CodecError;
use crate::vocabulary::id::RunId;
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::Digest;

const INPUT_DIGEST: &str = "digest of the input";

/// Whether a frame holds nothing but the end of a run that somebody asked for, and nothing of what the run did.
pub(super) fn is_asked_end(frame: &Frame) -> bool {
    match serde_json::from_str::<Vec<Event>>(&frame.text).as_deref() {
        Ok([Event::RunTerminated(_)]) => true,
        Ok([Event::RunCancelled(end)]) => end.uncompensated.is_empty(),
        _ => false,
    }
}

impl CodedStore {
    /// The labels of a run, where the codec asks for them. Those of a run that is not advanced here are read each time: it
    /// may have been purged and started again, for somebody else.
    pub(super) async fn labels(&self, run: &RunId) -> Result<Option<Labels>, StoreError> {
        if !self.seal.needs_labels() {
            return Ok(None);
        }
        if let Some(subject) = self.subjects.advanced(run) {
            return Ok(Some(subject.labels));
        }
        let labels = match self.inner.run(run).await? {
            Some(record) => Some(record.labels),
            // It is about to be created.
            None => self.subjects.labels(run),
        };
        labels.map(Some).ok_or_else(|| StoreError::UnknownRun { run: run.clone() })
    }

    /// The labels of a run that this process advances, or advanced: what its bodies hand over is of that run.
    pub(super) fn labels_here(&self, run: &RunId) -> Result<Option<Labels>, StoreError> {
        if !self.seal.needs_labels() {
            return Ok(None);
        }
        self.subjects.labels(run).map(Some).ok_or_else(|| StoreError::Codec {
            what: format!("an append of run `{run}`"),
            run: Some(run.clone()),
            error: CodecError::Failed { reason: "its labels are not known here".into() },
        })
    }

    /// The subject of a run that this process advances.
    fn advanced(&self, append: &Append) -> Result<Subject, StoreError> {
        if !self.seal.is_set() {
            return Ok(Subject::default());
        }
        let run = &append.run;
        let has_key = append.acquire.as_ref().is_some_and(|acquire| acquire.entry.business_key.is_some());
        match self.subjects.advanced(run) {
            Some(subject) => Ok(subject),
            // Under which name its rows hold a key is known from its claim on alone.
            None if has_key => Err(StoreError::Codec {
                what: format!("a business key of run `{run}`"),
                run: Some(run.clone()),
                error: CodecError::Failed { reason: "the run was not claimed through this store".into() },
            }),
            None => Ok(Subject { labels: self.labels_here(run)?.unwrap_or_default(), ..Subject::default() }),
        }
    }

    fn seal_append(&self, append: &mut Append) -> Result<(), StoreError> {
        let (run, first, seal) = (append.run.clone(), append.expected, &self.seal);
        let subject = self.advanced(append)?;
        let labels = seal.needs_labels().then_some(&subject.labels);
        if append.work.is_none() {
            let sealed = seal.seal_frame(&mut append.frame, &run, labels, first);
            match sealed {
                // What an operator says reaches the run although its own key was destroyed.
                Err(error) if is_erased(&error) && labels.is_some() && is_asked_end(&append.frame) => {
                    seal.seal_frame(&mut append.frame, &run, None, first)?;
                }
                sealed => sealed?,
            }
        }
        for update in &mut append.ledger {
            seal.seal_update(update, &run, labels)?;
        }
        for end in &mut append.streams {
            seal.seal_end(end, &run, labels)?;
        }
        for wait in &mut append.waits {
            if let WaitChange::Opened(wait) = wait {
                seal.seal_wait(wait, &run, labels)?;
            }
        }
        if let Some(acquire) = &mut append.acquire {
            seal.seal_frame(&mut acquire.otherwise, &run, labels, first)?;
            seal.seal_entry(&mut acquire.entry, &run, labels, &subject.open_keys)?;
        }
        let labels = labels.cloned();
        append.work = append.work.take().map(|work| -> Box<dyn Work> {
            Box::new(CodedWork { work, seal: seal.clone(), run, labels, position: first })
        });
        Ok(())
    }

    /// Encodes a new run. Answers the number of what this process begins to advance with it, if it does.
    fn seal_new(&self, new: &mut NewRun) -> Result<Option<u64>, StoreError> {
        let labels = self.seal.needs_labels().then_some(&new.labels);
        self.seal.seal_frame(&mut new.frame, &new.id, labels, 0)?;
        let mut digest = new.digest.as_str().to_owned();
        self.seal.seal_string(&mut digest, &of_run(&new.id, INPUT_DIGEST).labels(labels))?;
        new.digest = Digest::stored(&digest);
        let advances = self.seal.is_set() && new.owner.is_some();
        Ok(advances.then(|| self.subjects.begin_new(&new.id, &new.labels)).flatten())
    }

    /// Decodes what a list says of a run, as far as the keys at hand allow.
    pub(super) fn open_record(&self, record: &mut RunRecord) {
        let mut digest = record.digest.as_str().to_owned();
        if self.seal.open_string(&mut digest, &of_run(&record.id, INPUT_DIGEST)).is_ok() {
            record.digest = Digest::stored(&digest);
        }
    }

    pub(super) fn opened(&self, mut records: Vec<RunRecord>) -> Vec<RunRecord> {
        records.iter_mut().for_each(|record| self.open_record(record));
        records
    }

    fn open_created(
        &self,
        run: &RunId,
        begun: Option<u64>,
        created: Result<Created, StoreError>,
    ) -> Result<Created, StoreError> {
        let created = created.map(|created| match created {
            Created::Existing(mut record) => {
                self.open_record(&mut record);
                Created::Existing(record)
            }
            other => other,
        });
        // After an error it may be there all the same, and be launched.
        if let (Ok(answer), Some(number)) = (&created, begun)
            && *answer != Created::New
        {
            self.subjects.end_begun(run, number);
        }
        created
    }

    /// Notes the business keys that a run acquired before there was a codec: they are held under their own names. All of a
    /// journal passes here between the claim of its run and the first append; `frames` are a part of it.
    pub(super) async fn hold_open_keys(&self, run: &RunId, frames: &[StoredFrame]) -> Result<(), StoreError> {
        // Looked at last: it reads texts, and most of what is loaded is of runs that others advance.
        let is_older = || frames.iter().any(|frame| key_of(&frame.text).is_none());
        if !self.seal.is_set() || !self.subjects.lacks_open(run) || !is_older() {
            return Ok(());
        }
        let rows = self.inner.entries(run).await?;
        let mut open = BTreeSet::new();
        for key in rows.into_iter().filter_map(|row| row.business_key) {
            if self.seal.business_key(&key)? != key {
                open.insert(key);
            }
        }
        self.subjects.hold_open(run, open);
        Ok(())
    }

    /// Encodes a new run, and has the store in the back `create` it.
    pub(super) fn create_sealed<'s>(
        &'s self,
        mut new: NewRun,
        create: impl FnOnce(&'s dyn Store, NewRun) -> BoxFuture<'s, Result<Created, StoreError>>,
    ) -> BoxFuture<'s, Result<Created, StoreError>> {
        let begun = match self.seal_new(&mut new) {
            Ok(begun) => begun,
            Err(error) => return failed(error),
        };
        let id = new.id.clone();
        let creation = create(&*self.inner, new);
        Box::pin(async move { self.open_created(&id, begun, creation.await) })
    }

    /// Encodes a fork with its rows, and passes it on.
    pub(super) fn create_sealed_fork(
        &self,
        mut new: NewRun,
        mut ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        let sealed = self.seal_new(&mut new).and_then(|begun| {
            let labels = self.seal.needs_labels().then_some(&new.labels);
            let open = BTreeSet::new();
            ledger.iter_mut().try_for_each(|row| self.seal.seal_entry(row, &new.id, labels, &open))?;
            Ok(begun)
        });
        let begun = match sealed {
            Ok(begun) => begun,
            Err(error) => return failed(error),
        };
        let id = new.id.clone();
        let creation = self.inner.create_fork(new, ledger);
        Box::pin(async move { self.open_created(&id, begun, creation.await) })
    }

    /// Encodes an append, passes it on, and decodes what the store answers.
    pub(super) fn append_sealed(&self, mut append: Append) {
        if let Err(error) = self.seal_append(&mut append) {
            return append.ack.failed(error.into());
        }
        let releases = append.status.as_ref().is_some_and(|to| to.release || to.status.is_terminal());
        if self.seal.is_set() && (releases || append.acquire.is_some()) {
            let begun = self.subjects.begun(&append.run).filter(|_| releases);
            let (seal, subjects, run) = (self.seal.clone(), Arc::clone(&self.subjects), append.run.clone());
            append.ack = append.ack.reading(move |acquired| {
                // The run may have been claimed again by now.
                if let Some(number) = begun {
                    subjects.end_begun(&run, number);
                }
                match acquired {
                    Acquired::Taken(mut row) => seal.open_entry(&mut row).map(|()| Acquired::Taken(row)),
                    other => Ok(other),
                }
            });
        }
        self.inner.append(append);
    }

    /// A run that this process advances from now on.
    pub(super) fn begin(&self, lease: &mut Lease) {
        if self.seal.is_set() {
            self.subjects.begin(&lease.run.id, &lease.run.labels, lease.run.epoch);
        }
        self.open_record(&mut lease.run);
    }
}
