//! Driving a run: polling its workflow until it ends, suspends, or cannot continue.
//!
//! Promise: a run is judged stuck or idle only when every part of it was polled and none can move; a run that is asked to
//! end starts nothing new, and what it has in flight gets a grace period to finish.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::inbox::decisions::EndRequest;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::run::claim::{Rest, Run};
use crate::run::fault::Fault;
use crate::run::next_generation::NextGeneration;
use crate::run::program::Completion;
use crate::run::recovery::Proof;
use crate::run::replayed_log::Releasable;
use crate::run::taken::Taken;
use crate::sched::{AtomicBool, AtomicWaker};
use crate::store::records::Message;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, panic_message};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::net::Netted;
use crate::workflow::gate::{PolledRun, takes_stray};

/// Why driving a run ended.
#[derive(Debug)]
pub(crate) enum DriveEnd {
    /// The workflow returned.
    Done(Completion),
    /// The workflow panicked with this message.
    Panicked(String),
    /// The run was asked to end, by this inbox message.
    Cancelled { request: EndRequest, message: Taken },
    /// The run has not begun by this time, which was the latest.
    Expired(Timestamp),
    /// The run was asked to end at once.
    Terminated { request: EndRequest, message: Taken },
    /// The workflow continues as new.
    Renewed(NextGeneration),
    /// The run fails permanently, whatever its workflow would do.
    FailedPermanently(Failure),
    /// Only durable waits are left: the commands `on`, of which the first is due at `until`. `seen` is the number of the
    /// newest inbox message that the last poll could look at; the store keeps the run due for a later one.
    Suspended { until: Option<Timestamp>, on: Vec<CommandId>, seen: u64 },
    /// The run cannot be advanced here.
    Fault(Fault),
}

/// Wakes the drive of a run, and remembers that it did.
struct WakeFlag(AtomicBool, Arc<AtomicWaker>);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
        self.1.wake();
    }
}

/// Polls `body` until the run ends, suspends, or must stop.
///
/// One poll of the run is one pass through the closure. It has many exits, and each stands before the next for a reason:
///
/// 1. A failed append. What the workflow would do next could not be recorded.
/// 2. A request to stop, terminate or cancel. Before the workflow is polled, so that a run whose code no longer fits its
///    history can still be ended; unless it has a fault already, which exit 3 returns.
/// 3. A fault, then a permanent failure. Both park the command that raised them for ever, so the workflow looks pending.
///    Any later exit would take it for waiting. A fault that lets what is in flight finish is no exit yet: it is returned by
///    8, and by 5 where the workflow ends meanwhile.
/// 4. A cancellation that was accepted before. It outranks what the workflow returns meanwhile: a workflow that reacts to
///    its cancelled steps must not turn the cancellation into a success.
/// 5. The workflow's own end, or its wish to continue as new.
/// 6. A wake during the poll. Part of the workflow was not reached yet: `each` polls a limited number of branches at a
///    time, and a branch that takes a recorded result wakes the branch whose result is next. Exits 7 and 9 judge the
///    whole and would judge too early.
/// 7. A replay in which nothing moves any more: it diverged, and would wait for ever; or all of it fits, and only now
///    may anything live happen.
/// 8. Requests again. The poll may have ended the last call in flight of a run that is to stop; nothing else would wake
///    this task.
/// 9. Only durable waits are left. Last, because a run that is evicted here is loaded again only for a due time, or for a
///    message that this pass could not see.
pub(crate) async fn drive(run: &Arc<Run>, body: BoxFuture<'static, Completion>) -> DriveEnd {
    let released = Arc::new(AtomicBool::new(false));
    let mut body = Netted::new(&run.id, Releasable::new(body, Arc::clone(&released)));
    let mut broken = pin!(run.watermark().failed());
    let mut idle_grace: Option<BoxFuture<'static, ()>> = None;
    let mut cancelling: Option<Cancelling> = None;
    let woken = Arc::new(WakeFlag(AtomicBool::new(false), Arc::clone(run.root())));
    let waker = Waker::from(Arc::clone(&woken));
    let end = poll_fn(|cx| {
        // First: a notification between any of the looks below and the end of this pass must wake the task.
        run.root().register(cx.waker());
        // Before anything is looked at: a message that arrives from here on may be missed by this pass.
        let seen = run.seen();
        // 1
        if let Poll::Ready(error) = broken.as_mut().poll(cx) {
            return Poll::Ready(DriveEnd::Fault(run.fault().unwrap_or(Fault::Append(error))));
        }
        // 2
        if run.fault().is_none()
            && let Some(end) = check_requests(run, &mut cancelling, cx)
        {
            return Poll::Ready(end);
        }
        // From here on: wakes before this poll are answered by this poll.
        woken.0.store(false, Ordering::Release);
        let polled = match run.fault() {
            // Nothing of the workflow runs after a fault.
            Some(_) => Ok(Poll::Pending),
            None => {
                let _polled = PolledRun::new(&run.id);
                let _of_another = takes_stray();
                let mut cx = Context::from_waker(&waker);
                std::panic::catch_unwind(AssertUnwindSafe(|| body.poll_unpin(&mut cx)))
            }
        };
        // 3
        if matches!(polled, Ok(Poll::Pending)) && takes_stray() && cancelling.is_none() {
            run.fail(Fault::StrayAwait { run: run.id.clone(), workflow: run.def.name.into() });
        }
        if let Some(fault) = run.fault() {
            return Poll::Ready(DriveEnd::Fault(fault));
        }
        if let Some(failure) = run.permanent_failure() {
            return Poll::Ready(DriveEnd::FailedPermanently(failure.clone()));
        }
        // 4
        if let Some(cancelling) = &mut cancelling {
            let ended = !matches!(polled, Ok(Poll::Pending));
            return cancelling.poll(run, ended, cx);
        }
        // 5
        let ended = run.next_generation().is_some() || !matches!(polled, Ok(Poll::Pending));
        if ended && let Some(misfit) = run.take_misfit() {
            return Poll::Ready(DriveEnd::Fault(misfit));
        }
        if let Some(next) = run.next_generation() {
            return Poll::Ready(DriveEnd::Renewed(next.clone()));
        }
        match polled {
            Ok(Poll::Ready(completion)) => return Poll::Ready(DriveEnd::Done(completion)),
            Ok(Poll::Pending) => {}
            Err(panic) => {
                // It is recorded, logged and compared with what was recorded.
                let message = run.shared.redaction.text(panic_message(&*panic));
                return Poll::Ready(DriveEnd::Panicked(message));
            }
        }
        // 6; the wake also woke the task, so it is polled again.
        if woken.0.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // 7; unless marks wait that the run has passed, or items that began under a higher limit. They wake the task.
        if run.release_marks() {
            return Poll::Pending;
        }
        if run.release_item() {
            return Poll::Pending;
        }
        if let Some(fault) = run.stuck() {
            return Poll::Ready(DriveEnd::Fault(fault));
        }
        match run.prove() {
            // Who waited for it has woken this task.
            Proof::New => {
                run.note_replayed();
                run.adopt();
                return Poll::Pending;
            }
            Proof::Differs(fault) => return Poll::Ready(DriveEnd::Fault(*fault)),
            Proof::Known | Proof::Open => {}
        }
        // 8
        if let Some(end) = check_requests(run, &mut cancelling, cx) {
            return Poll::Ready(end);
        }
        // 9
        match run.rest() {
            // A turn of a queue ends where nothing but waiting is left, so that its slot is free.
            Rest::Waiting { until, on } if run.queued && until.is_none_or(|until| until > run.now()) => {
                Poll::Ready(DriveEnd::Suspended { until, on, seen })
            }
            Rest::Waiting { until, on } if !run.queued && is_long_wait(run, until) => {
                let waited = idle_grace
                    .get_or_insert_with(|| run.shared.environment.sleep(run.shared.grace))
                    .poll_unpin(cx);
                waited.map(|()| DriveEnd::Suspended { until, on, seen })
            }
            // The engine makes all waits look at every poll, which may be more often than the grace period is long: it goes on.
            // What the look finds wakes this task.
            Rest::Looking => Poll::Pending,
            // Something is in flight, or a wait is due soon. The grace period begins anew when the run is idle again.
            Rest::Working | Rest::Waiting { .. } => {
                idle_grace = None;
                Poll::Pending
            }
        }
    })
    .await;
    // What else ended it outranks that its code could not go on.
    let _outranked = run.take_misfit();
    // What is in flight is code of steps, which is never silenced.
    let resumes = matches!(end, DriveEnd::Suspended { .. } | DriveEnd::Fault(_)) && !run.has_in_flight();
    released.store(resumes, Ordering::Relaxed);
    end
}

