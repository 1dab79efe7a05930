//! What a run executes: a workflow without its types, how it completes, and what it needs to have child runs.
//!
//! Promise: nothing here knows how a workflow reaches its effects; it is given a claim of a run.

use crate::inbox::error::SendError;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::OwnedRwLockReadGuard;

use crate::definition::def::WorkflowDef;
use crate::inbox::decisions::EndRequest;
use crate::run::claim::Run;
use crate::step::body::BodyError;
use crate::store::error::StoreError;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Payload, PayloadError};

/// How a run ended, encoded.
pub type Completion = Result<Result<Payload, BodyError>, PayloadError>;

type StartBody =
    fn(Arc<Run>, Option<Arc<dyn Children>>, &Payload) -> Result<BoxFuture<'static, Completion>, PayloadError>;

/// A workflow without its types, as the engine runs it.
#[derive(Clone, Copy)]
pub struct RegisteredWorkflow {
    /// Its state machine.
    pub def: &'static WorkflowDef,
    run: StartBody,
    type_id: fn() -> std::any::TypeId,
}

inventory::collect!(RegisteredWorkflow);

impl RegisteredWorkflow {
    /// The erased form of the workflow that `type_id` names.
    pub(crate) const fn new(
        def: &'static WorkflowDef,
        run: StartBody,
        type_id: fn() -> std::any::TypeId,
    ) -> Self {
        Self { def, run, type_id }
    }

    /// Whether both are one function.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.type_id)() == (other.type_id)()
    }

    /// Starts the body for this claim of a run. Without `children` it starts and follows no child runs.
    pub(crate) fn run(
        &self,
        run: Arc<Run>,
        children: Option<Arc<dyn Children>>,
        input: &Payload,
    ) -> Result<BoxFuture<'static, Completion>, PayloadError> {
        (self.run)(run, children, input)
    }
}

impl Debug for RegisteredWorkflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegisteredWorkflow({})", self.def.name)
    }
}

/// How a child ended, as its parent sees it.
#[derive(Clone, Debug)]
pub enum ChildEnd {
    /// With a value.
    Completed(Payload),
    /// With an error of its own.
    Failed(Payload),
    /// It was cancelled or terminated.
    Cancelled(String),
}

/// What came of starting a child.
#[derive(Clone, Debug)]
pub(crate) enum ChildStart {
    /// It exists, and is this parent's.
    Runs,
    /// Its id belongs to another run; says to which.
    Taken(String),
}

/// What a run needs to have children.
pub(crate) trait Children: Send + Sync + Debug + 'static {
    /// Starts `child` unless it exists; `held` is let go when it does, also when nobody waits for the answer any more.
    fn start(
        &self,
        parent: RunId,
        child: RunId,
        workflow: RegisteredWorkflow,
        input: Payload,
        held: OwnedRwLockReadGuard<()>,
    ) -> BoxFuture<'static, Result<ChildStart, StoreError>>;

    /// How `child` ended, if it did.
    fn ended(&self, child: RunId) -> BoxFuture<'static, Result<Option<ChildEnd>, StoreError>>;

    /// Asks `child` to end, if it is a child of `parent`; durable when it answers.
    fn end(
        &self,
        parent: RunId,
        child: RunId,
        request: EndRequest,
        at_once: bool,
    ) -> BoxFuture<'static, Result<(), SendError>>;
}
