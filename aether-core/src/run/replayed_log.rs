//! `tracing` in workflow code: emitted when the code runs for the first time, dropped while it is replayed.
//!
//! Promise: a line or span of workflow code is dropped only where the journal shows that the code ran before. Steps' bodies
//! and the engine are never silenced. Nothing is looked up in a run that was never interrupted, or where no subscriber
//! listens.
//!
//! Replayed and live code may run in one poll: an await that history answers returns at once, and the code after it may
//! be beyond the frontier. So the switch is made at each await, where an effect is entered and left, and not around the
//! poll of the run.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tracing::dispatcher::{DefaultGuard, Dispatch, set_default};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::run::claim::Run;
use crate::sched::{AtomicBool, OnceLock};

/// A scope of a resumed run, as far as its log is concerned.
pub(crate) struct LogScope {
    run: Arc<Run>,
    path: String,
    /// The code of the scope has passed what is recorded; it stays so.
    live: AtomicBool,
}

impl LogScope {
    /// The scope at `path`; `None` in a run that has nothing to replay.
    pub(crate) fn of(run: &Arc<Run>, path: &str) -> Option<Arc<Self>> {
        let (run, path) = (Arc::clone(run), path.to_owned());
        run.is_resumed().then(|| Arc::new(Self { run, path, live: AtomicBool::new(false) }))
    }

    /// Whether the code that runs next in this scope ran before.
    fn is_replayed(&self) -> bool {
        if self.live.load(Ordering::Relaxed) {
            return false;
        }
        let replayed = self.run.is_replayed(&self.path);
        self.live.store(!replayed, Ordering::Relaxed);
        replayed
    }
}

impl fmt::Debug for LogScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogScope").field("path", &self.path).finish_non_exhaustive()
    }
}

thread_local! {
    /// The scope whose code is being polled on this thread.
    static SCOPE: RefCell<Option<Arc<LogScope>>> = const { RefCell::new(None) };
    /// Exists while this thread is silenced.
    static SILENCED: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// Makes a scope the one that is polled on this thread, until it is dropped.
pub(crate) struct EnteredScope(Option<Arc<LogScope>>);

impl EnteredScope {
    pub(crate) fn new(scope: &Arc<LogScope>) -> Self {
        Self(SCOPE.replace(Some(Arc::clone(scope))))
    }
}

impl Drop for EnteredScope {
    fn drop(&mut self) {
        let former = self.0.take();
        let _thread_is_gone = SCOPE.try_with(|scope| scope.replace(former));
    }
}

/// Workflow code is entered, or left for an effect or the engine: silences this thread or lifts that.
pub(crate) fn entered(workflow_code: bool) {
    // Tasks of an explored schedule take turns on one thread in the middle of a poll.
    if cfg!(aether_dst) {
        return;
    }
    let silent = workflow_code
        // Without a subscriber there is nothing to drop.
        && LevelFilter::current() != LevelFilter::OFF
        && SCOPE.with_borrow(|scope| scope.as_ref().is_some_and(|scope| scope.is_replayed()));
    let _thread_is_gone = SILENCED.try_with(|silenced| {
        if silent == silenced.borrow().is_some() {
            return;
        }
        // Taken out before it is dropped: a dispatcher that goes may log.
        let former = silenced.borrow_mut().take();
        drop(former);
        if silent {
            let guard = set_default(NOWHERE.get_or_init(|| Dispatch::new(Nowhere)));
            silenced.replace(Some(guard));
        }
    });
}

/// A body that is computed again on every replay: it logs as workflow code does.
pub(crate) struct ComputedAgain<F>(pub(crate) Pin<Box<F>>);

impl<F: Future> Future for ComputedAgain<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct Left;
        impl Drop for Left {
            fn drop(&mut self) {
                entered(false);
            }
        }
        let _left = Left;
        entered(true);
        self.0.as_mut().poll(cx)
    }
}

static NOWHERE: OnceLock<Dispatch> = OnceLock::new();

/// Drops everything. Not `Dispatch::none()`: that one is not registered, so a log line that is reached for the first time
/// in replayed code would be marked as of interest to no one, for the whole life of the process.
struct Nowhere;

impl Subscriber for Nowhere {
    /// `never`, so that lines that the program's own subscriber does not want stay as cheap as they were.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    /// The most verbose hint of all subscribers counts: this one must not raise it.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
