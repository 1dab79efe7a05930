//! Running a simulation: once, or twice in worlds that differ.
//!
//! Promise: a simulation runs on a thread of its own, which belongs to no runtime; its failure is that of the line that
//! awaits it.

use aether_core::payload::Payload;
use aether_core::workflow::Workflow;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::sim::Sim;
use crate::sim::processes::simulate::run;
use crate::sim::report::error::SimError;
use crate::sim::report::running::Running;
use crate::sim::report::sim_report::SimReport;
use crate::sim::settings::Settings;
use crate::sim::sweep::double_run::check_twice;

/// Running the simulation.
impl<W: Workflow> Sim<W> {
    /// Runs the workflow to its end, and reports what it did. A simulation can be run any number of times; each run is
    /// the same.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<double>().run(21).await;
    /// assert_eq!(report.assert_completed(), &42);
    /// # }
    /// ```
    ///
    /// # Panics
    /// With the text of a [`SimError`], for example when a step has no stub.
    #[track_caller]
    pub fn run(&self, input: W::Input) -> Running<SimReport<W>> {
        Running::new(self.on_own_thread(input, run::<W>))
    }

    /// Like [`Sim::run`], for tests of what goes wrong.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, SimError};
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = Sim::new::<ask>().try_run(()).await.unwrap_err();
    /// assert!(matches!(error, SimError::MissingStub { .. }));
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SimError`] when there is nothing to report, for example because a step has no stub.
    pub async fn try_run(&self, input: W::Input) -> Result<SimReport<W>, SimError> {
        self.on_own_thread(input, run::<W>).await
    }

    /// Runs the workflow in two worlds that differ in all that does not come through the context, and compares: once
    /// to its end; then, on a thread of its own, a replay of that journal, and a second run. There the clock is more
    /// than a year ahead, environment variables are hidden, the process id is another, and hash keys, seeds of
    /// thread-local generators, thread id and addresses of the heap and the stack differ. Lines and spans of `tracing`
    /// that are on in the first run are off there, and those that are off are on; none is written. Draws, virtual times
    /// and the answers of stubs are those of the first run.
    ///
    /// Bodies that are called for real (`pure` ones, and [`Sim::real`]) are called again, and must do the same. What
    /// is the same for the life of a process (addresses of functions and statics, its arguments, the machine) stays
    /// the same here. The trap is set in both worlds.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, SimError};
    /// # use std::collections::HashMap;
    /// /// Some number, whichever comes first in the hash order of this process.
    /// fn any_number() -> u32 {
    ///     let numbers: HashMap<u32, ()> = (0..1000).map(|number| (number, ())).collect();
    ///     numbers.into_keys().next().unwrap_or_default()
    /// }
    ///
    /// #[workflow]
    /// async fn choose(cx: &mut Cx) -> Result<u32> {
    ///     Ok(any_number())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = Sim::new::<choose>().try_check_deterministic(()).await.unwrap_err();
    /// assert!(matches!(error, SimError::Nondeterministic { .. }));
    /// # }
    /// ```
    ///
    /// # Panics
    /// With the text of a [`SimError`]: of [`SimError::Nondeterministic`] when the runs come apart.
    #[track_caller]
    pub fn check_deterministic(&self, input: W::Input) -> Running<SimReport<W>> {
        Running::new(self.on_own_thread(input, check_twice::<W>))
    }

    /// Like [`Sim::check_deterministic`]; returns the report of the first run. There is an example there.
    ///
    /// # Errors
    /// [`SimError::Nondeterministic`] when the runs come apart; any other when the first run fails.
    pub async fn try_check_deterministic(&self, input: W::Input) -> Result<SimReport<W>, SimError> {
        self.on_own_thread(input, check_twice::<W>).await
    }

    /// Works on a thread that belongs to no runtime.
    pub(super) fn on_own_thread<T: Send + 'static>(
        &self,
        input: W::Input,
        work: impl FnOnce(&Settings, &Payload) -> Result<T, SimError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, SimError>> {
        let (input, settings) = (W::encode(&input), self.settings.clone());
        Box::pin(async move {
            let input = input.map_err(SimError::Input)?;
            let (done, outcome) = oneshot::channel();
            let broken = |reason: String| SimError::Broken(reason);
            std::thread::Builder::new()
                .name(format!("sim {}", W::DEF.name))
                .spawn(move || {
                    // An error: the test stopped waiting.
                    let _sent = done.send(work(&settings, &input));
                })
                .map_err(|error| broken(error.to_string()))?;
            outcome.await.unwrap_or_else(|_| Err(broken("its thread panicked".into())))
        })
    }
}
