//! Verifiers: they inspect a changed resource before a recorded change of it is trusted again.
//!
//! Promise: a kind of resource that a step declares and that has no verifier is reported when the engine starts.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::definition::def::StepDef;
use crate::journal::event::StateChanged;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::RunId;

/// Result of inspecting a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// The resource is in the state in which the step left it.
    Unchanged,
    /// The resource is in another state, or gone.
    Differs {
        /// The state in which the step left it, for people to read.
        expected: String,
        /// The state found in its place, for people to read.
        found: String,
    },
}

/// Inspects resources of one kind when a run that changed them is resumed. Registered with
/// `Engine::builder().verifier(kind, verifier)`.
///
/// ```
/// use aether_core::policy::{Inspection, Verifier};
/// use aether_core::journal::event::StateChanged;
/// use aether_core::failure::Failure;
/// use aether_core::id::RunId;
/// use futures_util::future::BoxFuture;
///
/// /// Issues of a tracker that is kept in memory.
/// #[derive(Debug)]
/// struct Issues(Vec<String>);
///
/// impl Verifier for Issues {
///     fn name(&self) -> &str {
///         "issues"
///     }
///     fn look<'a>(&'a self, _: &'a RunId, change: &'a StateChanged) -> BoxFuture<'a, Result<Inspection, Failure>> {
///         let there = self.0.contains(&change.id);
///         let seen = if there {
///             Inspection::Unchanged
///         } else {
///             Inspection::Differs { expected: "an open issue".into(), found: "no such issue".into() }
///         };
///         Box::pin(std::future::ready(Ok(seen)))
///     }
/// }
/// ```
pub trait Verifier: Send + Sync + Debug + 'static {
    /// Name of the verifier, recorded with each of its verdicts.
    fn name(&self) -> &str;

    /// Inspects one resource. `change` is its newest recorded change: the step's command, the resource's kind, id,
    /// operation, version, entity tag and external reference. It must change nothing.
    ///
    /// # Errors
    /// Why the resource could not be inspected. Unless the failure is permanent, the inspection is repeated three times
    /// before the run fails.
    fn look<'a>(
        &'a self,
        run: &'a RunId,
        change: &'a StateChanged,
    ) -> BoxFuture<'a, Result<Inspection, Failure>>;

    /// Whether a resource that was once found unchanged is not inspected again. Default: `false`.
    fn skips_confirmed(&self) -> bool {
        false
    }
}

impl<V: Verifier + ?Sized> Verifier for Arc<V> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn look<'a>(
        &'a self,
        run: &'a RunId,
        change: &'a StateChanged,
    ) -> BoxFuture<'a, Result<Inspection, Failure>> {
        (**self).look(run, change)
    }

    fn skips_confirmed(&self) -> bool {
        (**self).skips_confirmed()
    }
}

/// The verifiers of an engine, and the steps that may need them.
#[derive(Debug, Default)]
pub(crate) struct Verifiers {
    by_kind: BTreeMap<String, Arc<dyn Verifier>>,
    steps: Vec<&'static StepDef>,
}

impl Verifiers {
    pub(crate) fn insert(&mut self, kind: String, verifier: Arc<dyn Verifier>) {
        self.by_kind.insert(kind, verifier);
    }

    /// Adds a step, with the kinds of resources that it declares.
    pub(crate) fn know(&mut self, step: &'static StepDef) {
        self.steps.push(step);
    }

    /// The first step that declares a kind for which there is no verifier, and that kind.
    pub(crate) fn lacking(&self) -> Option<(&'static StepDef, &'static str)> {
        let declared =
            self.steps.iter().flat_map(|step| step.options.changes.iter().map(move |kind| (*step, *kind)));
        declared.into_iter().find(|(_, kind)| !self.by_kind.contains_key(*kind))
    }

    pub(crate) fn get(&self, kind: &str) -> Option<Arc<dyn Verifier>> {
        self.by_kind.get(kind).cloned()
    }

    /// Whether a step of this name declares that it changes resources of this kind.
    pub(crate) fn may_change(&self, step: &str, kind: &str) -> bool {
        self.steps.iter().any(|known| known.name == step && known.options.changes.contains(&kind))
    }
}
