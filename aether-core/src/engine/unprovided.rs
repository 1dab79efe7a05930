//! What the builder of an engine may leave unprovided: the ways around the check of needs.
//!
//! Promise: without a call of these, an engine does not start where a linked step takes a value that is not provided.

use crate::engine::builder::EngineBuilder;
use crate::step::body::Step;

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
