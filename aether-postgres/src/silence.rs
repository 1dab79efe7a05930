//! Servers that take requests and answer none: a frozen machine, whose network is still there.
//!
//! Promise: a request of the store's own that gets no answer for [`Silence::limit`] loses its connection, as it would by a
//! broken one. A process that was paused itself listens for that long again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::config::Config;

/// How much longer than the server's own limit for a statement an answer is waited for.
const MORE: Duration = Duration::from_secs(10);
/// Looks in one limit: a pause of this process is one look, however long it lasts.
const LOOKS: u32 = 10;

/// What one connection waits for.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    open: AtomicU64,
    answers: AtomicU64,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Unanswered<'s>(&'s Silence);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Silence {
    /// How long an answer is waited for; `None` for ever, where the server has no limit either.
    pub(crate) fn limit(statement_timeout: Duration) -> Option<Duration> {
        (!statement_timeout.is_zero()).then(|| statement_timeout.saturating_add(MORE))
    }

    /// How long a connection is waited for, with its handshakes.
    pub(crate) fn connect_limit(config: &Config) -> Duration {
        let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        let each = config.get_connect_timeout().copied().unwrap_or_default();
        each.saturating_mul(hosts).saturating_add(MORE)
    }

    /// A request is made.
    pub(crate) fn asked(&self) -> Unanswered<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Unanswered(self)
    }

    /// Waits until a request was not answered for as long as `limit`.
    pub(crate) async fn lasts(self: Arc<Self>, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        let (mut heard, mut looks) = (0, 0);
        while looks < LOOKS {
            tokio::time::sleep(limit / LOOKS).await;
            let answers = self.answers.load(Ordering::Relaxed);
            let is_silent = self.open.load(Ordering::Relaxed) > 0 && answers == heard;
            looks = if is_silent { looks + 1 } else { 0 };
            heard = answers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn only_a_request_without_an_answer_ends_a_connection() {
        let silence = Arc::new(Silence::default());
        let ends = |time| tokio::time::timeout(time, Arc::clone(&silence).lasts(Some(LIMIT)));
        assert!(ends(LIMIT * 100).await.is_err(), "nothing was asked");
        let busy = async {
            let _long = silence.asked();
            for _ in 0..100 {
                tokio::time::sleep(LIMIT / 2).await;
                drop(silence.asked());
            }
        };
        tokio::select! {
            () = Arc::clone(&silence).lasts(Some(LIMIT)) => panic!("others were answered"),
            () = busy => {}
        }
        let unanswered = silence.asked();
        assert!(ends(LIMIT * 2).await.is_ok());
        let for_ever = Arc::clone(&silence).lasts(Silence::limit(Duration::ZERO));
        assert!(tokio::time::timeout(LIMIT * 100, for_ever).await.is_err());
        drop(unanswered);
        assert!(ends(LIMIT * 100).await.is_err());
    }
}
