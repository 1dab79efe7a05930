//! Parking: a run that does not fit the code at hand waits, durably and listed, for code that it fits.
//!
//! Promise: one append ends the claim and says why; the run's journal, inbox, waits and timers stay as they are.

use std::sync::Arc;

use crate::engine::inner::{Inner, now};
use crate::journal::event::{Event, RunParked};
use crate::journal::frame::Frame;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::log;
use crate::store::ack::{Ack, DurableWatermark};
use crate::store::append::{Append, StatusChange};
use crate::store::error::{AppendError, StoreError};
use crate::store::records::CodeChange;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Epoch, Position, RunId};

/// A run that this worker holds and cannot advance.
pub(crate) struct Held<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) epoch: Epoch,
    /// The next position of its journal.
    pub(crate) next: Position,
    /// Number of the newest message that was looked at; a later one keeps the run due.
    pub(crate) seen: u64,
    /// The run went on live here before it did not fit: this program does not try it again.
    pub(crate) tried_live: bool,
}

/// Parks a run that this worker holds, and releases it; durable when it returns. Nothing is written where another worker
/// holds the run by now.
pub(crate) async fn park(
    inner: &Arc<Inner>,
    held: Held<'_>,
    fault: &Fault,
    needs: RunCode,
) -> Result<(), AppendError> {
    let Held { run, epoch, next, seen, tried_live } = held;
    let (recorded, requested) = fault.sides();
    inner.adoptions.remember_parked(run, next + 1, fault, &needs, tried_live);
    let event: Event = RunParked { why: fault.to_string(), recorded, requested, needs }.into();
    let frame = Frame::encode(std::slice::from_ref(&event)).map_err(|error| StoreError::Unencodable {
        what: format!("an event of run `{run}`"),
        reason: error.to_string(),
    })?;
    let at = now(inner);
    let status = StatusChange { status: Status::Waiting, wake_at: None, release: true, seen, notify: None };
    let (ack, reply) = Ack::awaited(run.clone(), next + 1, Arc::new(DurableWatermark::from(next)));
    // Before the append: it may be tried again at once, by a worker with other code.
    inner.cell(run).set(Some(RunEnd::Stopped(fault.clone())));
    inner.shared.store.append(Append {
        run: run.clone(),
        epoch,
        expected: next,
        at,
        frame,
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: Some(status),
        consumed: Vec::new(),
        waits: Vec::new(),
        code: Some(CodeChange::Parked),
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    });
    reply.await.map_err(|_dropped| StoreError::Unavailable {
        store: inner.shared.store.describe(),
        reason: "it was closed".into(),
    })??;
    inner.shared.observe(run, || at, vec![event]);
    inner.adoptions.count_parked();
    tracing::error!(target: log::RUN, %run, %fault, "run parked: it waits for code that it fits; nothing of it was lost");
    Ok(())
}
