//! Dead letters: runs of a queue that need somebody.
//!
//! Promise: they are a query and no queue of their own. Reading executes nothing; [`Engine::retry`] is what follows.

use std::cmp::Reverse;

use crate::engine::inner::Engine;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;
use crate::store::waits::WaitFilter;
use crate::vocabulary::contract::Status;
use crate::vocabulary::waiting::Waiting;

/// Why a run is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterCause {
    /// It failed.
    Failed,
    /// It was rejected.
    Rejected,
    /// A call may or may not have happened, and the run waits for a person who knows.
    InDoubt,
    /// It waits for code that it fits.
    Parked,
}

/// A run that needs somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The run.
    pub run: RunRecord,
    /// Why.
    pub cause: DeadLetterCause,
}

impl Engine {
    /// The runs of a queue that failed, were rejected, are in doubt or are parked: at most `limit` of each, newest first; with
    /// a `limit` of 0 all of them. A failed run that was retried stays among them until it is purged.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// for letter in engine.dead_letters("tickets", 50).await? {
    ///     println!("{}: {:?}", letter.run.id, letter.cause);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn dead_letters(&self, queue: &str, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let of_queue = || RunFilter::new().queue(queue).limit(limit);
        let mut letters = Vec::new();
        for (filter, cause) in [
            (of_queue().status(Status::Failed), DeadLetterCause::Failed),
            (of_queue().status(Status::Rejected), DeadLetterCause::Rejected),
            (of_queue().parked(true), DeadLetterCause::Parked),
        ] {
            let runs = self.runs(filter).await?;
            letters.extend(runs.into_iter().map(|run| DeadLetter { run, cause }));
        }
        letters.extend(self.in_doubt(queue, limit).await?);
        Ok(letters)
    }

    async fn in_doubt(&self, queue: &str, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let store = &self.inner.shared.store;
        let mut letters: Vec<DeadLetter> = Vec::new();
        let mut filter = WaitFilter::default().kind(Waiting::Resolution).limit(256);
        loop {
            let page = store.waits(filter.clone()).await?;
            for wait in &page {
                if letters.iter().any(|letter| letter.run.id == wait.run) {
                    continue;
                }
                let run = store.run(&wait.run).await?;
                let is_own =
                    |run: &RunRecord| run.terms.queue.as_ref().is_some_and(|place| place.queue == queue);
                if let Some(run) = run.filter(is_own) {
                    letters.push(DeadLetter { run, cause: DeadLetterCause::InDoubt });
                }
            }
            match page.last() {
                Some(last) if page.len() == 256 => filter = filter.after(last.place),
                _ => break,
            }
        }
        // The list is in the order in which they came into doubt.
        letters.sort_by_key(|letter| Reverse(letter.run.place));
        if limit > 0 {
            letters.truncate(limit);
        }
        Ok(letters)
    }
}
