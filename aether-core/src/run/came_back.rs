//! What is known of a call whose body had come back when the call was cut off.
//!
//! Promise: it is all that the call would have appended.

use crate::journal::event::Event;
use crate::store::ledger::LedgerUpdate;
use crate::store::streams::StreamEnd;
use crate::vocabulary::id::InvocationId;

/// What a call would have appended whose body had come back when the call was cut off.
#[derive(Clone, Debug)]
pub(crate) struct CameBack {
    pub(crate) invocation: InvocationId,
    pub(crate) events: Vec<Event>,
    pub(crate) ledger: Vec<LedgerUpdate>,
    pub(crate) streams: Vec<StreamEnd>,
}
