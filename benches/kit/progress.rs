//! Waiting for something that an engine does.
//!
//! Promise: what makes no progress any more is an error, and no bench that hangs.

use std::time::{Duration, Instant};

use super::Result;

/// How long nothing may move.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks for a number again and again, with a pause in between, until it is `wanted`.
pub(crate) async fn until(
    what: &str,
    wanted: u64,
    pause: Duration,
    mut ask: impl AsyncFnMut() -> Result<u64>,
) -> Result<()> {
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let found = ask().await?;
        if found >= wanted {
            return Ok(());
        }
        if seen != Some(found) {
            (seen, since) = (Some(found), Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("{what}: {found} of {wanted}, and no more for {PATIENCE:?}").into());
        }
        tokio::time::sleep(pause).await;
    }
}
