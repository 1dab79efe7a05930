//! One turn: polling a workflow until it ends, suspends, or can go no further.
//!
//! Promise: nothing is said of the whole while a part of it was not reached; a run that is asked to end begins nothing
//! more, and what it has in flight gets a grace to come back.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use jiff::Timestamp;

use crate::inbox::decisions::EndRequest;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::program::Completion;
use crate::run::taken::Taken;
use crate::store::api::Message;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, panic_message};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::net::Netted;
use crate::workflow::gate::PolledRun;

/// Why a turn ended.
#[derive(Debug)]
pub(crate) enum DriveEnd {
    Done(Completion),
    Panicked(String),
    Cancelled {
        request: EndRequest,
        message: Taken,
    },
    Terminated {
        request: EndRequest,
        message: Taken,
    },
    /// The run fails for good, whatever its workflow would do.
    FailedPermanently(Failure),
    Suspended {
        until: Option<Timestamp>,
        on: Vec<CommandId>,
        /// The newest inbox message that the last poll could look at. The store wakes the run for a later one.
        seen: u64,
    },
    Fault(Fault),
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
pub(crate) async fn drive(run: &Arc<Run>, body: BoxFuture<'static, Completion>) -> DriveEnd {
    let mut body = Netted::new(&run.id, body);
    let mut broken = pin!(run.watermark().failed());
    let mut grace: Option<BoxFuture<'static, ()>> = None;
    let mut cancelling: Option<Cancelling> = None;
    let woken = Arc::new(Woken(AtomicBool::new(false), Arc::clone(run.root())));
    let waker = Waker::from(Arc::clone(&woken));
    poll_fn(|cx| {
        run.root().register(cx.waker());
        // Before anything is looked at: what comes in from here on may be missed by this poll.
        let seen = run.seen();
        if let Poll::Ready(error) = broken.as_mut().poll(cx) {
            return Poll::Ready(DriveEnd::Fault(run.fault().unwrap_or(Fault::Append(error))));
        }
        // Before replay: a run that does not fit its code any more can still be cancelled.
        if run.fault().is_none()
            && let Some(end) = asked_to_end(run, &mut cancelling, cx)
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
            return Poll::Ready(DriveEnd::Fault(fault));
        }
        if let Some(failure) = run.permanent_failure() {
            return Poll::Ready(DriveEnd::FailedPermanently(failure.clone()));
        }
        if let Some(cancelling) = &mut cancelling {
            // Whatever the workflow makes of it: it was cancelled before.
            let ended = !matches!(polled, Ok(Poll::Pending));
            return cancelling.poll(run, ended, cx);
        }
        match polled {
            Ok(Poll::Ready(completion)) => return Poll::Ready(DriveEnd::Done(completion)),
            Ok(Poll::Pending) => {}
            Err(panic) => return Poll::Ready(DriveEnd::Panicked(panic_message(&*panic))),
        }
        // Part of the workflow wants to be polled again, or was not reached yet: nothing can be said of the whole.
        if woken.0.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        if let Some(fault) = run.stuck() {
            return Poll::Ready(DriveEnd::Fault(fault));
        }
        if let Some(end) = asked_to_end(run, &mut cancelling, cx) {
            return Poll::Ready(end);
        }
        match run.idle() {
            Some((until, on)) if is_long_wait(run, until) => {
                let waited = grace
                    .get_or_insert_with(|| run.shared.environment.sleep(run.shared.grace))
                    .poll_unpin(cx);
                waited.map(|()| DriveEnd::Suspended { until, on, seen })
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
fn is_long_wait(run: &Run, until: Option<Timestamp>) -> bool {
    until.is_none_or(|until| until > later(run.now(), run.shared.grace))
}

/// A run that was asked to end, while what it has in flight may come back.
struct Cancelling {
    request: EndRequest,
    message: Option<Taken>,
    patience: BoxFuture<'static, ()>,
}

impl Cancelling {
    /// Ends the turn when nothing is in flight any more, or patience is.
    fn poll(&mut self, run: &Run, ended: bool, cx: &mut Context<'_>) -> Poll<DriveEnd> {
        if !ended && run.has_in_flight() && self.patience.poll_unpin(cx).is_pending() {
            return Poll::Pending;
        }
        match self.message.take() {
            Some(message) => Poll::Ready(DriveEnd::Cancelled { request: self.request.clone(), message }),
            // It ended the turn before.
            None => Poll::Pending,
        }
    }
}

/// What the inbox and the engine ask for. A request to cancel is noted, and ends the turn at once if nothing is in
/// flight; a run that is being unwound is past it.
fn asked_to_end(
    run: &Arc<Run>,
    cancelling: &mut Option<Cancelling>,
    cx: &mut Context<'_>,
) -> Option<DriveEnd> {
    if run.may_stop() {
        return Some(DriveEnd::Fault(Fault::ShutDown { run: run.id.clone() }));
    }
    if let Some(message) = run.take_message(TERMINATE) {
        return Some(DriveEnd::Terminated { request: request_in(&message), message });
    }
    if cancelling.is_none() && !run.is_unwinding() {
        let message = run.take_message(CANCEL)?;
        run.begin_cancelling();
        let patience = run.shared.environment.sleep(run.shared.cancel_grace);
        let request = request_in(&message);
        let noted = cancelling.insert(Cancelling { request, message: Some(message), patience });
        return match noted.poll(run, false, cx) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        };
    }
    None
}

fn request_in(message: &Message) -> EndRequest {
    let unreadable = |_| EndRequest { reason: "unreadable request".into(), actor: "unknown".into() };
    message.payload.decode().unwrap_or_else(unreadable)
}
