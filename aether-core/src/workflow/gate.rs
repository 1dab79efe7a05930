//! The await gate: `Effect`, the only kind of future a workflow may await, and what is being polled right now.
//!
//! Promise: `Recorded` is sealed, so a future that replay would not reproduce does not pass [`gate`]. While an effect
//! is polled the phase is [`Phase::Effect`]; while workflow code is polled, or decodes what is recorded, it is
//! [`Phase::Workflow`]. Workflow code that waits for something else, which a macro or a function without attribute hides
//! from the gate, is noticed when it does.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::run::replayed_log::{EnteredScope, LogScope, entered};
use crate::vocabulary::id::RunId;

mod sealed {
    pub trait Sealed {}
}

/// A future whose outcome is in the journal, or follows from what is there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a recorded effect, so a workflow may not await it",
    label = "replay would not reproduce what this future does",
    note = "call a `#[step]`, a `#[workflow]`, or an effect on the context: `cx.now()`, `cx.sleep(..)`, `cx.uuid()`, `cx.http()`, `cx.llm(..)`",
    note = "to do I/O, move it into `#[step(effect = \"read\")]` or `#[step(effect = \"tool\")]`; for concurrency use `cx.join`, `cx.race` or `cx.each`"
)]
pub trait Recorded: Future + Sealed {
    #[doc(hidden)]
    fn at(self, state: u16) -> Self;
}

/// A recorded effect: await it in a workflow.
#[must_use = "an effect does nothing until it is awaited"]
pub struct Effect<F: ?Sized> {
    state: Option<u16>,
    future: Pin<Box<F>>,
}

/// The effect of calling a step or an inline workflow.
pub type BoxEffect<'c, T> = Effect<dyn Future<Output = T> + Send + 'c>;

impl<F> Effect<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { state: None, future: Box::pin(future) }
    }
}

impl<F: Future> Effect<F> {
    /// The same effect with its value in another form.
    pub(crate) fn converted<U>(
        self,
        convert: impl FnOnce(F::Output) -> U,
    ) -> Effect<impl Future<Output = U>> {
        let Self { state, future } = self;
        Effect { state, future: Box::pin(async move { convert(future.await) }) }
    }
}

impl<'c, T> BoxEffect<'c, T> {
    pub(crate) fn boxed(future: impl Future<Output = T> + Send + 'c) -> Self {
        Self { state: None, future: Box::pin(future) }
    }

    /// The same effect, with `compute` applied to its value: for crates that add effects. `compute` runs as workflow code
    /// does, on the first run as on every replay, so its result must follow from the value alone.
    ///
    /// ```
    /// # use aether_core::workflow::{BoxEffect, Cx};
    /// /// Throws a die.
    /// fn die(cx: &mut Cx) -> BoxEffect<'_, u64> {
    ///     cx.random().map(|drawn| drawn % 6 + 1)
    /// }
    /// ```
    pub fn map<U>(self, compute: impl FnOnce(T) -> U + Send + 'c) -> BoxEffect<'c, U>
    where
        T: 'c,
    {
        let Self { state, future } = self;
        let mapped = async move {
            let value = future.await;
            as_workflow_code(|| compute(value))
        };
        Effect { state, future: Box::pin(mapped) }
    }
}

impl<F: ?Sized> Sealed for Effect<F> {}

impl<F: Future + ?Sized> Recorded for Effect<F> {
    fn at(mut self, state: u16) -> Self {
        self.state = Some(state);
        self
    }
}

impl<R: Sealed + ?Sized> Sealed for Box<R> {}

/// A box around an effect adds nothing that is awaited.
impl<R: Recorded + Unpin> Recorded for Box<R> {
    fn at(self, state: u16) -> Self {
        Self::new((*self).at(state))
    }
}

impl<R: Sealed + ?Sized> Sealed for Pin<Box<R>> {}

impl<R: Recorded + Unpin> Recorded for Pin<Box<R>> {
    fn at(self, state: u16) -> Self {
        Box::pin((*Pin::into_inner(self)).at(state))
    }
}

impl<F: Future + ?Sized> Future for Effect<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = Entered::new(Phase::Effect, self.state);
        let polled = self.future.as_mut().poll(cx);
        if polled.is_pending() {
            WAITS.set(WAITS.get().wrapping_add(1));
        }
        polled
    }
}

