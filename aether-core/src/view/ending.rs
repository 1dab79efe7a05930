//! A run that was asked to end and has not ended: in its grace period, or while its steps are undone.
//!
//! Promise: reading executes nothing; the status of such a run stays what its journal says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inbox::decisions::EndRequest;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::journal::event::Event;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::vocabulary::id::RunId;

/// The request to end a run that is still open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Since when: the time of the request, or, once the workflow is over and its steps are being undone, of that.
    pub since: Timestamp,
    /// Why, as the request says.
    pub reason: String,
    /// Who asked for it.
    pub actor: String,
    /// Whether it is to end at once, without a grace period and without undoing anything.
    pub at_once: bool,
}

impl Ending {
    /// The end with which the undoing of steps began at `since`, where it was asked for.
    pub(super) fn of(end: &Event, since: Timestamp) -> Option<Self> {
        let (reason, actor, at_once) = match end {
            Event::RunCancelled(e) => (e.reason.clone(), e.actor.clone(), false),
            Event::RunTerminated(e) => (e.reason.clone(), e.actor.clone(), true),
            _ => return None,
        };
        Some(Self { since, reason, actor, at_once })
    }

    /// The request in the inbox of a run, which its worker has not carried out.
    pub(super) async fn requested(store: &dyn Store, run: &RunId) -> Result<Option<Self>, StoreError> {
        let inbox = store.inbox(run, 0).await?;
        let mut requests = inbox.iter().filter(|message| [CANCEL, TERMINATE].contains(&&*message.topic));
        Ok(requests.next().and_then(|message| {
            let EndRequest { reason, actor } = message.payload.decode().ok()?;
            Some(Self { since: message.at, reason, actor, at_once: message.topic == TERMINATE })
        }))
    }
}
