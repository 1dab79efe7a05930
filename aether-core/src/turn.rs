//! One turn: polling a workflow until it ends, suspends, or can go no further; and recording how it ended.
//!
//! Promise: a result is seen by a caller only after it is durable; a run that is given up says in its journal which
//! invocations it left in flight.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::contract::Status;
use crate::event::{Event, InvocationAbandoned, RunCancelled, RunCompleted, RunFailed, RunWaiting};
use crate::failure::Failure;
use crate::fault::Fault;
use crate::gate::PolledRun;
use crate::id::{CommandId, RunId};
use crate::payload::Payload;
use crate::perform::panic_message;
use crate::run::{Riders, Run};
use crate::step::Completion;
use crate::store::StatusChange;
use crate::world::later;

/// Topic of the inbox under which a run is cancelled.
pub(crate) const CANCEL: &str = "cancel";

/// A request to cancel, as it travels through the inbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CancelRequest {
    pub(crate) reason: String,
    pub(crate) actor: String,
}

/// Why a turn ended.
#[derive(Debug)]
pub(crate) enum TurnEnd {
    Done(Completion),
    Panicked(String),
    Cancelled {
        request: CancelRequest,
        message: u64,
    },
    /// The run fails for good, whatever its workflow would do.
    Condemned(Failure),
    Suspended {
        until: Option<Timestamp>,
        on: Vec<CommandId>,
    },
    Fault(Fault),
}

/// How a run ended, or why it is not being advanced.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// With a value.
    Completed(Payload),
    /// With an error.
    Failed {
        /// The error as the workflow returned it; a [`Failure`] where the workflow panicked.
        error: Payload,
        /// The error as text.
        message: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
    },
    /// It has not ended, and is not being advanced.
    Stopped(Fault),
}

impl RunEnd {
    /// The end that a terminal event tells of.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::RunCompleted(e) => Some(Self::Completed(e.result.clone())),
            Event::RunFailed(e) => Some(Self::Failed { error: e.error.clone(), message: e.message.clone() }),
            Event::RunCancelled(e) => {
                Some(Self::Cancelled { reason: e.reason.clone(), actor: e.actor.clone() })
            }
            _ => None,
        }
    }
}

/// Wakes the turn of a run, and remembers that it did.
struct Woken(AtomicBool, Arc<AtomicWaker>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
        self.1.wake();
    }
}

/// Polls `body` until the turn ends.
pub(crate) async fn turn(run: &Arc<Run>, mut body: BoxFuture<'static, Completion>) -> TurnEnd {
    let mut broken = pin!(run.tail().failed());
    let mut grace: Option<BoxFuture<'static, ()>> = None;
    let woken = Arc::new(Woken(AtomicBool::new(false), Arc::clone(run.root())));
    let waker = Waker::from(Arc::clone(&woken));
    poll_fn(|cx| {
        run.root().register(cx.waker());
        if let Poll::Ready(error) = broken.as_mut().poll(cx) {
            return Poll::Ready(TurnEnd::Fault(run.fault().unwrap_or(Fault::Append(error))));
        }
        // Before replay: a run that does not fit its code any more can still be cancelled.
        if run.fault().is_none()
            && let Some(end) = asked_to_end(run)
        {
            return Poll::Ready(end);
        }
        woken.0.store(false, Ordering::Release);
        let polled = match run.fault() {
            Some(_) => Ok(Poll::Pending),
            None => {
                let _polled = PolledRun::new(&run.id);
                let mut cx = Context::from_waker(&waker);
                std::panic::catch_unwind(AssertUnwindSafe(|| body.poll_unpin(&mut cx)))
            }
        };
        if let Some(fault) = run.fault() {
            return Poll::Ready(TurnEnd::Fault(fault));
        }
        if let Some(failure) = run.condemned() {
            return Poll::Ready(TurnEnd::Condemned(failure.clone()));
        }
        match polled {
            Ok(Poll::Ready(completion)) => return Poll::Ready(TurnEnd::Done(completion)),
            Ok(Poll::Pending) => {}
            Err(panic) => return Poll::Ready(TurnEnd::Panicked(panic_message(&*panic))),
        }
        // Part of the workflow wants to be polled again, or was not reached yet: nothing can be said of the whole.
        if woken.0.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        if let Some(fault) = run.stuck() {
            return Poll::Ready(TurnEnd::Fault(fault));
        }
        if let Some(end) = asked_to_end(run) {
            return Poll::Ready(end);
        }
        match run.idle() {
            Some((until, on)) if far(run, until) => {
                let until_evicted = later(run.now(), run.host.grace);
                let waited =
                    grace.get_or_insert_with(|| run.host.world.sleep_until(until_evicted)).poll_unpin(cx);
                waited.map(|()| TurnEnd::Suspended { until, on })
            }
            _ => {
                grace = None;
                Poll::Pending
            }
        }
    })
    .await
}

