//! Asking the store until it answers.
//!
//! Promise: an error that passes by itself, such as that of a locked file or a full disk, stops no run: what is in flight
//! in its other branches would be cut off for nothing.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::run::claim::Run;
use crate::store::error::StoreError;

/// Wait before the store is asked again; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Run {
    /// The store's answer. Where the store cannot answer for the moment, it is asked again until it can; any other error
    /// stops the run.
    pub(crate) async fn insist<'s, T>(
        &self,
        mut ask: impl FnMut() -> BoxFuture<'s, Result<T, StoreError>> + Send,
    ) -> T {
        let mut wait = FIRST_WAIT;
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error @ (StoreError::Locked { .. } | StoreError::Full { .. })) => {
                    self.shared.gauge.store_failed(error.kind());
                    tracing::warn!(target: "aether::run", run = %self.id, %error, "the store is asked again");
                    self.shared.environment.sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                Err(error) => return self.stop(error).await,
            }
        }
    }
}
