//! Messages, waits, streams, schedules, keyed starts, outcomes and large values through the codec.
//!
//! Promise: each value is bound to its place. What a store folds or filters stays foldable and can be found.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::codec::seal::{DIGEST, Seal, escaped_bytes, reads_as_encoded, refused};
use crate::journal::large_values::{BlobRef, LargeValue};
use crate::store::append::END_REQUESTS;
use crate::store::append::StoredEffect;
use crate::store::error::StoreError;
use crate::store::queues::KeyedStart;
use crate::store::records::Message;
use crate::store::schedules::{ScheduleRecord, TickOutcome};
use crate::store::streams::{StreamEnd, StreamItem, StreamKind, StreamWrite, joined};
use crate::store::waits::OpenWait;
use crate::vocabulary::codec::{CodecError, PayloadOwner, PayloadPlace, SEALED};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Digest, Payload};
use crate::vocabulary::waiting::Waiting;

fn failed(error: impl std::fmt::Display) -> CodecError {
    CodecError::Failed { reason: error.to_string() }
}

/// Whether a value cannot be encoded or decoded because its key was destroyed on purpose.
pub(super) fn is_erased(error: &StoreError) -> bool {
    matches!(error, StoreError::Codec { error: CodecError::DestroyedKey { .. }, .. })
}

pub(super) fn of_message(message: &Message) -> String {
    format!("message `{}` on `{}`", message.id, message.topic)
}

fn of_chunk(stream: &str, command: &CommandId) -> String {
    format!("stream `{stream}` from `{command}`")
}

fn of_end(command: &CommandId) -> String {
    format!("end of the streams from `{command}`")
}

fn of_effect(effect: &StoredEffect, number: usize, kind: &str) -> String {
    format!("event {number} `{kind}` of the outcome under `{}`", effect.key)
}

