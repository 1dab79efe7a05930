//! What is kept under a key: everything that is needed to create its run, whoever does.
//!
//! Promise: what this build writes every later one reads.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::engine::create::NewRunOf;
use crate::engine::inner::Inner;
use crate::store::error::StoreError;
use crate::store::queues::KeyedStart;
use crate::vocabulary::environment::{CLOCKS_APART, later};
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
    /// When the window ends, or the gathering at the latest. Before the run is there it is an estimate of the first.
    pub(super) until: Option<Timestamp>,
    /// How long the window is. It begins with the run; former builds had it begin before that.
    #[serde(default)]
    pub(super) window: Option<Duration>,
    /// The run that is to be cancelled for this one.
    pub(super) replaces: Option<RunId>,
    /// For how long a run of gathered inputs may wait for its first turn: it begins to wait when nothing can follow. Former builds
    /// counted from the first input.
    #[serde(default)]
    pub(super) expires_within: Option<Duration>,
    /// When this was written, by the clock that its times are of; former builds did not say.
    #[serde(default)]
    pub(super) noted_at: Option<Timestamp>,
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
            window: None,
            replaces: None,
            expires_within: None,
            noted_at: None,
        }
    }

    /// That of the first input of several, at `now`.
    pub(super) fn gathering(new: &NewRunOf, now: Timestamp, until: Timestamp) -> Self {
        let mut record = Self::new(Stage::Gathering, new);
        let begins = record.terms.begins(now);
        let within = |at: Timestamp| Duration::try_from(at.duration_since(begins)).unwrap_or_default();
        record.expires_within = record.terms.expires_at.map(within);
        record.terms.inputs = 1;
        record.until = Some(until);
        record
    }

    /// The terms of its run, where it is created at `now`.
    pub(super) fn terms_at(&self, now: Timestamp) -> StartTerms {
        let expires_at =
            self.expires_within.map(|within| later(self.terms.begins(now), within)).or(self.terms.expires_at);
        StartTerms { expires_at, ..self.terms.clone() }
    }

    pub(super) fn read(start: &KeyedStart) -> Result<Self, StoreError> {
        start.record.decode().map_err(|error| StoreError::Corrupt {
            store: "of keyed starts".into(),
            reason: format!("`{}` cannot be read: {error}", start.name),
        })
    }

    /// The record, and when it is due, as this clock would have had it, where it was written by one that is far ahead of
    /// `now`: that clock was wrong for a moment, and what it promised for its hour would wait until that hour has come.
    pub(super) fn brought_back(&self, due_at: Timestamp, now: Timestamp) -> Option<(Self, Timestamp)> {
        let noted_at = self.noted_at.filter(|noted_at| *noted_at > later(now, CLOCKS_APART))?;
        let back = |at: Timestamp| match Duration::try_from(at.duration_since(noted_at)) {
            Ok(wait) => later(now, wait),
            // Of a clock that was right.
            Err(_) => at,
        };
        let record = Self { until: self.until.map(back), noted_at: Some(now), ..self.clone() };
        Some((record, back(due_at)))
    }

    /// The record as the store keeps it from `now` on, in place of revision `replaces`.
    pub(super) fn write(
        &self,
        name: &str,
        workflow: &str,
        (now, due_at): (Timestamp, Timestamp),
        replaces: u64,
    ) -> Result<KeyedStart, StoreError> {
        let record = Self { noted_at: Some(now), ..self.clone() };
        let record = Payload::encode(&record).map_err(|error| StoreError::Unencodable {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::labels::Labels;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn noted(noted_at: i64, until: i64) -> StartRecord {
        StartRecord {
            stage: Stage::Gathering,
            run: RunId::new("r").unwrap(),
            module: "m".into(),
            version: 1,
            input: Payload::null(),
            labels: Labels::default(),
            traceparent: None,
            terms: StartTerms::default(),
            until: Some(at(until)),
            window: None,
            replaces: None,
            expires_within: None,
            noted_at: Some(at(noted_at)),
        }
    }

    #[test]
    fn times_of_a_clock_that_was_ahead_are_brought_back() {
        let now = at(1_000);
        let (record, due_at) = noted(90_000, 90_600).brought_back(at(90_010), now).unwrap();
        assert_eq!((record.until, due_at, record.noted_at), (Some(at(1_600)), at(1_010), Some(now)));
        // It has been brought back.
        assert!(record.brought_back(due_at, now).is_none());
        // The end of the gathering is of a clock that was right.
        let (record, due_at) = noted(90_000, 1_500).brought_back(at(1_500), now).unwrap();
        assert_eq!((record.until, due_at), (Some(at(1_500)), at(1_500)));
        // Clocks are a little apart, and windows may be long.
        assert!(noted(1_060, 9_000_000).brought_back(at(9_000_000), now).is_none());
        let of_a_former_build = StartRecord { noted_at: None, ..noted(0, 90_600) };
        assert!(of_a_former_build.brought_back(at(90_600), now).is_none());
    }
}
