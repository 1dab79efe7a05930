//! What `#[workflow]` implements, and its erased form.
//!
//! Promise: an input reaches a workflow only as decoded from the record, on the first run as on every replay.

use crate::run::program::RegisteredWorkflow;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::definition::def::WorkflowDef;
use crate::definition::linked::{LinkedCode, LinkedItem, Mentioned};
use crate::run::claim::Run;
use crate::run::program::{Children, Completion, Encodings};
use crate::run::replayed_log::EnteredScope;
use crate::step::body::BodyError;
use crate::step::recordable::{Returning, Returns};
use crate::vocabulary::deps::Need;
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::context::Cx;
use crate::workflow::gate::{PolledRun, WorkflowCode, as_workflow_code};

/// A workflow function. Implemented by `#[workflow]` for the type named like the function.
pub trait Workflow: Returning + Sized + Send + Sync + 'static {
    /// Its name, place and state machine.
    const DEF: &'static WorkflowDef;
    /// The names of its arguments, in their order: the fields of a recorded input.
    const ARGUMENTS: &'static [&'static str] = &[];
    /// Its function, and what that names; of nothing where it is implemented by hand.
    const MENTIONED: Mentioned = Mentioned { function: "", mentions: &[] };
    /// The values that it takes from its program.
    const NEEDS: &'static [Need] = &[];
    /// Its input, owned: `()`, the one argument, or a tuple.
    type Input: Send + 'static;

    /// Encodes an input as it is recorded.
    ///
    /// # Errors
    /// [`PayloadError`] when it does not serialize.
    fn encode(input: &Self::Input) -> Result<Payload, PayloadError>;

    /// Decodes a recorded input.
    ///
    /// # Errors
    /// [`PayloadError`] when the record does not fit the function's signature.
    fn decode(input: &Payload) -> Result<Self::Input, PayloadError>;

    /// Runs the body in the root scope `cx`.
    fn run(cx: Cx, input: Self::Input) -> BoxFuture<'static, Self::Returned>;
}

pub(crate) fn run_erased<W: Workflow>(
    run: Arc<Run>,
    children: Option<Arc<dyn Children>>,
    input: &Payload,
) -> Result<BoxFuture<'static, Completion>, PayloadError> {
    let id = run.id.clone();
    let cx = Cx::root(run, children);
    let scope = cx.log_scope();
    let input = {
        let (_run, _scope) = (PolledRun::new(&id), scope.as_ref().map(EnteredScope::new));
        as_workflow_code(|| W::decode(input))?
    };
    Ok(completed(WorkflowCode::of(scope, W::run(cx, input))))
}

/// Generic over what is returned, and not over the workflow: programs have fewer types of results than workflows.
fn completed<R: Returns>(body: WorkflowCode<BoxFuture<'static, R>>) -> BoxFuture<'static, Completion> {
    Box::pin(async move {
        Ok(match body.await.into_result() {
            Ok(value) => Ok(Payload::encode(&value)?),
            Err(error) => Err(BodyError {
                error: Payload::encode(&error)?,
                message: error.to_string(),
                class: FailureClass::Unclassified,
                retry_after: None,
            }),
        })
    })
}

fn normal_input<W: Workflow>(recorded: &Payload) -> Result<Payload, PayloadError> {
    W::encode(&W::decode(recorded)?)
}

fn normal_output<W: Workflow>(recorded: &Payload) -> Result<Payload, PayloadError> {
    Payload::encode(&recorded.decode::<W::Output>()?)
}

impl RegisteredWorkflow {
    /// The erased form of `W`.
    pub const fn of<W: Workflow>() -> Self {
        let encodings = Encodings { input: normal_input::<W>, output: normal_output::<W> };
        Self::new(W::DEF, W::NEEDS, run_erased::<W>, std::any::TypeId::of::<W>, encodings)
    }
}

/// What `#[workflow]` registers of a workflow without type parameters.
pub fn linked_workflow<W: Workflow>() -> LinkedItem {
    let Mentioned { function, mentions } = W::MENTIONED;
    let WorkflowDef { name, file, line, fingerprint, .. } = *W::DEF;
    LinkedItem {
        code: LinkedCode { function, name, file, line, fingerprint, mentions, class: None },
        item: Some(const { &RegisteredWorkflow::of::<W>() }),
    }
}
