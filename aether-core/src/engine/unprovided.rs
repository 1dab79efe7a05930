//! What the builder of an engine may leave out: linked workflows, and the check of needs.
//!
//! Promise: without a call of these, an engine has every linked workflow, and does not start where a linked step takes a
//! value that is not provided.

use crate::engine::builder::EngineBuilder;
use crate::run::program::RegisteredWorkflow;
use crate::step::body::Step;
use crate::workflow::definition::Workflow;

impl EngineBuilder {
    /// Leaves step `S` out of the check that every value that a linked step takes is provided: for a step that this
    /// program links and never runs.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::step::Step;
    /// # #[allow(non_camel_case_types)]
    /// # fn with<send_letter: Step>() {
    /// let builder = Engine::builder().without::<send_letter>();
    /// # }
    /// ```
    pub fn without<S: Step>(mut self) -> Self {
        self.needs.without.push(S::DEF.path);
        self
    }

    /// Leaves workflow `W` out, and only this version of it: the engine is as if the program did not link it, so runs of
    /// this version are left to other workers, or continue by another version where they fit. `engine.start::<W>(..)` and
    /// `engine.handle::<W>(..)` bring it back in.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # fn with<triage: Workflow>() {
    /// // Runs of the first version end on the old machines.
    /// let builder = Engine::builder().without_workflow::<triage>();
    /// # }
    /// ```
    pub fn without_workflow<W: Workflow>(mut self) -> Self {
        self.without.push(RegisteredWorkflow::of::<W>());
        self
    }

    /// Starts the engine though values that linked steps take are not provided: for a program that links many workflows
    /// and runs few of them, such as a test. A step that takes a missing value then stops its run.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// let builder = Engine::builder().memory().allow_missing_deps();
    /// ```
    pub fn allow_missing_deps(mut self) -> Self {
        self.needs.off = true;
        self
    }
}
