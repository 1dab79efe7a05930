//! The watch of one thread: what is forbidden on it, what was caught, and how its world is shifted.
//!
//! Promise: only calls of workflow code are caught, and nothing that the trap itself does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aether_core::id::{CommandId, RunId};
use aether_core::policy::{Consulted, ReplayPolicy, Verdict};
use aether_core::workflow::{Phase, current_run, phase};

use super::frames::Frames;
use super::hit::{TrapHit, TrapKind};
use super::setting::Trap;

/// How the world differs that workflow code of this thread sees past the context: a later clock, no environment
/// variables, another process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skew {
    /// How much later it is.
    pub(crate) ahead: Duration,
}

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
    static BUSY: Cell<bool> = const { Cell::new(false) };
    static SKEW: Cell<Option<Skew>> = const { Cell::new(None) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

struct Watch {
    trap: Trap,
    hits: Vec<TrapHit>,
    last: BTreeMap<RunId, CommandId>,
    stop: Box<dyn Fn(TrapHit)>,
}

/// Keeps the trap set on this thread until it is dropped.
pub(crate) struct Armed(());

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Armed")
    }
}

impl Armed {
    /// Sets `trap` on this thread. `stop` gets the first call that a strict trap catches.
    pub(crate) fn set(trap: Trap, skew: Option<Skew>, stop: impl Fn(TrapHit) + 'static) -> Self {
        // The keys of this thread's hash maps are drawn here, so that the first map of a workflow is no exception.
        let _drawn = std::hash::RandomState::new();
        ARMED.set(!trap.is_off());
        SKEW.set(skew);
        let watch = Watch { trap, hits: Vec::new(), last: BTreeMap::new(), stop: Box::new(stop) };
        WATCH.with_borrow_mut(|slot| *slot = Some(watch));
        Self(())
    }

    /// What was caught so far.
    pub(crate) fn hits(&self) -> Vec<TrapHit> {
        WATCH.with_borrow(|watch| watch.as_ref().map(|watch| watch.hits.clone()).unwrap_or_default())
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        ARMED.set(false);
        SKEW.set(None);
        WATCH.with_borrow_mut(|slot| *slot = None);
    }
}

/// Whether a strict trap has caught something on this thread.
pub(crate) fn caught() -> bool {
    ARMED.get()
        && WATCH.with_borrow(|watch| watch.as_ref().is_some_and(|w| w.trap.is_strict() && !w.hits.is_empty()))
}

/// Remembers the last command of every run of this thread.
#[derive(Debug)]
pub(crate) struct LastCommands;

impl ReplayPolicy for LastCommands {
    fn consult(&self, consulted: &Consulted<'_>) -> Verdict {
        WATCH.with_borrow_mut(|watch| {
            if let Some(watch) = watch {
                watch.last.insert(consulted.run.clone(), consulted.command.clone());
            }
        });
        Verdict::Default
    }
}

/// How the world is shifted for whoever calls; only for workflow code.
pub(super) fn skew() -> Option<Skew> {
    let skew = SKEW.try_with(Cell::get).ok().flatten()?;
    (phase() == Phase::Workflow && !BUSY.get() && !std::thread::panicking()).then_some(skew)
}

/// Workflow code, or anything else, is about to call a function of libc.
pub(super) fn called(kind: TrapKind, function: &'static str) {
    let armed = ARMED.try_with(Cell::get).unwrap_or(false);
    if !armed || phase() != Phase::Workflow || BUSY.get() || std::thread::panicking() {
        return;
    }
    BUSY.set(true);
    catch(kind, function);
    BUSY.set(false);
}

fn catch(kind: TrapKind, function: &'static str) {
    let frames = Frames::above(function);
    let stop = WATCH.with_borrow_mut(|watch| {
        let watch = watch.as_mut()?;
        if frames.excused(watch.trap.allowed()) {
            return None;
        }
        let run = current_run();
        let after = run.as_ref().and_then(|run| watch.last.get(run)).cloned();
        let hit = TrapHit { kind, function: function.into(), run, after, backtrace: frames.lines() };
        if watch.hits.iter().any(|known| known.same_place(&hit)) {
            return None;
        }
        watch.hits.push(hit.clone());
        Some(hit)
    });
    let Some(hit) = stop else { return };
    WATCH.with_borrow(|watch| match watch {
        Some(watch) if watch.trap.is_strict() => (watch.stop)(hit),
        _ => eprintln!("warning: {hit}"),
    });
}