impl<F: ?Sized> fmt::Debug for Effect<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Makes a struct around an effect a recorded effect itself.
macro_rules! recorded_wrapper {
    ($name:ident<$f:ident>, $field:ident) => {
        impl<$f> $crate::workflow::gate::Sealed for $name<$f> {}
        impl<$f: std::future::Future> $crate::workflow::gate::Recorded for $name<$f> {
            fn at(mut self, state: u16) -> Self {
                self.$field = self.$field.at(state);
                self
            }
        }
    };
}

pub(crate) use recorded_wrapper;
pub(crate) use sealed::Sealed;

/// Lets a recorded effect pass; anything else is a compile error. `#[workflow]` writes it around every await.
pub fn gate<R: Recorded>(effect: R, state: u16) -> R {
    effect.at(state)
}

/// The effect of calling the function `Name`.
#[diagnostic::on_unimplemented(
    message = "`{Name}` is not a recorded effect, so a workflow may not await it",
    label = "replay would not reproduce what this future does",
    note = "if `{Name}` is your own: put `#[workflow]` on it where it awaits recorded effects, and `#[step(effect = \"read\")]` or `#[step(effect = \"tool\")]` where it does I/O; if it is another crate's, call it in a step",
    note = "effects on the context are recorded: `cx.now()`, `cx.sleep(..)`, `cx.uuid()`, `cx.http()`, `cx.llm(..)`; for concurrency use `cx.join`, `cx.race` or `cx.each`"
)]
pub trait RecordedCall<Name>: Recorded {}

#[diagnostic::do_not_recommend]
impl<R: Recorded, Name> RecordedCall<Name> for R {}

/// As [`gate`], for the call of a function by its name, which an error then tells.
pub fn gate_call<Name, R: RecordedCall<Name>>(effect: R, state: u16) -> R {
    effect.at(state)
}

/// The effect of calling the variable `Name`.
#[diagnostic::on_unimplemented(
    message = "the variable `{Name}` is called, and what it gives is not a recorded effect, so a workflow may not await it",
    label = "replay would not reproduce what this future does",
    note = "a closure is a branch of `cx.join`, `cx.race` or `cx.each`, and is not awaited by itself: make it a function with `#[workflow]`, `async fn {Name}(cx: &mut Cx, ..)`, and call that",
    note = "effects on the context are recorded: `cx.now()`, `cx.sleep(..)`, `cx.uuid()`, `cx.http()`, `cx.llm(..)`"
)]
pub trait RecordedLocal<Name>: Recorded {}

#[diagnostic::do_not_recommend]
impl<R: Recorded, Name> RecordedLocal<Name> for R {}

/// As [`gate_call`], for the call of a variable.
pub fn gate_local<Name, R: RecordedLocal<Name>>(effect: R, state: u16) -> R {
    effect.at(state)
}

/// What is being polled on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Neither workflow code nor an effect of one.
    Outside,
    /// The body of a workflow, between two effects, or the decoder of what it is given.
    Workflow,
    /// An effect: the engine or a step's body.
    Effect,
}

thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Outside) };
    static STATE: Cell<Option<u16>> = const { Cell::new(None) };
    static RUN: RefCell<Option<RunId>> = const { RefCell::new(None) };
    /// How often an effect was polled on this thread and is not there yet.
    static WAITS: Cell<u64> = const { Cell::new(0) };
    /// Whether workflow code waits for something that is no effect.
    static STRAYS: Cell<bool> = const { Cell::new(false) };
}

/// Whether workflow code that was polled on this thread waits for something that is no effect; says so once.
pub(crate) fn takes_stray() -> bool {
    STRAYS.replace(false)
}

