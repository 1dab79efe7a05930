//! What a run executes: a workflow with its types erased, how it completes, and what it needs to have child runs.
//!
//! Promise: nothing here knows how a workflow reaches its effects.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::OwnedRwLockReadGuard;

use crate::definition::def::WorkflowDef;
use crate::definition::linked::linked_items;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::journal::event::RunCreated;
use crate::run::claim::Run;
use crate::step::body::BodyError;
use crate::store::error::StoreError;
use crate::vocabulary::budget::{Budget, Spend};
use crate::vocabulary::deps::Need;
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::vocabulary::seed::life;

/// What a workflow returned, encoded: its value, or its error. The outer error says that encoding failed.
pub type Completion = Result<Result<Payload, BodyError>, PayloadError>;

type StartBody =
    fn(Arc<Run>, Option<Arc<dyn Children>>, &Payload) -> Result<BoxFuture<'static, Completion>, PayloadError>;

/// A workflow with its types erased, as the engine runs it. `#[workflow]` registers one, and code without the attribute does
/// with `inventory`.
#[derive(Clone, Copy)]
pub struct RegisteredWorkflow {
    /// Its state machine, as the attribute derived it.
    pub def: &'static WorkflowDef,
    /// The values that it takes from the program.
    pub needs: &'static [Need],
    run: StartBody,
    type_id: fn() -> std::any::TypeId,
    encodings: Encodings,
}

/// Brings a recorded value to the encoding of today's type.
pub(crate) type Encoding = fn(&Payload) -> Result<Payload, PayloadError>;

/// How the values of a workflow are encoded today.
#[derive(Clone, Copy)]
pub(crate) struct Encodings {
    pub(crate) input: Encoding,
    pub(crate) output: Encoding,
}

inventory::collect!(RegisteredWorkflow);

impl RegisteredWorkflow {
    /// Every workflow that is linked into this program.
    pub(crate) fn linked() -> impl Iterator<Item = &'static Self> {
        inventory::iter::<Self>.into_iter().chain(linked_items())
    }
}

impl RegisteredWorkflow {
    /// The erased form of the workflow that `type_id` names.
    pub(crate) const fn new(
        def: &'static WorkflowDef,
        needs: &'static [Need],
        run: StartBody,
        type_id: fn() -> std::any::TypeId,
        encodings: Encodings,
    ) -> Self {
        Self { def, needs, run, type_id, encodings }
    }

    /// A recorded input in today's encoding.
    pub(crate) fn normal_input(&self, recorded: &Payload) -> Result<Payload, PayloadError> {
        (self.encodings.input)(recorded)
    }

    /// A recorded result in today's encoding.
    pub(crate) fn normal_output(&self, recorded: &Payload) -> Result<Payload, PayloadError> {
        (self.encodings.output)(recorded)
    }

    /// Its module and the name that its versions share.
    pub(crate) fn path(&self) -> String {
        format!("{}::{}", self.def.module, self.def.name)
    }

    /// Whether both are the same workflow function.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.type_id)() == (other.type_id)()
    }

    /// Starts the body for this claim of a run, or what an interceptor puts in its place. Without `children` it starts and
    /// follows no child runs.
    pub(crate) fn run(
        &self,
        run: Arc<Run>,
        children: Option<Arc<dyn Children>>,
        input: &Payload,
    ) -> Result<BoxFuture<'static, Completion>, PayloadError> {
        let interceptor = run.shared.interceptor.as_ref();
        match interceptor.and_then(|interceptor| interceptor.workflow(&run.id, self.def, input)) {
            Some(answer) => Ok(answer),
            None => (self.run)(run, children, input),
        }
    }
}

/// The definition of a workflow that is not linked.
static UNLINKED: WorkflowDef = WorkflowDef {
    name: "",
    module: "",
    doc: "",
    version: 0,
    fingerprint: "",
    file: "",
    line: 0,
    states: &[],
    edges: &[],
    changes: &[],
    allows: &[],
};

impl RegisteredWorkflow {
    /// In the place of a workflow that is not linked: without code, a run can still be ended.
    pub(crate) const fn unlinked() -> Self {
        fn as_is(recorded: &Payload) -> Result<Payload, PayloadError> {
            Ok(recorded.clone())
        }
        let encodings = Encodings { input: as_is, output: as_is };
        Self::new(
            &UNLINKED,
            &[],
            |_, _, _| Ok(Box::pin(std::future::pending())),
            std::any::TypeId::of::<()>,
            encodings,
        )
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
    /// It returned this value.
    Completed(Payload),
    /// It returned this error.
    Failed(Payload),
    /// It was cancelled or terminated, for this reason.
    Cancelled(String),
    /// There is no such run: it was never started, or it ended and was deleted.
    Gone,
}

/// Result of starting a child.
#[derive(Clone, Debug)]
pub(crate) enum ChildStart {
    /// The child exists, and belongs to this parent.
    Runs,
    /// Its id belongs to another run; the text describes that run.
    Taken(String),
    /// It does not exist, and another worker holds the parent, or has ended it.
    ParentLost,
}

/// A child to be started.
#[derive(Clone, Debug)]
pub(crate) struct NewChild {
    pub(crate) id: RunId,
    pub(crate) workflow: RegisteredWorkflow,
    pub(crate) input: Payload,
    pub(crate) labels: Labels,
    /// The trace context that it is started in.
    pub(crate) traceparent: Option<String>,
    /// What it may take.
    pub(crate) budget: Option<Budget>,
}

/// A run that has children, told from those that had its id before.
#[derive(Clone, Debug)]
pub(crate) struct ParentRun {
    pub(crate) id: RunId,
    pub(crate) life: Box<str>,
}

impl ParentRun {
    pub(crate) fn of(run: &Run) -> Self {
        Self { id: run.id.clone(), life: life(&run.seed) }
    }

    /// A run by what its journal says of its creation.
    pub(crate) fn created(run: &RunId, created: &RunCreated) -> Self {
        Self { id: run.clone(), life: life(&created.seed) }
    }
}

/// What a run needs to have children.
pub(crate) trait Children: Send + Sync + Debug + 'static {
    /// Starts `child` unless it exists; the parent is held at `epoch`. `held` is released when the child exists, even if the returned future was
    /// dropped before: the end of the parent waits for it.
    fn start(
        &self,
        parent: ParentRun,
        epoch: Epoch,
        child: NewChild,
        held: OwnedRwLockReadGuard<()>,
    ) -> BoxFuture<'static, Result<ChildStart, StoreError>>;

    /// How `child` ended; `None` while it is open.
    fn ended(&self, child: RunId) -> BoxFuture<'static, Result<Option<ChildEnd>, StoreError>>;

    /// What `child`, which has ended, took of the budget that it was started with; `None` where its journal does not tell
    /// any more.
    fn spent(&self, child: RunId) -> BoxFuture<'static, Result<Option<Spend>, StoreError>>;

    /// Requests the end of `child`, if it is a child of `parent`. Durable when it answers.
    fn end(
        &self,
        parent: ParentRun,
        child: RunId,
        request: EndRequest,
        at_once: bool,
    ) -> BoxFuture<'static, Result<(), SendError>>;
}
