//! Ledger rows and business keys through the codec.
//!
//! Promise: keys that a store keeps unique are equal exactly where the names were, also when the codec's keys are rotated,
//! and say nothing of the names to who lacks the codec's secret.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::codec::coded::CodedStore;
use crate::codec::seal::{DIGEST, Seal, refused};
use crate::store::error::StoreError;
use crate::store::ledger::{LedgerEntry, LedgerUpdate, PURGED, Reservation};
use crate::vocabulary::codec::{CodecError, PayloadOwner, PayloadPlace, SEALED};
use crate::vocabulary::id::{IdempotencyKey, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Digest, Payload};

/// What stands encoded in the place of a row's digest.
#[derive(Serialize, Deserialize)]
struct Names {
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    business_key: Option<String>,
}

/// The place of a part of the row with this key. What is left of the row of a purged run has another key.
fn part(key: &IdempotencyKey, part: &str) -> String {
    let key = key.as_str();
    format!("{part} of `{}`", key.strip_prefix(PURGED).unwrap_or(key))
}

impl Seal {
    /// A business key as a store keeps it: its scope, and a keyed digest of the rest.
    pub(super) fn business_key(&self, key: &str) -> Result<String, StoreError> {
        let (scope, rest) = key.find('\t').map_or(("", key), |tab| key.split_at(tab + 1));
        let is_digest = |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        if rest.strip_prefix(DIGEST).is_some_and(is_digest) {
            return Ok(key.to_owned());
        }
        match self.name("business key", rest) {
            Ok(Some(digest)) => Ok(format!("{scope}{DIGEST}{digest}")),
            Ok(None) => Ok(key.to_owned()),
            Err(error) => Err(StoreError::Codec { what: "a business key".into(), run: None, error }),
        }
    }

    /// Encodes a row of `run`. Business keys in `open_keys` stay as they are: a row of the run has them so.
    pub(super) fn seal_entry(
        &self,
        entry: &mut LedgerEntry,
        run: &RunId,
        labels: Option<&Labels>,
        open_keys: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let (result, error) = (&mut entry.result, &mut entry.error);
        self.seal_outcome(&entry.key, result, error, run, labels)?;
        if !self.is_set() {
            return Ok(());
        }
        let name = part(&entry.key, "names");
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name).labels(labels);
        let failed =
            |error: serde_json::Error| refused(&place, CodecError::Failed { reason: error.to_string() });
        let business_key = entry.business_key.clone();
        let names = Names { digest: entry.digest.as_str().to_owned(), business_key };
        let names = serde_json::to_string(&names).map_err(failed)?;
        match self.seal_text(&names, &place)? {
            Some(sealed) => entry.digest = Digest::stored(&sealed),
            // Where nothing is encoded any more, the name of a key still is, so that it is found; it stands here.
            None if entry.business_key.is_some() => {
                entry.digest = Digest::stored(&self.escaped(&names, &place)?);
            }
            None => {}
        }
        if let Some(key) = entry.business_key.as_mut().filter(|key| !open_keys.contains(*key)) {
            *key = self.business_key(key)?;
        }
        Ok(())
    }

    pub(super) fn seal_update(
        &self,
        update: &mut LedgerUpdate,
        run: &RunId,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        self.seal_outcome(&update.key, &mut update.result, &mut update.error, run, labels)
    }

    fn seal_outcome(
        &self,
        key: &IdempotencyKey,
        result: &mut Option<Payload>,
        error: &mut Option<Payload>,
        run: &RunId,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        for (what, value) in [("result", result), ("error", error)] {
            if let Some(value) = value.as_mut().filter(|value| !self.passes(value)) {
                let name = part(key, what);
                self.seal(value, &PayloadPlace::new(PayloadOwner::Run(run), &name).labels(labels))?;
            }
        }
        Ok(())
    }

    /// Decodes a row.
    pub(super) fn open_entry(&self, entry: &mut LedgerEntry) -> Result<(), StoreError> {
        let run = entry.run.clone();
        for (what, value) in [("result", &mut entry.result), ("error", &mut entry.error)] {
            if let Some(value) = value {
                let name = part(&entry.key, what);
                self.open(value, &PayloadPlace::new(PayloadOwner::Run(&run), &name))?;
            }
        }
        let name = part(&entry.key, "names");
        let place = PayloadPlace::new(PayloadOwner::Run(&run), &name);
        if !entry.digest.as_str().starts_with(SEALED) {
            return Ok(());
        }
        if let Some(names) = self.open_text(entry.digest.as_str(), &place)? {
            let failed = |error: serde_json::Error| CodecError::Failed { reason: error.to_string() };
            let names: Names =
                serde_json::from_str(&names).map_err(|error| refused(&place, failed(error)))?;
            entry.digest = Digest::stored(&names.digest);
            // A row that failed holds its key no more.
            if entry.business_key.is_some() {
                entry.business_key = names.business_key;
            }
        }
        Ok(())
    }

    /// Decodes a row of another run as far as the keys at hand allow: what cannot be read is left out.
    pub(super) fn open_foreign_entry(&self, entry: &mut LedgerEntry) {
        let mut opened = entry.clone();
        match self.open_entry(&mut opened) {
            Ok(()) => *entry = opened,
            Err(_) => (entry.result, entry.error) = (None, None),
        }
    }
}

impl CodedStore {
    /// The name under which a store-wide business key is kept: its own where it was reserved before there was a codec.
    pub(super) async fn reserved_name(&self, business_key: &str) -> Result<String, StoreError> {
        let name = self.seal.business_key(business_key)?;
        let is_kept_open = name != business_key && self.inner.reservation(business_key).await?.is_some();
        Ok(if is_kept_open { business_key.to_owned() } else { name })
    }

    pub(super) fn open_reservation(&self, business_key: &str, mut found: Reservation) -> Reservation {
        found.business_key = business_key.to_owned();
        if let Some(tombstone) = &mut found.sealed {
            self.seal.open_foreign_entry(tombstone);
        }
        found
    }
}
