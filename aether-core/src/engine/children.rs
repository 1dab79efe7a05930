//! Child runs as the engine sees them: starting them, asking how they ended, and asking them to end.
//!
//! Promise: a run that is not this parent's child is not treated as one, and is sent nothing.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use tokio::sync::OwnedRwLockReadGuard;

use crate::engine::advance::load::stored_end;
use crate::engine::create::{NewRunOf, create_child};
use crate::engine::inner::Inner;
use crate::engine::operate::send_end_request;
use crate::engine::same_input::has_input;
use crate::engine::started_as::is_or_was;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::journal::event::Event;
use crate::journal::spending::Spending;
use crate::run::end::RunEnd;
use crate::run::program::{ChildEnd, ChildStart, Children, NewChild, ParentRun};
use crate::sched::mutated;
use crate::store::error::StoreError;
use crate::store::records::{Created, RunRecord};
use crate::vocabulary::budget::Spend;
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::payload::Digest;
use crate::vocabulary::queue::StartTerms;

/// Starts and follows child runs. It holds its engine weakly, so that an engine whose tasks were dropped with their
/// runtime is dropped too, and releases its store.
#[derive(Debug)]
pub(super) struct ChildRuns(pub(super) Weak<Inner>);

impl ChildRuns {
    fn engine(&self) -> Result<Arc<Inner>, StoreError> {
        let gone = || StoreError::Unavailable { store: "engine".into(), reason: "the engine is gone".into() };
        self.0.upgrade().ok_or_else(gone)
    }
}

/// Whether this run started the child, and not one that had its id before. Of a child of a former build only the id tells.
fn is_child_of(child: &RunRecord, parent: &ParentRun) -> bool {
    let life = child.terms.parent_life.as_ref();
    child.parent.as_ref() == Some(&parent.id) && life.is_none_or(|life| *life == parent.life)
}

impl Children for ChildRuns {
    fn start(
        &self,
        parent: ParentRun,
        epoch: Epoch,
        child: NewChild,
        start_guard: OwnedRwLockReadGuard<()>,
    ) -> BoxFuture<'static, Result<ChildStart, StoreError>> {
        let NewChild { id: child, workflow, input, labels, traceparent, budget } = child;
        let inner = self.engine();
        Box::pin(async move {
            let inner = inner?;
            let corrupt = |error: crate::vocabulary::payload::PayloadError| StoreError::Unencodable {
                what: format!("the input of run `{child}`"),
                reason: error.to_string(),
            };
            let asked = child.clone();
            let digest = Digest::of(&input).map_err(corrupt)?;
            let terms = StartTerms {
                budget: budget.map(Box::new),
                parent_life: Some(parent.life.clone()),
                ..StartTerms::default()
            };
            let new = NewRunOf {
                workflow,
                id: child,
                input,
                parent: Some(parent.id.clone()),
                labels,
                traceparent,
                parent_epoch: (!mutated("children-are-not-fenced")).then_some(epoch),
                terms,
                unique: false,
            };
            let existing = match create_child(&inner, new, start_guard).await? {
                Created::New => return Ok(ChildStart::Runs),
                Created::OverLimit { limit, .. } => {
                    let reason =
                        format!("child `{asked}` waits in no queue, and was refused for limit `{limit}`");
                    let store = inner.shared.store.describe();
                    return Err(StoreError::ContractBroken { store, reason });
                }
                Created::ParentLost | Created::DecisionGone => return Ok(ChildStart::ParentLost),
                Created::Existing(existing) => existing,
            };
            let same = is_or_was(&*inner.shared.store, &existing, workflow.def.name).await?;
            Ok(match &existing.parent {
                Some(known) if *known != parent.id => ChildStart::Taken(format!("a child of run `{known}`")),
                None => ChildStart::Taken("a run without a parent".into()),
                Some(known) if !is_child_of(&existing, &parent) => {
                    ChildStart::Taken(format!("a child of an earlier run `{known}`"))
                }
                _ if !same => ChildStart::Taken(format!("a run of workflow `{}`", existing.workflow)),
                _ if has_input(&inner, &existing, &workflow, &digest).await? => ChildStart::Runs,
                _ => ChildStart::Taken("a child with another input".into()),
            })
        })
    }

    fn ended(&self, child: RunId) -> BoxFuture<'static, Result<Option<ChildEnd>, StoreError>> {
        let inner = self.engine();
        Box::pin(async move {
            let inner = inner?;
            let end = match stored_end(&inner, &child).await {
                Err(StoreError::UnknownRun { .. }) => return Ok(Some(ChildEnd::Gone)),
                end => end?,
            };
            Ok(match end {
                Some(RunEnd::Completed(value)) => Some(ChildEnd::Completed(value)),
                Some(RunEnd::Failed { error, .. }) => Some(ChildEnd::Failed(error)),
                Some(RunEnd::Expired { at }) => {
                    Some(ChildEnd::Cancelled(format!("it had not begun by {at}")))
                }
                Some(RunEnd::Cancelled { reason, .. } | RunEnd::Terminated { reason, .. }) => {
                    Some(ChildEnd::Cancelled(reason))
                }
                Some(RunEnd::Stopped(_)) | None => None,
            })
        })
    }

    fn spent(&self, child: RunId) -> BoxFuture<'static, Result<Option<Spend>, StoreError>> {
        let inner = self.engine();
        Box::pin(async move {
            let store = &inner?.shared.store;
            let frames = store.load(&child, 0).await?;
            let events = crate::store::read::events(&**store, &child, &frames).await?;
            let is_whole = matches!(events.first(), Some(Event::RunCreated(_)));
            Ok(is_whole.then(|| Spending::fold(&events).total()))
        })
    }

    fn end(
        &self,
        parent: ParentRun,
        child: RunId,
        request: EndRequest,
        at_once: bool,
    ) -> BoxFuture<'static, Result<(), SendError>> {
        let inner = self.engine();
        Box::pin(async move {
            let inner = inner?;
            match inner.shared.store.run(&child).await? {
                Some(record) if is_child_of(&record, &parent) && !record.status.is_terminal() => {
                    send_end_request(&inner, &child, &request, at_once).await.map(|_sent| ())
                }
                // Never started, already ended, or not a child of this run.
                _ => Ok(()),
            }
        })
    }
}