/// Whether a wait is long enough to evict the run from memory.
fn is_long_wait(run: &Run, until: Option<Timestamp>) -> bool {
    until.is_none_or(|until| until > later(run.now(), run.shared.grace))
}

/// A request to end the run, while what it has in flight may still finish.
struct Cancelling {
    request: EndRequest,
    /// `None` once it has ended the drive.
    message: Option<Taken>,
    grace: BoxFuture<'static, ()>,
}

impl Cancelling {
    /// Ends the drive when nothing is in flight any more, or the grace period is over.
    fn poll(&mut self, run: &Run, ended: bool, cx: &mut Context<'_>) -> Poll<DriveEnd> {
        if !ended && run.has_in_flight() && self.grace.poll_unpin(cx).is_pending() {
            return Poll::Pending;
        }
        match self.message.take() {
            Some(message) => Poll::Ready(DriveEnd::Cancelled { request: self.request.clone(), message }),
            // It has ended the drive before.
            None => Poll::Pending,
        }
    }
}

/// What the engine and the inbox request: to stop, to terminate, to cancel. A cancellation is noted, and ends the drive at
/// once if nothing is in flight. A run whose steps are being undone is past cancellation, but can be terminated.
fn check_requests(
    run: &Arc<Run>,
    cancelling: &mut Option<Cancelling>,
    cx: &mut Context<'_>,
) -> Option<DriveEnd> {
    if let Some(fault) = run.stops() {
        return Some(DriveEnd::Fault(fault));
    }
    if let Some(message) = run.take_message(TERMINATE) {
        return Some(DriveEnd::Terminated { request: request_in(&message), message });
    }
    if cancelling.is_none() && !run.is_unwinding() {
        let message = run.take_message(CANCEL)?;
        run.begin_cancelling();
        let grace = run.shared.environment.sleep(run.shared.cancel_grace);
        let request = request_in(&message);
        let noted = cancelling.insert(Cancelling { request, message: Some(message), grace });
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
