//! A simulation under construction.
//!
//! Promise: nothing runs before the simulation is awaited; a clone makes an equal simulation.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use aether_core::workflow::Workflow;

use crate::sim::script::scripts::Scripts;
use crate::sim::settings::Settings;

/// A simulation of workflow `W`, under construction.
///
/// Its methods stand in the order in which a test needs them: what answers steps, requests and models; what people do;
/// time, seed and surroundings; then running it once, or in a sweep.
///
/// ```
/// use aether::prelude::*;
/// use aether_testing::Sim;
///
/// /// Search the archive.
/// #[step(effect = "read")]
/// async fn search(cx: &mut StepCx, query: &str) -> Result<u32> {
///     unreachable!("a simulation calls the stub")
/// }
///
/// /// Count what is found.
/// #[workflow]
/// async fn count(cx: &mut Cx, query: String) -> Result<u32> {
///     let found = search(cx, &query).await?;
///     cx.sleep(std::time::Duration::from_secs(30 * 24 * 3600)).await;
///     Ok(found)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sim = Sim::new::<count>().fail_times::<search>(1, Failure::new("busy")).stub::<search>(|query| Ok(query.len() as u32));
/// let report = sim.run("hello".to_owned()).await;
/// assert_eq!(report.assert_completed(), &5);
/// report.assert_calls::<search>(2);
/// report.assert_effects(&["search", "sleep"]);
/// sim.crash_at_every_boundary("hello".to_owned()).await;
/// # }
/// ```
#[must_use = "a simulation begins when `.run(..)` is awaited"]
pub struct Sim<W = ()> {
    pub(super) settings: Settings,
    workflow: PhantomData<fn() -> W>,
}

impl Sim {
    /// A simulation of `W` without any stub, which begins on 2026-01-01 with seed 0. `#[aether::test]` gives a test the
    /// same one as its argument.
    #[allow(clippy::new_ret_no_self, reason = "the simulation knows its workflow's type")]
    pub fn new<W: Workflow>() -> Sim<W> {
        Sim::default()
    }
}

impl<W: Workflow> Default for Sim<W> {
    fn default() -> Self {
        Self { settings: Settings::default(), workflow: PhantomData }
    }
}

impl<W: Workflow> Sim<W> {
    pub(super) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub(super) fn script(self, change: impl FnOnce(&mut Scripts)) -> Self {
        self.with(|settings| change(Arc::make_mut(&mut settings.scripts)))
    }
}

impl<W> Clone for Sim<W> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), workflow: PhantomData }
    }
}

impl<W: Workflow> fmt::Debug for Sim<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("workflow", &W::DEF.name)
            .field("stubs", &self.settings.scripts)
            .field("at", &self.settings.at)
            .field("seed", &self.settings.seed)
            .field("crashes", &self.settings.crashes)
            .finish_non_exhaustive()
    }
}
