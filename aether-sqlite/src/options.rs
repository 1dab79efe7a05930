//! How a store behaves.

use std::time::Duration;

/// How a [`SqliteStore`](crate::SqliteStore) behaves. The defaults suit a local disk.
///
/// ```
/// # use std::time::Duration;
/// use aether_sqlite::SqliteOptions;
/// let options = SqliteOptions { busy_timeout: Duration::from_secs(1), readers: 4, ..SqliteOptions::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How long SQLite waits for another process's write, each time; at most 24 days. Default: 5 s.
    pub busy_timeout: Duration,
    /// How long the writer keeps trying after that, with a warning each time, before calls that wait for an answer fail
    /// with [`StoreError::Locked`](aether_core::store::StoreError::Locked). Appends and outcomes of bodies never fail for
    /// that: they are kept. Default: 30 s, twice an engine's lease.
    pub lock_patience: Duration,
    /// How long a batch that no caller waits for stays open for more, at most a minute. Default: 1 ms.
    pub linger: Duration,
    /// At most so many operations in one batch. Default: 2000.
    pub batch: usize,
    /// How many threads read. Default: 2.
    pub readers: usize,
    /// After how many pages (4 KiB each) the write-ahead log is copied into the file at the latest, and begun anew; most
    /// of it is copied before, beside the writer. 0 for never. Default: 10000.
    pub checkpoint_pages: u32,
    /// How many pages the file may have before it counts as full: appends wait for room, other writes fail with
    /// [`StoreError::Full`](aether_core::store::StoreError::Full). Default: no limit.
    pub max_pages: Option<u32>,
    /// Whether a file of an older build is brought to the tables of this one when it is opened. Without it, opening such a
    /// file fails with [`StoreError::OlderSchema`](aether_core::store::StoreError::OlderSchema). Default: `true`.
    pub migrate: bool,
}

/// SQLite counts milliseconds in 32 bits.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);
/// No instant is much longer away than that where somebody says `Duration::MAX`.
const LONGEST_LINGER: Duration = Duration::from_secs(60);

impl SqliteOptions {
    /// The options with times that can be waited for.
    pub(crate) fn within_limits(self) -> Self {
        let (busy_timeout, linger) = (self.busy_timeout.min(LONGEST_WAIT), self.linger.min(LONGEST_LINGER));
        Self { busy_timeout, linger, ..self }
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            lock_patience: Duration::from_secs(30),
            linger: Duration::from_millis(1),
            batch: 2000,
            readers: 2,
            checkpoint_pages: 10000,
            max_pages: None,
            migrate: true,
        }
    }
}
