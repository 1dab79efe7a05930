//! Messages and waits through the codec.
//!
//! Promise: what is said to a run is read with the keys at hand or not at all, and is not written in the open beside values
//! that are encoded. A wait is found by its name whether that stands in the open or not.

use crate::codec::coded::CodedStore;
use crate::codec::values::of_message;
use crate::store::append::END_REQUESTS;
use crate::store::encoding::key_of_run;
use crate::store::error::StoreError;
use crate::store::records::Message;
use crate::store::waits::{ListedWait, OpenWait, WaitFilter};
use crate::vocabulary::codec::CodecError;
use crate::vocabulary::id::{Position, RunId};

impl CodedStore {
    /// Refuses a message to a run whose values are encoded, where no codec is set.
    pub(super) async fn refuse_open_message(&self, run: &RunId, message: &Message) -> Result<(), StoreError> {
        if self.seal.is_set() {
            return Ok(());
        }
        let Some(key) = key_of_run(&*self.inner, run).await? else { return Ok(()) };
        let what = format!("{} of run `{run}`", of_message(message));
        Err(StoreError::Codec { what, run: Some(run.clone()), error: CodecError::WouldBeOpen { key } })
    }

    pub(super) fn open_messages(
        &self,
        run: &RunId,
        mut messages: Vec<Message>,
    ) -> Result<Vec<Message>, StoreError> {
        for message in &mut messages {
            self.seal.open_message(message, run)?;
        }
        Ok(messages)
    }

    /// Of these messages those that ask for the run's end.
    pub(super) fn open_end_requests(
        &self,
        run: &RunId,
        mut messages: Vec<Message>,
    ) -> Result<Vec<Message>, StoreError> {
        messages.retain(|message| END_REQUESTS.contains(&&*message.topic));
        for message in &mut messages {
            match self.seal.open_message(message, run) {
                Ok(()) | Err(StoreError::Codec { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(messages)
    }

    /// The waits that are asked for, as they were.
    pub(super) async fn open_waits(&self, filter: WaitFilter) -> Result<Vec<ListedWait>, StoreError> {
        let mut waits = self.inner.waits(filter.clone()).await?;
        if let Some(name) = &filter.name
            && let Some(name) = self.seal.wait_name(name)?
        {
            // Some names stand in the open, and some do not.
            let hidden = WaitFilter { name: Some(name), ..filter.clone() };
            waits.extend(self.inner.waits(hidden).await?);
            waits.sort_by_key(|wait| wait.place);
            if filter.limit > 0 {
                waits.truncate(filter.limit);
            }
        }
        for listed in &mut waits {
            self.seal.open_wait(&mut listed.wait, &listed.run);
        }
        Ok(waits)
    }

    /// Encodes the waits of a run that have no rows yet, and has them listed.
    pub(super) async fn list_sealed_waits(
        &self,
        run: &RunId,
        next: Position,
        mut waits: Vec<OpenWait>,
    ) -> Result<bool, StoreError> {
        let labels = self.labels(run).await?;
        for wait in &mut waits {
            self.seal.seal_wait(wait, run, labels.as_ref())?;
        }
        self.inner.list_waits(run, next, waits).await
    }
}