impl Seal {
    /// Encodes a message. A request to end a run whose own key was destroyed is encoded as nobody's: what an operator says
    /// must reach the run.
    pub(super) fn seal_message(
        &self,
        message: &mut Message,
        run: &RunId,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        if self.passes(&message.payload) {
            return Ok(());
        }
        let name = of_message(message);
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name);
        match self.seal(&mut message.payload, &place.labels(labels)) {
            Err(error)
                if is_erased(&error) && labels.is_some() && END_REQUESTS.contains(&&*message.topic) =>
            {
                self.seal(&mut message.payload, &place)
            }
            sealed => sealed,
        }
    }

    pub(super) fn open_message(&self, message: &mut Message, run: &RunId) -> Result<(), StoreError> {
        let name = of_message(message);
        self.open(&mut message.payload, &PayloadPlace::new(PayloadOwner::Run(run), &name))
    }

    /// Encodes an open wait. The name of a question may be the question itself: it is found by a keyed digest.
    pub(super) fn seal_wait(
        &self,
        wait: &mut OpenWait,
        run: &RunId,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        // As JSON, no name of a wait can look like an encoded value.
        if self.passes(&wait.detail) {
            return Ok(());
        }
        let name = format!("wait `{}`", wait.command);
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name).labels(labels);
        let both = format!("[{},{}]", serde_json::Value::from(&*wait.name), wait.detail.as_str());
        let Some(sealed) = self.seal_text(&both, &place)? else { return Ok(()) };
        wait.detail = Payload::from_text(sealed).map_err(|error| refused(&place, failed(error)))?;
        let is_said = matches!(wait.waiting, Waiting::Approval | Waiting::Question);
        if is_said && wait.name != wait.command.name() {
            wait.name = self.wait_name(&wait.name)?.unwrap_or_else(|| wait.name.clone());
        }
        Ok(())
    }

    /// What stands in the place of the name of a wait; `None` where the name does.
    pub(super) fn wait_name(&self, name: &str) -> Result<Option<String>, StoreError> {
        let digest = self.name("wait", name).map_err(|error| StoreError::Codec {
            what: "the name of a wait".into(),
            run: None,
            error,
        })?;
        Ok(digest.map(|digest| format!("{DIGEST}{digest}")))
    }

    /// Decodes an open wait as far as the keys at hand allow.
    pub(super) fn open_wait(&self, wait: &mut OpenWait, run: &RunId) {
        let name = format!("wait `{}`", wait.command);
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name);
        if let Ok(Some(both)) = self.open_text(wait.detail.as_str(), &place)
            && let Ok((name, detail)) = serde_json::from_str::<(String, Payload)>(&both)
        {
            (wait.name, wait.detail) = (name, detail);
        }
    }

    pub(super) fn seal_stream(
        &self,
        write: &mut StreamWrite,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        if self.passes(&write.items) {
            return Ok(());
        }
        let name = of_chunk(&write.stream, &write.command);
        let place = PayloadPlace::new(PayloadOwner::Run(&write.run), &name).labels(labels);
        if let Some(sealed) = self.seal_text(write.items.as_str(), &place)? {
            // An array, as every chunk: a store joins chunks without knowing what is in them.
            write.items =
                Payload::from_text(format!("[{sealed}]")).map_err(|error| refused(&place, failed(error)))?;
        }
        Ok(())
    }

    /// What an append says of the streams of a command that has ended.
    pub(super) fn seal_end(
        &self,
        end: &mut StreamEnd,
        run: &RunId,
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        let Some(digest) = end.digest.as_mut().filter(|_| self.is_set()) else { return Ok(()) };
        let name = of_end(&end.command);
        let mut text = digest.as_str().to_owned();
        self.seal_string(&mut text, &PayloadPlace::new(PayloadOwner::Run(run), &name).labels(labels))?;
        *digest = Digest::stored(&text);
        Ok(())
    }

    pub(super) fn open_stream(&self, item: &mut StreamItem, run: &RunId) -> Result<(), StoreError> {
        let owner = PayloadOwner::Run(run);
        match item.kind {
            StreamKind::Chunk | StreamKind::Folded if item.data.as_str().contains(SEALED) => {
                let name = of_chunk(&item.stream, &item.command);
                let place = PayloadPlace::new(owner, &name);
                let refused = |error: &dyn std::fmt::Display| refused(&place, failed(error));
                let parts: Vec<&RawValue> =
                    serde_json::from_str(item.data.as_str()).map_err(|error| refused(&error))?;
                let mut arrays = Vec::with_capacity(parts.len());
                for part in parts {
                    let opened = self.open_text(part.get(), &place)?;
                    arrays.push(opened.unwrap_or_else(|| format!("[{}]", part.get())));
                }
                let whole = joined(arrays.iter().map(String::as_str));
                item.data = Payload::from_text(whole).map_err(|error| refused(&error))?;
            }
            StreamKind::Committed => {
                let name = of_end(&item.command);
                let place = PayloadPlace::new(owner, &name);
                if let Ok(mut digest) = item.data.decode::<String>() {
                    self.open_string(&mut digest, &place)?;
                    item.data = Payload::encode(&digest).map_err(|error| refused(&place, failed(error)))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn seal_schedule(&self, schedule: &mut ScheduleRecord) -> Result<(), StoreError> {
        let owner = PayloadOwner::Schedule(&schedule.name);
        let labels = self.needs_labels().then_some(&schedule.spec.labels);
        self.seal(&mut schedule.spec.input, &PayloadPlace::new(owner, "input").labels(labels))?;
        for tick in &mut schedule.recent {
            if let TickOutcome::Failed(why) = &mut tick.outcome {
                let name = format!("tick {}", tick.at);
                self.seal_string(why, &PayloadPlace::new(owner, &name).labels(labels))?;
            }
        }
        Ok(())
    }

    pub(super) fn open_schedule(&self, schedule: &mut ScheduleRecord) -> Result<(), StoreError> {
        let owner = PayloadOwner::Schedule(&schedule.name);
        self.open(&mut schedule.spec.input, &PayloadPlace::new(owner, "input"))?;
        for tick in &mut schedule.recent {
            if let TickOutcome::Failed(why) = &mut tick.outcome {
                self.open_string(why, &PayloadPlace::new(owner, &format!("tick {}", tick.at)))?;
            }
        }
        Ok(())
    }

    pub(super) fn seal_start(&self, start: &mut KeyedStart) -> Result<(), StoreError> {
        #[derive(Deserialize)]
        struct Labelled {
            #[serde(default)]
            labels: Labels,
        }
        let labels = match self.needs_labels() {
            true => start.record.decode::<Labelled>().ok().map(|start| start.labels),
            false => None,
        };
        let place = PayloadPlace::new(PayloadOwner::KeyedStart(&start.name), "record");
        self.seal(&mut start.record, &place.labels(labels.as_ref()))
    }

    pub(super) fn open_start(&self, start: &mut KeyedStart) -> Result<(), StoreError> {
        let place = PayloadPlace::new(PayloadOwner::KeyedStart(&start.name), "record");
        self.open(&mut start.record, &place)
    }

    pub(super) fn seal_effect(
        &self,
        effect: &mut StoredEffect,
        values: &mut [LargeValue],
        labels: Option<&Labels>,
    ) -> Result<(), StoreError> {
        let mut frame = effect.frame.clone();
        self.seal_events(&mut frame, &effect.run, labels, |number, kind| of_effect(effect, number, kind))?;
        effect.frame = frame;
        for LargeValue { value, at } in values {
            let bytes = self.seal_blob(&effect.run, &at.sha256, value.as_str().as_bytes(), labels)?;
            if let Some(text) = bytes {
                let name = format!("value {}", at.sha256);
                let place = PayloadPlace::new(PayloadOwner::Run(&effect.run), &name);
                let bytes = text.len() as u64;
                *at = BlobRef { sha256: self.blob_name(&effect.run, &at.sha256)?, bytes };
                *value = Payload::from_text(text).map_err(|error| refused(&place, failed(error)))?;
            } else {
                at.sha256 = self.blob_name(&effect.run, &at.sha256)?;
            }
        }
        Ok(())
    }

    pub(super) fn open_effect(&self, effect: &mut StoredEffect) -> Result<(), StoreError> {
        let place = |number, kind: &str| of_effect(effect, number, kind);
        let opened = self.open_events(&effect.frame.text, &effect.run, place)?;
        if let Some(text) = opened {
            effect.frame.text = text;
        }
        Ok(())
    }

    /// Under which name the bytes with this hash are stored for a run. Other runs have other names for the same bytes: what
    /// is stored is bound to its run.
    pub(super) fn blob_name(&self, run: &RunId, hash: &str) -> Result<String, StoreError> {
        let digest = self.name("value", &format!("{run}\0{hash}")).map_err(|error| StoreError::Codec {
            what: format!("the name of a value of run `{run}`"),
            run: Some(run.clone()),
            error,
        })?;
        Ok(digest.unwrap_or_else(|| hash.to_owned()))
    }

    /// Bytes of a run as they are stored; `None` where they stay as they are.
    pub(super) fn seal_blob(
        &self,
        run: &RunId,
        hash: &str,
        bytes: &[u8],
        labels: Option<&Labels>,
    ) -> Result<Option<String>, StoreError> {
        let name = format!("value {hash}");
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name).labels(labels);
        match (self.seal_bytes(bytes, &place)?, std::str::from_utf8(bytes)) {
            (None, Ok(text)) if reads_as_encoded(text) => escaped_bytes(bytes, &place).map(Some),
            (sealed, _) => Ok(sealed),
        }
    }

    /// Stored bytes of a run as they were.
    pub(super) fn open_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let name = format!("value {hash}");
        let place = PayloadPlace::new(PayloadOwner::Run(run), &name);
        let opened = match std::str::from_utf8(&bytes) {
            Ok(text) => self.open_bytes(text, &place)?,
            Err(_) => None,
        };
        Ok(opened.map_or(bytes, |(_, bytes)| bytes))
    }
}
