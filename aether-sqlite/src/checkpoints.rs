//! Copying the write-ahead log into the file, beside the writer.
//!
//! Promise: nobody waits for it. SQLite copies within a commit what is left when the log is as long as it may be, and begins
//! it anew; a thread of its own has copied most of it by then. Who cannot copy at the moment, because another process does or
//! the disk is full, leaves it to the next one. Nothing is copied of a log that was deleted or replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;

use crate::identity::FileWatch;
use crate::reader::Job;
use crate::sched::Sender;

/// Size of a page.
const PAGE: u64 = 4_096;
/// So often the log is copied while it grows to its limit.
const PASSES: u64 = 3;

/// What is copied when.
pub(crate) struct Checkpoints {
    /// How long the log may be, in pages; 0 for any length.
    limit: u64,
    /// The thread that copies.
    thread: Sender<Job>,
    watch: FileWatch,
    pass: Arc<Pass>,
    /// Bytes of events that were committed since the last pass began.
    written: u64,
    /// So many make the next one. No interface says how long the log is but that which copies, so it is estimated.
    each: u64,
    /// The log's length at the last pass.
    before: u64,
}

/// The last pass.
#[derive(Debug, Default)]
struct Pass {
    /// It is not over.
    runs: AtomicBool,
    /// Pages of the log at its end.
    log: AtomicU64,
}

impl Checkpoints {
    /// For a log that SQLite copies when it has `limit` pages. `thread` ends with this.
    pub(crate) fn new(limit: u32, watch: FileWatch, thread: Sender<Job>) -> Self {
        let limit = u64::from(limit);
        let (written, each) = (0, limit * PAGE / PASSES / 2);
        Self { limit, thread, watch, pass: Arc::default(), written, each, before: 0 }
    }

    /// Notes a commit of so many bytes of events, and begins a pass where it is time.
    pub(crate) fn committed(&mut self, bytes: u64) {
        self.written += bytes;
        if self.limit == 0 || self.written < self.each || self.pass.runs.load(Ordering::Acquire) {
            return;
        }
        let log = self.pass.log.load(Ordering::Acquire);
        self.each = bytes_of_a_pass(self.limit, (self.each, self.written), (self.before, log));
        (self.written, self.before) = (0, log);
        self.pass.runs.store(true, Ordering::Release);
        let (pass, watch) = (Arc::clone(&self.pass), self.watch.clone());
        let job: Job = Box::new(move |conn| {
            let conn = conn.ok().filter(|_| watch.check().is_ok());
            let log = conn.and_then(copy).unwrap_or_default();
            pass.log.store(log, Ordering::Release);
            pass.runs.store(false, Ordering::Release);
        });
        // It ends when the store closes.
        let _ended = self.thread.send(job);
    }
}

/// So many bytes of events are behind the next pass, where `each` were expected to be behind the last one, and so many `were`,
/// while the log grew from one length to the other.
fn bytes_of_a_pass(limit: u64, (each, were): (u64, u64), (from, to): (u64, u64)) -> u64 {
    // A log that was begun anew says nothing.
    let (true, Some(grown)) = (from > 0, to.checked_sub(from).filter(|grown| *grown > 0)) else {
        return each;
    };
    let wanted = limit / PASSES;
    (were.saturating_mul(wanted) / grown).clamp(wanted * PAGE / 64, wanted * PAGE)
}

/// Copies what no reader needs in the log, and syncs the file. Whether somebody else was at it, and the pages in the log.
pub(crate) fn checkpoint(conn: &Connection) -> rusqlite::Result<(bool, i64)> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The pages in the log, behind a copy of it; `None` where none can be made now.
fn copy(conn: &Connection) -> Option<u64> {
    match checkpoint(conn) {
        Ok((_, pages)) => u64::try_from(pages).ok(),
        Err(error) => {
            tracing::debug!(%error, "the log is copied into the file later");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_follow_the_growth_of_the_log() {
        let limit = 8_000;
        let next = |were, log| bytes_of_a_pass(limit, (2_000_000, were), log);
        // A thousand pages are wanted each time.
        assert_eq!(next(2_000_000, (1_000, 2_000)), 2_000_000);
        assert_eq!(next(2_000_000, (1_000, 3_000)), 1_000_000);
        assert_eq!(next(2_000_000, (1_000, 1_500)), 4_000_000);
        // Not so often that the file is synced all the time, and not so seldom that nothing is copied.
        assert_eq!(next(2_000_000, (1, 1_000_000)), 64_000);
        assert_eq!(next(90_000_000, (1, 2)), 4_096_000);
        // The log was begun anew, or there was no pass before.
        assert_eq!(next(2_000_000, (7_000, 100)), 2_000_000);
        assert_eq!(next(3_000_000, (0, 100)), 2_000_000);
    }
}
