//! Patience with a store that fails: whoever acts from outside tries again, as a person or a client would.
//!
//! Promise: a failure of the store that passes loses no decision, no signal and no report; one that stays is returned.

use std::time::Duration;

use aether_core::engine::DecideError;
use aether_core::inbox::SendError;
use aether_core::store::StoreError;

use crate::sim::live::Live;

/// How often a call is tried whose store fails.
const TRIES: usize = 10;
/// Virtual time between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// An error that may be about the store and not about the call.
pub(super) trait FromOutside {
    fn is_of_store(&self) -> bool;
}

impl FromOutside for StoreError {
    fn is_of_store(&self) -> bool {
        !matches!(self, Self::UnknownRun { .. })
    }
}

impl FromOutside for SendError {
    fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_of_store())
    }
}

impl FromOutside for DecideError {
    fn is_of_store(&self) -> bool {
        match self {
            Self::Store(error) => error.is_of_store(),
            Self::Send(error) => error.is_of_store(),
            _ => false,
        }
    }
}

/// Does it, and again as long as the store fails.
pub(super) async fn persist<T, E, F>(live: &Live, act: impl Fn() -> F) -> Result<T, E>
where
    E: FromOutside,
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..TRIES {
        match act().await {
            Err(error) if error.is_of_store() => live.sleep(PAUSE).await,
            done => return done,
        }
    }
    act().await
}