/// Whether a wait is long enough to give up the memory.
fn far(run: &Run, until: Option<Timestamp>) -> bool {
    until.is_none_or(|until| until > later(run.now(), run.host.grace))
}

fn asked_to_end(run: &Run) -> Option<TurnEnd> {
    if run.may_stop() {
        return Some(TurnEnd::Fault(Fault::ShutDown { run: run.id.clone() }));
    }
    let message = run.take_message(CANCEL)?;
    let request = message
        .payload
        .decode()
        .unwrap_or_else(|_| CancelRequest { reason: "cancelled".into(), actor: "unknown".into() });
    Some(TurnEnd::Cancelled { request, message: message.seq })
}

/// Records how a run ended; durable when it returns. `Err` holds the end of a turn that does not end the run.
pub(crate) async fn conclude(run: &Run, parent: Option<RunId>, end: TurnEnd) -> Result<RunEnd, TurnEnd> {
    let (event, status, consumed) = match end {
        TurnEnd::Done(completion) => {
            if let Some(fault) = run.leftover() {
                return Err(TurnEnd::Fault(fault));
            }
            let event = terminal(run, completion);
            let status =
                if matches!(event, Event::RunCompleted(_)) { Status::Completed } else { Status::Failed };
            (event, status, Vec::new())
        }
        TurnEnd::Panicked(message) => {
            let failure = Failure::permanent(format_args!("workflow `{}` panicked: {message}", run.def.name));
            (failed(&failure), Status::Failed, Vec::new())
        }
        TurnEnd::Condemned(failure) => (failed(&failure), Status::Failed, Vec::new()),
        TurnEnd::Cancelled { request, message } => {
            let event = RunCancelled { reason: request.reason, actor: request.actor }.into();
            (event, Status::Cancelled, vec![message])
        }
        other @ (TurnEnd::Suspended { .. } | TurnEnd::Fault(_)) => return Err(other),
    };
    let Some(end) = RunEnd::of(&event) else { return Err(TurnEnd::Panicked("not a terminal event".into())) };
    let mut riders = Riders { consumed, ..Riders::default() };
    let mut events = Vec::new();
    for (command, invocation) in run.abandon(None) {
        riders.ledger.push(run.in_doubt(&invocation));
        events.push(InvocationAbandoned { command, invocation }.into());
    }
    events.push(event);
    riders.status =
        Some(StatusChange { status, wake_at: None, release: true, seen: run.seen(), notify: parent });
    durable_or_fault(run, events, riders).await?;
    Ok(end)
}

/// The terminal event of a workflow that returned.
pub(crate) fn terminal(run: &Run, completion: Completion) -> Event {
    match completion {
        Ok(Ok(result)) => match run.too_large(&result) {
            None => RunCompleted { result }.into(),
            Some(reason) => failed(&Failure::permanent(format_args!("result of run `{}`: {reason}", run.id))),
        },
        Ok(Err(error)) => RunFailed { error: error.error, message: error.message }.into(),
        Err(error) => failed(&Failure::permanent(format_args!("result of run `{}`: {error}", run.id))),
    }
}

fn failed(failure: &Failure) -> Event {
    let error = Payload::encode(failure).unwrap_or_else(|_| Payload::null());
    RunFailed { error, message: failure.to_string() }.into()
}

/// Suspends a run: from here on it lives only in the store.
pub(crate) async fn suspend(run: &Run, until: Option<Timestamp>, on: Vec<CommandId>) -> Result<(), TurnEnd> {
    let status = StatusChange {
        status: Status::Waiting,
        wake_at: until,
        release: true,
        seen: run.seen(),
        notify: None,
    };
    let riders = Riders { status: Some(status), ..Riders::default() };
    durable_or_fault(run, vec![RunWaiting { until, on }.into()], riders).await
}

/// An append outside of a turn: a fault ends the wait.
async fn durable_or_fault(run: &Run, events: Vec<Event>, riders: Riders) -> Result<(), TurnEnd> {
    let append = pin!(async {
        let riders = Riders { kept: run.keep(&events).await, ..riders };
        run.append_durably(events, None, riders).await
    });
    let broken = pin!(run.tail().failed());
    match futures_util::future::select(append, broken).await {
        futures_util::future::Either::Left((_receipt, _)) => Ok(()),
        futures_util::future::Either::Right((error, _)) => Err(TurnEnd::Fault(Fault::Append(error))),
    }
}
