//! What is kept under a key: everything that is needed to create its run, whoever does.
//!
//! Promise: what this build writes every later one reads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::engine::create::NewRunOf;
use crate::engine::inner::Inner;
use crate::store::error::StoreError;
use crate::store::queues::KeyedStart;
use crate::vocabulary::id::RunId;
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::queue::StartTerms;

/// The first revision of a record for `run`: of records that follow each other under a name, each has another run.
fn fresh_revision(run: &RunId) -> u64 {
    let digest = Sha256::digest(run.as_str().as_bytes());
    let start = digest.iter().take(7).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    start.saturating_add(1)
}

/// How far the start of a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// More inputs may come.
    Gathering,
    /// Nothing changes any more; the run may not be there yet.
    Decided,
    /// The run was created.
    Created,
    /// Too many runs were open: it is not created any more, and if it was not before, the key is free.
    Refused,
}

/// The start of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StartRecord {
    pub(super) stage: Stage,
    pub(super) run: RunId,
    pub(super) module: String,
    pub(super) version: u32,
    pub(super) input: Payload,
    #[serde(default)]
    pub(super) labels: Labels,
    #[serde(default)]
    pub(super) traceparent: Option<String>,
    #[serde(default)]
    pub(super) terms: StartTerms,
    /// When the window ends, or the gathering at the latest.
    pub(super) until: Option<Timestamp>,
    /// The run that is to be cancelled for this one.
    pub(super) replaces: Option<RunId>,
}

impl StartRecord {
    pub(super) fn new(stage: Stage, new: &NewRunOf) -> Self {
        Self {
            stage,
            run: new.id.clone(),
            module: new.workflow.def.module.into(),
            version: new.workflow.def.version,
            input: new.input.clone(),
            labels: new.labels.clone(),
            traceparent: new.traceparent.clone(),
            terms: new.terms.clone(),
            until: None,
            replaces: None,
        }
    }

    pub(super) fn read(start: &KeyedStart) -> Result<Self, StoreError> {
        start.record.decode().map_err(|error| StoreError::Corrupt {
            store: "of keyed starts".into(),
            reason: format!("`{}` cannot be read: {error}", start.name),
        })
    }

    /// The record as the store keeps it, in place of revision `replaces`.
    pub(super) fn write(
        &self,
        name: &str,
        workflow: &str,
        due_at: Timestamp,
        replaces: u64,
    ) -> Result<KeyedStart, StoreError> {
        let record = Payload::encode(self).map_err(|error| StoreError::Unencodable {
            what: format!("the start of run `{}`", self.run),
            reason: error.to_string(),
        })?;
        // A new record does not begin where a removed one of that name began: who read that one must not change this.
        let revision = match replaces {
            0 => fresh_revision(&self.run),
            replaces => replaces.saturating_add(1),
        };
        Ok(KeyedStart { name: name.into(), workflow: workflow.into(), due_at, record, revision })
    }

    /// Where the run of this record stands.
    pub(super) async fn standing(&self, inner: &Inner) -> Result<Standing, StoreError> {
        Ok(match inner.shared.store.run(&self.run).await? {
            Some(run) if run.status.is_terminal() => Standing::Over,
            Some(_) => Standing::Open,
            // It was purged.
            None if self.stage == Stage::Created => Standing::Over,
            None => Standing::NotCreated,
        })
    }
}

/// Where the run of a keyed start stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    NotCreated,
    Open,
    Over,
}

/// Whether a keyed start is that of this run, which may not be there yet.
pub(crate) fn is_gathered_for(start: &KeyedStart, run: &RunId) -> bool {
    StartRecord::read(start).is_ok_and(|record| record.run == *run)
}
