//! Ending a run whose journal cannot be read, because somebody asked for it.
//!
//! Promise: a request that needs the journal waits for whoever can read it. A run is ended unread only where that changes
//! nothing, or where nobody will ever read it again.

use std::sync::Arc;

use crate::engine::inner::{Inner, notify_parent, now};
use crate::inbox::decisions::EndRequest;
use crate::inbox::topics::TERMINATE;
use crate::journal::event::{Event, RunCancelled, RunTerminated};
use crate::journal::frame::Frame;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::log;
use crate::store::ack::{Ack, DurableWatermark};
use crate::store::append::{Append, StatusChange};
use crate::store::error::{AppendError, StoreError};
use crate::store::records::{Message, RunRecord};
use crate::store::waits::{WaitChange, WaitFilter};
use crate::vocabulary::codec::CodecError;
use crate::vocabulary::contract::Status;

/// Obeys a request to end a claimed run that cannot be read for want of a key; says whether the run has ended.
///
/// To terminate a run undoes nothing, so it needs no journal. To cancel it does, so that it is obeyed unread only where the
/// key was destroyed.
pub(super) async fn end_unread(inner: &Arc<Inner>, run: &RunRecord, fault: &Fault) -> bool {
    let Fault::Store(StoreError::Codec { error, .. }) = fault else { return false };
    match obey(inner, run, error).await {
        Ok(None) => false,
        Ok(Some(end)) => {
            if let Some(parent) = &run.parent {
                notify_parent(inner, parent, &run.id).await;
            }
            log::ended(&run.id, &end);
            inner.cell(&run.id).set(Some(end));
            inner.wake_scheduler.notify_one();
            true
        }
        Err(error) => {
            tracing::warn!(target: log::RUN, run = %run.id, %error, "cannot end an unreadable run yet");
            false
        }
    }
}

async fn obey(inner: &Inner, run: &RunRecord, unread: &CodecError) -> Result<Option<RunEnd>, AppendError> {
    let requests = inner.shared.store.end_requests(&run.id).await?;
    let is_erased = matches!(unread, CodecError::DestroyedKey { .. });
    // One that cannot be read for want of a key waits for it, unless that was destroyed.
    let is_read = |request: &&Message| request.payload.decode::<EndRequest>().is_ok();
    let terminations = || requests.iter().filter(|request| request.topic == TERMINATE);
    let mut erased = terminations().chain(requests.iter().filter(is_read)).chain(&requests);
    let found = terminations().find(is_read).or_else(|| erased.next().filter(|_| is_erased));
    let Some(request) = found else { return Ok(None) };
    let event = ended_by(request, unread);
    let waits = inner.shared.store.waits(WaitFilter::default().run(run.id.clone())).await?;
    let closed = waits.into_iter().map(|listed| WaitChange::Closed(listed.wait.command)).collect();
    let next = run.next.saturating_add(1);
    let (ack, reply) = Ack::awaited(run.id.clone(), next, Arc::new(DurableWatermark::default()));
    inner.shared.store.append(append(inner, run, &requests, &event, closed, ack)?);
    match reply.await {
        Ok(answer) => answer.map(|_| RunEnd::of(&event)),
        Err(_dropped) => {
            let (store, reason) = (inner.shared.store.describe(), "it dropped an append unanswered".into());
            Err(StoreError::ContractBroken { store, reason }.into())
        }
    }
}

/// The event with which the run ends.
fn ended_by(request: &Message, unread: &CodecError) -> Event {
    let asked = request.payload.decode::<EndRequest>();
    let EndRequest { reason, actor } = asked.unwrap_or_else(|_| EndRequest {
        reason: "no reason that can be read".into(),
        actor: "unknown".into(),
    });
    let reason = format!("{reason} (nothing was undone: {unread})");
    match &*request.topic {
        TERMINATE => RunTerminated { reason, actor }.into(),
        _ => RunCancelled { reason, actor, uncompensated: Vec::new(), expired_at: None }.into(),
    }
}

fn append(
    inner: &Inner,
    run: &RunRecord,
    requests: &[Message],
    event: &Event,
    waits: Vec<WaitChange>,
    ack: Ack,
) -> Result<Append, AppendError> {
    let frame = Frame::encode(std::slice::from_ref(event)).map_err(|error| StoreError::Unencodable {
        what: format!("the end of run `{}`", run.id),
        reason: error.to_string(),
    })?;
    let consumed: Vec<u64> = requests.iter().map(|request| request.seq).collect();
    let status = StatusChange {
        status: Status::Cancelled,
        wake_at: None,
        release: true,
        seen: consumed.iter().copied().max().unwrap_or(0),
        notify: run.parent.clone(),
    };
    Ok(Append {
        run: run.id.clone(),
        epoch: run.epoch,
        expected: run.next,
        at: now(inner),
        frame,
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: Some(status),
        consumed,
        waits,
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    })
}
