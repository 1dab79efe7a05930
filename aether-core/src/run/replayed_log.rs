//! `tracing` in workflow code: emitted when the code runs for the first time, dropped while it is replayed.
//!
//! Promise: a line or span of workflow code is dropped only where the journal shows that the code ran before, or where a
//! run that is only released drops what its code holds. Steps' bodies, the engine, and what is said of a panic are never
//! silenced. Arguments of a line or span that is dropped are evaluated as they were when it was written. Nothing is looked up
//! in a run that was never interrupted, or where no subscriber listens.
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

use tracing::dispatcher::{DefaultGuard, Dispatch, get_default, set_default};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::policy::replay::Mode;
use crate::run::claim::Run;
use crate::sched::AtomicBool;

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
        let scope = || Self { run: Arc::clone(run), path: path.to_owned(), live: AtomicBool::new(false) };
        run.is_resumed().then(|| Arc::new(scope()))
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
    static SILENCED: RefCell<Option<Silenced>> = const { RefCell::new(None) };
}

/// Keeps a thread silenced until it is dropped.
struct Silenced {
    /// Who listens on this thread otherwise.
    listener: Dispatch,
    /// What this code is told goes nowhere to its end: the replay only verifies.
    for_good: bool,
    _guard: DefaultGuard,
}

impl Silenced {
    fn new(for_good: bool) -> Self {
        let listener = get_default(Dispatch::clone);
        let nowhere = NOWHERE.get_or_init(|| Dispatch::new(Nowhere));
        Self { listener, for_good, _guard: set_default(nowhere) }
    }
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

/// Makes another scope the one that is polled on this thread, and returns the former one.
#[cfg(aether_dst)]
pub(crate) fn exchange_scope(scope: Option<Arc<LogScope>>) -> Option<Arc<LogScope>> {
    SCOPE.replace(scope)
}

/// Workflow code is entered, or left for an effect or the engine: silences this thread or lifts that.
pub(crate) fn entered(workflow_code: bool) {
    // Tasks of an explored schedule take turns on one thread in the middle of a poll.
    if cfg!(aether_dst) {
        return;
    }
    // Without a subscriber there is nothing to drop.
    let is_heard = workflow_code && LevelFilter::current() != LevelFilter::OFF;
    let (silent, for_good) = SCOPE.with_borrow(|scope| {
        let replayed = scope.as_ref().filter(|scope| is_heard && scope.is_replayed());
        (replayed.is_some(), replayed.is_some_and(|scope| scope.run.mode == Mode::Verify))
    });
    silence(silent, for_good);
}

fn silence(silent: bool, for_good: bool) {
    let _thread_is_gone = SILENCED.try_with(|silenced| {
        if silent == silenced.borrow().is_some() {
            return;
        }
        // Taken out before it is dropped: a dispatcher that goes may log.
        let former = silenced.borrow_mut().take();
        drop(former);
        if silent {
            silenced.replace(Some(Silenced::new(for_good)));
        }
    });
}

/// Lifts the silence of this thread when it is dropped.
struct Lifted;

impl Drop for Lifted {
    fn drop(&mut self) {
        silence(false, false);
    }
}

/// The code of a run, dropped in silence where the run is only released: its destructors run again when it is resumed.
pub(crate) struct Releasable<F> {
    code: Option<F>,
    released: Arc<AtomicBool>,
}

impl<F> Releasable<F> {
    /// `released` is set before the code is dropped.
    pub(crate) fn new(code: F, released: Arc<AtomicBool>) -> Self {
        Self { code: Some(code), released }
    }
}

impl<F: Future + Unpin> Future for Releasable<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.code {
            Some(code) => Pin::new(code).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Releasable<F> {
    fn drop(&mut self) {
        let _lifted = Lifted;
        let released = !cfg!(aether_dst) && self.released.load(Ordering::Relaxed);
        silence(released && LevelFilter::current() != LevelFilter::OFF, false);
        drop(self.code.take());
    }
}

/// A body that is computed again on every replay: it logs as workflow code does.
pub(crate) struct ComputedAgain<F>(pub(crate) Pin<Box<F>>);

impl<F: Future> Future for ComputedAgain<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _lifted = Lifted;
        entered(true);
        self.0.as_mut().poll(cx)
    }
}

#[allow(clippy::disallowed_types, reason = "made once, and the same whoever makes it")]
static NOWHERE: std::sync::OnceLock<Dispatch> = std::sync::OnceLock::new();

/// Answers what is asked of a subscriber as this thread's own one would, and drops what it is given, but for what is said
/// while this thread panics: the run ends there, and no one says it again.
///
/// The macros of `tracing` evaluate their arguments only for who is enabled. Were this subscriber less interested than the
/// thread's own one, an argument that changes something (`info!(job = ?queue.pop())`) would change it in the first run alone,
/// and a replay would go on in another state.
///
/// A span that is dropped goes by the id of the span around the code, which is that of the run and outlives it: it can be
/// the parent of a span that is not dropped. Where there is none, a dropped span is disabled: subscribers need not bear an id
/// that they have not given. Where the replay only verifies, they never see one, and it has some id.
///
/// Not `Dispatch::none()`: that one is not registered, so a log line that is reached for the first time in replayed code would
/// be marked as of interest to no one, for the whole life of the process.
struct Nowhere;

impl Nowhere {
    fn of_silence<T>(look: impl FnOnce(&Silenced) -> T) -> Option<T> {
        SILENCED
            .try_with(|silenced| silenced.try_borrow().ok().and_then(|it| it.as_ref().map(look)))
            .ok()
            .flatten()
    }

    /// Asks who listens on this thread otherwise.
    fn ask<T>(question: impl FnOnce(&Dispatch) -> T) -> Option<T> {
        Self::of_silence(|it| question(&it.listener))
    }

    /// The id of a span: that of the one around the code.
    fn around() -> Option<Id> {
        let around = Self::ask(|listener| listener.current_span().id().cloned()).flatten();
        around.or_else(|| Self::of_silence(|it| it.for_good)?.then(|| Id::from_u64(u64::MAX)))
    }
}

impl Subscriber for Nowhere {
    /// `never` counts for nothing where another subscriber is interested, and makes it be asked line by line; and lines that
    /// the program's own subscriber does not want stay as cheap as they were.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_enabled = Self::ask(|listener| listener.enabled(metadata)).unwrap_or(false);
        is_enabled && (!metadata.is_span() || Self::around().is_some())
    }

    /// The most verbose hint of all subscribers counts: this one must not raise it.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Self::around().unwrap_or_else(|| Id::from_u64(u64::MAX))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    /// Lines only: a span would outlive the panic, and be closed by another subscriber than the one that opened it.
    fn event(&self, event: &Event<'_>) {
        if std::thread::panicking() {
            Self::ask(|listener| listener.event(event));
        }
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
