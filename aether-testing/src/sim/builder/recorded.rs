//! A recording as the answers of a simulation.
//!
//! Promise: an answer goes only to the command that has its place, its name and its arguments.

use std::path::Path;

use aether_core::recording::{Recording, RecordingError};
use aether_core::workflow::Workflow;

use super::sim::Sim;
use crate::sim::script::recorded::RecordedAnswers;

/// Simulations from recordings.
impl Sim {
    /// A simulation of `W` in which every body, clock reading, UUID and random value is answered from the recording in
    /// the file at `path`, by command; with it comes the recorded input.
    ///
    /// The simulation has the recorded run's id and begins when it began. A call that was not recorded, or with other
    /// arguments, ends it with [`SimError::NotRecorded`](crate::SimError::NotRecorded), which names the nearest recorded one. A stub that is added
    /// answers in place of the recording. Attempts that failed are not played again: a step's first attempt ends as
    /// its last one did. Signals that the run took in wait for it; what people decided is not played: say it with
    /// [`Sim::approves`] and the like.
    ///
    /// ```no_run
    /// # use aether::prelude::*;
    /// # #[workflow] async fn triage(cx: &mut Cx, ticket: String) -> Result<String> { Ok(ticket) }
    /// # async fn test() {
    /// let (sim, ticket) = aether_testing::Sim::from_recording::<triage>("fixtures/ticket.json").unwrap();
    /// sim.run(ticket).await.assert_completed();
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RecordingError`] when the file is no recording, or one whose input is not `W`'s.
    pub fn from_recording<W: Workflow>(path: impl AsRef<Path>) -> Result<(Sim<W>, W::Input), RecordingError> {
        let recording = Recording::read(path)?;
        let damaged = |reason: String| RecordingError::Damaged { place: "the recorded run".into(), reason };
        let Some(root) = recording.root() else { return Err(damaged("there is none".into())) };
        let input = W::decode(&root.created.input).map_err(|error| damaged(error.to_string()))?;
        Ok((Self::new::<W>().recorded(&recording)?, input))
    }
}

/// Answers from a recording.
impl<W: Workflow> Sim<W> {
    /// Answers from `recording` what nothing else answers; see [`Sim::from_recording`].
    ///
    /// ```no_run
    /// # use aether::prelude::*;
    /// # use aether::recording::Recording;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn triage(cx: &mut Cx, ticket: String) -> Result<String> { Ok(ticket) }
    /// # async fn test() {
    /// let recording = Recording::read("fixtures/ticket.json").unwrap();
    /// let sim = Sim::new::<triage>().recorded(&recording).unwrap();
    /// sim.run("another ticket".to_owned()).await.assert_completed();
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RecordingError`] when one of its journals cannot be read.
    pub fn recorded(self, recording: &Recording) -> Result<Self, RecordingError> {
        let recorded = RecordedAnswers::new(recording)?;
        let mut sim = self.script(|scripts| scripts.recorded = Some(recorded.into()));
        if let Some(root) = recording.root() {
            sim = sim.id(root.run.as_str());
            if let Some(first) = root.frames.first() {
                sim = sim.at(first.at);
            }
        }
        Ok(sim)
    }
}
