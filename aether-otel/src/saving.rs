//! Saves the progress: seldom enough that its writes do not matter, however large it is.
//!
//! Promise: what is saved was exported. Writing it takes no time of the runtime's threads that runs would notice.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::progress::{Kept, Progress, ProgressError};

/// Least time between two writes of the progress.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Bytes of progress that are written in a second, on average.
const BYTES_PER_SECOND: usize = 100_000;
/// Entries from which on the text is made on a thread of its own.
const MANY: usize = 1_000;

/// Writes the progress.
#[derive(Debug)]
pub(crate) struct Saver {
    progress: Arc<dyn Progress>,
    at: Instant,
    text: String,
}

impl Saver {
    pub(crate) fn new(progress: Arc<dyn Progress>) -> Self {
        Self { progress, at: Instant::now(), text: String::new() }
    }

    /// What was saved last.
    pub(crate) async fn load(&mut self) -> Result<Option<&str>, ProgressError> {
        let Some(text) = self.progress.load().await? else { return Ok(None) };
        self.text = text;
        Ok(Some(&self.text))
    }

    /// For how long a write of this many bytes is enough.
    fn interval(bytes: usize) -> Duration {
        let stretched = Duration::from_secs((bytes / BYTES_PER_SECOND) as u64);
        stretched.max(SAVE_EVERY)
    }

    /// Saves what is kept, if it is time for that, or `now`.
    pub(crate) async fn save(&mut self, kept: &Arc<Kept>, now: bool) -> Result<(), ProgressError> {
        if !now && self.at.elapsed() < Self::interval(self.text.len()) {
            return Ok(());
        }
        self.at = Instant::now();
        let text = text_of(kept).await;
        if text.is_empty() || text == self.text {
            return Ok(());
        }
        self.progress.save(text.clone()).await?;
        self.text = text;
        Ok(())
    }
}

/// The text of what is kept; empty where the runtime ends meanwhile.
async fn text_of(kept: &Arc<Kept>) -> String {
    if kept.open.len() + kept.done.len() < MANY {
        return kept.to_text();
    }
    let kept = Arc::clone(kept);
    tokio::task::spawn_blocking(move || kept.to_text()).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_progress_is_written_less_often() {
        assert_eq!(Saver::interval(4_000), Duration::from_secs(1));
        assert_eq!(Saver::interval(9_000_000), Duration::from_secs(90));
    }
}
