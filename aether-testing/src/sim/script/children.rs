//! Stubs of child runs: how a run ends whose workflow is not run.
//!
//! Promise: a stub is data; it answers every run of its workflow but the simulated one.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::definition::def::WorkflowDef;
use aether_core::outcome::FailureClass;
use aether_core::payload::Payload;
use aether_core::step::{BodyError, BodyResult};
use aether_core::workflow::Workflow;

/// Answers one run by its input.
pub(crate) type ChildStub = Arc<dyn Fn(&Payload) -> BodyResult + Send + Sync>;

/// The module, the name and the version of a workflow.
type Named = (&'static str, &'static str, u32);

fn named(def: &'static WorkflowDef) -> Named {
    (def.module, def.name, def.version)
}

/// The stubs of workflows.
#[derive(Clone, Default)]
pub(crate) struct ChildStubs(BTreeMap<Named, ChildStub>);

impl ChildStubs {
    /// Answers runs of `W` with a closure; its panic is that of the workflow.
    pub(crate) fn insert<W: Workflow>(
        &mut self,
        answer: impl Fn(W::Input) -> Result<W::Output, W::Error> + Send + Sync + 'static,
    ) {
        let stub = move |input: &Payload| match answer(W::decode(input)?) {
            Ok(value) => Ok(Ok(Payload::encode(&value)?)),
            Err(error) => Ok(Err(BodyError {
                error: Payload::encode(&error)?,
                message: error.to_string(),
                class: FailureClass::Unclassified,
                retry_after: None,
            })),
        };
        self.0.insert(named(W::DEF), Arc::new(stub));
    }

    pub(crate) fn get(&self, def: &'static WorkflowDef) -> Option<&ChildStub> {
        self.0.get(&named(def))
    }

    /// What has a stub.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().map(|(_, name, _)| (*name).to_owned())
    }
}
