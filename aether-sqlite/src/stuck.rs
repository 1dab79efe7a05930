//! What the writer remembers while something cannot be written: why, since when, and when to try again.
//!
//! Promise: the pauses between tries grow up to [`LONGEST`]; the log says once what is stuck, and then rarely.

use std::collections::BTreeSet;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::store::StoreError;

use crate::sched::Instant;

/// The longest pause between two tries.
const LONGEST: Duration = Duration::from_millis(200);

/// How often the log repeats that nothing can be written.
const REMINDER: Duration = Duration::from_secs(60);

/// How many runs an error names.
const NAMED: usize = 5;

/// The time in which something cannot be written.
#[derive(Debug)]
pub(crate) struct Stuck {
    what: &'static str,
    /// Why the last try failed.
    pub(crate) error: StoreError,
    since: Instant,
    pause: Duration,
    warned: Option<Instant>,
}

impl Stuck {
    /// `what` cannot be done, as the log says it.
    pub(crate) fn new(what: &'static str, error: StoreError) -> Self {
        Self { what, error, since: Instant::now(), pause: Duration::from_millis(5), warned: None }
    }

    /// A try failed, and `waiting` waits for the next one.
    pub(crate) fn failed<'a>(
        &mut self,
        error: StoreError,
        waiting: impl IntoIterator<Item = Option<&'a RunId>>,
    ) {
        self.error = error;
        if self.warned.is_none_or(|warned| warned.elapsed() >= REMINDER) {
            self.warned = Some(Instant::now());
            let (error, waited) = (&self.error, self.since.elapsed());
            let waiting = summary(waiting);
            let what = self.what;
            tracing::warn!(%error, ?waited, %waiting, "{what}; trying again until it can");
        }
    }

    /// The pause before the next try.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST);
        pause
    }

    /// Everything that waited was written.
    pub(crate) fn over(self, store: &str) {
        tracing::warn!(store, waited = ?self.since.elapsed(), "what could not be written for a while is written");
    }
}

/// `error`, with what it kept from being written: for each append its run, for any other write `None`.
pub(crate) fn unwritten<'a>(
    error: &StoreError,
    writes: impl IntoIterator<Item = Option<&'a RunId>>,
) -> StoreError {
    let lost = summary(writes);
    let with = |reason: &String| format!("{reason}; the store was closed without writing {lost}");
    match error.clone() {
        StoreError::Full { store, reason } => StoreError::Full { store, reason: with(&reason) },
        StoreError::Locked { store, reason } => StoreError::Locked { store, reason: with(&reason) },
        StoreError::Unavailable { store, reason } => StoreError::Unavailable { store, reason: with(&reason) },
        other => other,
    }
}

/// How much it is, and of which runs, such as "appends: 3 (runs `a`, `b`), other writes: 1".
fn summary<'a>(writes: impl IntoIterator<Item = Option<&'a RunId>>) -> String {
    let (mut appends, mut others, mut runs) = (0_usize, 0_usize, BTreeSet::new());
    for write in writes {
        match write {
            Some(run) => {
                appends += 1;
                runs.insert(run);
            }
            None => others += 1,
        }
    }
    let more = runs.len().saturating_sub(NAMED);
    let mut named = runs.into_iter().take(NAMED).map(|run| format!("`{run}`")).collect::<Vec<_>>();
    named.extend((more > 0).then(|| format!("{more} more")));
    let appends = (appends > 0).then(|| format!("appends: {appends} (runs {})", named.join(", ")));
    let others = (others > 0).then(|| format!("other writes: {others}"));
    appends.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}
