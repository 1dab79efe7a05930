//! Invocations whose outcome is not known: at a crash, and at the end.
//!
//! Promise: only what is durable counts, as for a process that restarts.

use std::collections::BTreeSet;

use aether_core::id::{CommandId, InvocationId, RunId};
use aether_core::journal::event::{
    CallbackAwaited, Event, InvocationAbandoned, InvocationResolved, ToolInvocationFinished,
    ToolInvocationStarted,
};
use aether_core::store::read;
use aether_core::store::{RunFilter, Store, StoreError};
use aether_core::view::RunView;

use crate::sim::report::error::SimError;

/// An invocation of which it is not known whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doubt {
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) invocation: InvocationId,
}

/// The invocations of all runs that are in doubt.
pub(super) async fn doubts(store: &dyn Store) -> Result<BTreeSet<Doubt>, StoreError> {
    let mut doubts = BTreeSet::new();
    for record in store.runs(RunFilter::default()).await? {
        let view = RunView::load(store, &record.id).await?;
        doubts.extend(view.in_doubt().into_iter().filter_map(|step| {
            Some(Doubt {
                run: record.id.clone(),
                command: step.command.clone(),
                invocation: step.invocation.clone()?,
            })
        }));
    }
    Ok(doubts)
}

/// The invocations of all runs that were begun, and whose end or decision is not in the journal.
pub(super) async fn left_open(store: &dyn Store) -> Result<BTreeSet<Doubt>, SimError> {
    let mut open = BTreeSet::new();
    for record in store.runs(RunFilter::default()).await? {
        let run = record.id;
        let effects = store.effects(&run).await?;
        for event in journal_of(store, &run).await? {
            match event {
                // Its outcome is only on its way into the journal.
                Event::ToolInvocationStarted(e) if effects.iter().any(|effect| effect.key == e.key) => {}
                Event::ToolInvocationStarted(ToolInvocationStarted { command, invocation, .. }) => {
                    open.insert(Doubt { run: run.clone(), command, invocation });
                }
                Event::ToolInvocationFinished(ToolInvocationFinished { command, invocation, .. })
                | Event::InvocationAbandoned(InvocationAbandoned { command, invocation })
                // A system outside will report its outcome.
                | Event::CallbackAwaited(CallbackAwaited { command, invocation, .. })
                | Event::InvocationResolved(InvocationResolved { command, invocation, .. }) => {
                    open.remove(&Doubt { run: run.clone(), command, invocation });
                }
                _ => {}
            }
        }
    }
    Ok(open)
}

pub(crate) async fn journal_of(store: &dyn Store, run: &RunId) -> Result<Vec<Event>, SimError> {
    Ok(read::events(store, run, &store.load(run, 0).await?).await?)
}
