//! Child runs: a workflow started by a workflow, with a run and a journal of its own.
//!
//! Promise: the child's id follows from the parent's command, so a parent that is replayed finds the child it started
//! and never starts a second one.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::contract::Constraints;
use crate::cx::Cx;
use crate::event::{ChildStarted, CommandCommitted, Event, NodeFinished, NodeStarted, StepCommitted};
use crate::failure::{Failure, StepError};
use crate::gate::BoxEffect;
use crate::id::{CommandId, RunId};
use crate::outcome::{EffectClass, Outcome};
use crate::payload::{Digest, Payload, PayloadError};
use crate::perform::{Answered, at, step_error};
use crate::replay::{Answer, Recorded};
use crate::run::{Matched, Riders, Run};
use crate::step::{RecordableError, RegisteredWorkflow, Workflow};
use crate::store::StoreError;

/// How a child ended, as its parent sees it.
#[derive(Clone, Debug)]
pub enum ChildEnd {
    /// With a value.
    Completed(Payload),
    /// With an error of its own.
    Failed(Payload),
    /// It was cancelled.
    Cancelled(String),
}

/// What a run needs to have children.
pub(crate) trait Children: Send + Sync + Debug + 'static {
    /// Starts `child` unless it exists.
    fn start(
        &self,
        parent: RunId,
        child: RunId,
        workflow: RegisteredWorkflow,
        input: Payload,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    /// How `child` ended, if it did.
    fn ended(&self, child: RunId) -> BoxFuture<'static, Result<Option<ChildEnd>, StoreError>>;
}

impl Cx {
    /// Runs workflow `W` as a run of its own and waits for its result. The child's id is `<run>/<command>`.
    ///
    /// The step error is `App` with the child's own error, or `Cancelled`.
    pub fn child<W: Workflow>(
        &mut self,
        input: W::Input,
    ) -> BoxEffect<'_, Result<W::Output, StepError<W::Error>>>
    where
        W::Error: RecordableError,
    {
        let mut ticket = self.ticket(W::DEF.name);
        let input = W::encode(&input);
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            let unrecordable = |error: PayloadError| StepError::Unrecordable(at(&run, &command, error));
            let input = input.map_err(unrecordable)?;
            let digest = Digest::of(&input).map_err(unrecordable)?;
            let call = ChildCall { run: &run, command: &command, digest, input, site };
            match call.answer::<W>().await {
                Ok(value) => value.decode().map_err(unrecordable),
                Err(error) => Err(error.decode().unwrap_or_else(unrecordable)),
            }
        })
    }
}

struct ChildCall<'a> {
    run: &'a Arc<Run>,
    command: &'a CommandId,
    digest: Digest,
    input: Payload,
    site: Option<String>,
}

impl ChildCall<'_> {
    async fn answer<W: Workflow>(self) -> Answered {
        let class = EffectClass::Workflow;
        match self.run.request(self.command, class, Some(&self.digest), self.site.clone()).await {
            Matched::Answered => {
                let record = self.run.turn(self.command).await;
                match record.answer.clone() {
                    Some(Answer::Step(result)) => self.inject::<W>(&record, result),
                    answer => self.run.mismatched(self.command, class, answer).await,
                }
            }
            Matched::Begun(record) => self.follow::<W>(record.child.is_some()).await,
            Matched::New => self.follow::<W>(false).await,
        }
    }

    /// Hands out what is recorded; completes the step's events where they were cut off.
    fn inject<W: Workflow>(&self, record: &Recorded, result: Answered) -> Answered {
        if !record.finished {
            let mut events = ending::<W>(self.command, &result);
            events.retain(|event| !(record.committed && matches!(event, Event::StepCommitted(_))));
            self.run.append(events, Riders::default());
        }
        result
    }

    /// Starts the child unless it exists, and waits for its end.
    async fn follow<W: Workflow>(self, linked: bool) -> Answered {
        let Self { run, command, digest, input, site } = self;
        run.frontier(command).await;
        let Some(children) = run.children.clone() else {
            return Err(step_error(&StepError::Rejected(at(run, command, "this engine has no child runs"))));
        };
        let child = match RunId::new(format!("{}/{command}", run.id)) {
            Ok(child) => child,
            Err(error) => return Err(step_error(&StepError::Unrecordable(at(run, command, error)))),
        };
        {
            let _busy = run.busy();
            if !linked {
                let started = NodeStarted {
                    command: command.clone(),
                    class: EffectClass::Workflow,
                    digest,
                    input: Some(input.clone()),
                    site,
                    constraints: Constraints::default(),
                };
                let link = ChildStarted { command: command.clone(), child: child.clone() };
                run.append_durably(vec![started.into(), link.into()], None, Riders::default()).await;
            }
            let workflow = RegisteredWorkflow::of::<W>();
            let start = children.start(run.id.clone(), child.clone(), workflow, input);
            if let Err(error) = start.await {
                return run.stop(error).await;
            }
        }
        let end = wait_for(run, command, &*children, child).await;
        let answered = match end {
            ChildEnd::Completed(value) => Ok(value),
            ChildEnd::Failed(error) => Err(step_error(&StepError::App(error))),
            ChildEnd::Cancelled(reason) => Err(step_error(&StepError::Cancelled(Failure::permanent(reason)))),
        };
        commit::<W>(run, command, &answered);
        answered
    }
}

async fn wait_for(run: &Arc<Run>, command: &CommandId, children: &dyn Children, child: RunId) -> ChildEnd {
    loop {
        let waiting = run.wait(command.clone(), None);
        // Registered before looking, so that an end in between is not missed.
        let poked = run.poked();
        // Not suspended while looking: what is seen may have happened before this worker claimed the run.
        let looked = {
            let _busy = run.busy();
            children.ended(child.clone()).await
        };
        match looked {
            Ok(Some(end)) => return end,
            Ok(None) => poked.await,
            Err(error) => return run.stop(error).await,
        }
        drop(waiting);
    }
}

fn commit<W: Workflow>(run: &Run, command: &CommandId, answered: &Answered) {
    let (outcome, result, error) = match answered {
        Ok(value) => (Outcome::Success, Some(value.clone()), None),
        Err(error) => (Outcome::PermanentFailure, None, Some(error.clone())),
    };
    let committed = CommandCommitted { command: command.clone(), outcome, result, error, caught_up: false };
    let mut events = vec![committed.into()];
    events.append(&mut ending::<W>(command, answered));
    run.append(events, Riders::default());
}

/// The events after the outcome.
fn ending<W: Workflow>(command: &CommandId, answered: &Answered) -> Vec<Event> {
    let mut events = vec![NodeFinished { command: command.clone() }.into()];
    if answered.is_ok() {
        let (command, step) = (command.clone(), W::DEF.name.into());
        events.push(StepCommitted { command, step, key: None }.into());
    }
    events
}