/// What is being polled on this thread right now.
pub fn phase() -> Phase {
    PHASE.try_with(Cell::get).unwrap_or(Phase::Outside)
}

/// The run whose code is being polled on this thread.
pub fn current_run() -> Option<RunId> {
    RUN.try_with(|run| run.borrow().clone()).ok().flatten()
}

/// Names the run that is polled on this thread until it is dropped, and then the former one.
pub(crate) struct PolledRun(Option<RunId>);

impl PolledRun {
    pub(crate) fn new(run: &RunId) -> Self {
        Self(RUN.replace(Some(run.clone())))
    }
}

impl Drop for PolledRun {
    fn drop(&mut self) {
        let former = self.0.take();
        let _thread_is_gone = RUN.try_with(|run| run.replace(former));
    }
}

/// The state whose effect is being polled on this thread.
pub(crate) fn current_state() -> Option<u16> {
    STATE.with(Cell::get)
}

/// What this thread says about who is polled on it. A scheduler whose tasks take turns on one thread keeps it for each.
#[cfg(aether_dst)]
#[derive(Debug)]
pub struct Polled(Phase, Option<u16>, Option<RunId>, Option<Arc<LogScope>>, bool);

#[cfg(aether_dst)]
impl Default for Polled {
    fn default() -> Self {
        Self(Phase::Outside, None, None, None, false)
    }
}

#[cfg(aether_dst)]
impl Polled {
    /// Exchanges it for what the thread says.
    pub fn swap(&mut self) {
        self.0 = PHASE.with(|p| p.replace(self.0));
        self.1 = STATE.with(|s| s.replace(self.1));
        self.2 = RUN.replace(self.2.take());
        self.3 = crate::run::replayed_log::exchange_scope(self.3.take());
        self.4 = STRAYS.replace(self.4);
    }
}

/// Sets phase and state, and puts the former ones back when dropped.
struct Entered {
    phase: Phase,
    state: Option<u16>,
}

impl Entered {
    fn new(phase: Phase, state: Option<u16>) -> Self {
        let former =
            Self { phase: PHASE.with(|p| p.replace(phase)), state: STATE.with(|s| s.replace(state)) };
        entered(phase == Phase::Workflow);
        former
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        PHASE.with(|p| p.set(self.phase));
        STATE.with(|s| s.set(self.state));
        entered(self.phase == Phase::Workflow);
    }
}

/// Calls code of the user that every replay calls again, such as the decoder of what is recorded, in [`Phase::Workflow`].
pub fn as_workflow_code<T>(code: impl FnOnce() -> T) -> T {
    let _entered = Entered::new(Phase::Workflow, None);
    code()
}

/// Workflow code: polled in [`Phase::Workflow`].
#[derive(Debug)]
pub(crate) struct WorkflowCode<F> {
    future: Pin<Box<F>>,
    /// The scope it is the code of, where its log depends on that. `None` is the scope of the code around it.
    scope: Option<Arc<LogScope>>,
    /// Whether it awaits effects alone, one after the other. Crates that make effects of several do as they like.
    is_gated: bool,
}

impl<F: Future> WorkflowCode<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), scope: None, is_gated: true }
    }

    /// The code of a scope of its own.
    pub(crate) fn of(scope: Option<Arc<LogScope>>, future: F) -> Self {
        Self { future: Box::pin(future), scope, is_gated: true }
    }

    /// The code of a crate that makes an effect of several.
    pub(crate) fn of_crate(scope: Option<Arc<LogScope>>, future: F) -> Self {
        Self { is_gated: false, ..Self::of(scope, future) }
    }
}

impl<F: Future> Future for WorkflowCode<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Dropped after `_entered`, which looks at the scope.
        let _scope = self.scope.as_ref().map(EnteredScope::new);
        let _entered = Entered::new(Phase::Workflow, None);
        let waits = WAITS.get();
        let polled = self.future.as_mut().poll(cx);
        if self.is_gated && polled.is_pending() && waits == WAITS.get() {
            STRAYS.set(true);
        }
        polled
    }
}
