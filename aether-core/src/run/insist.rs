//! Asking the store until it answers.
//!
//! Promise: an error that passes by itself, such as that of a locked file or a full disk, stops no run: what is in flight
//! in its other branches would be cut off for nothing. A store that is out of reach stops none for [`OUTAGE`].

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::run::claim::Run;
use crate::store::error::StoreError;

/// Wait before the store is asked again; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// So long a store that is out of reach is asked again: longer than a failover takes. An error that no time mends looks alike.
const OUTAGE: Duration = Duration::from_secs(300);

impl Run {
    /// The store's answer. Where the store cannot answer for the moment, it is asked again until it can; any other error
    /// stops the run.
    pub(crate) async fn insist<'s, T>(
        &self,
        ask: impl FnMut() -> BoxFuture<'s, Result<T, StoreError>> + Send,
    ) -> T {
        match self.asking(ask).await {
            Ok(answer) => answer,
            Err(error) => self.stop(error).await,
        }
    }

    /// As [`Run::insist`], for who is not stopped by the run.
    ///
    /// # Errors
    /// One that does not pass.
    pub(crate) async fn asking<'s, T>(
        &self,
        mut ask: impl FnMut() -> BoxFuture<'s, Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let mut wait = FIRST_WAIT;
        let mut waited = Duration::ZERO;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) if passes(&error, waited) => {
                    self.shared.gauge.store_failed(error.kind());
                    tracing::warn!(target: "aether::run", run = %self.id, %error, "the store is asked again");
                    self.shared.environment.sleep(wait).await;
                    waited += wait;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the store may answer after so long a wait.
fn passes(error: &StoreError, waited: Duration) -> bool {
    match error {
        StoreError::Locked { .. } | StoreError::Full { .. } => true,
        StoreError::Unavailable { .. } => waited < OUTAGE,
        _ => false,
    }
}
