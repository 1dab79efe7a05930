//! Evidence of one run: its whole record with the verdict of a fresh replay.
//!
//! Promise: reads only; the replay calls nothing.

use crate::engine::inner::{Engine, now};
use crate::recording::evidence::{Evidence, EvidenceError, EvidenceReplay};
use crate::run::fault::Fault;
use crate::vocabulary::id::RunId;

impl Engine {
    /// Everything that is recorded of a run, byte for byte, in a form that somebody else can check without this program and
    /// its store: history with hash chain, definition, decisions, ledger, large values, and what a replay with this
    /// program's code says now. `made_by` names who makes it.
    ///
    /// Nothing is masked: it holds what the store holds, and what a payload codec encoded also in plain text.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.evidence(run, "ada").await?.write("run-42.evidence.json")?;
    /// let report = aether_core::recording::Evidence::read("run-42.evidence.json")?.verify();
    /// assert!(report.is_sound(), "{report}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`EvidenceError::Store`] when there is no such run, its journal is damaged, or the store fails.
    pub async fn evidence(&self, run: &RunId, made_by: &str) -> Result<Evidence, EvidenceError> {
        let store = &*self.inner.shared.store;
        let (fits, verdict) = match self.verify(run).await {
            Ok(verified) => (true, verified.to_string()),
            Err(crate::engine::verify::VerifyError::Fault(Fault::Store(error))) => return Err(error.into()),
            Err(error) => (false, error.to_string()),
        };
        let replay = EvidenceReplay { fits, verdict };
        Evidence::collect(store, run, replay, made_by, now(&self.inner)).await
    }
}
