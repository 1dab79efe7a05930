//! Asking the database of a run, and asking again where the run may have been moved meanwhile.
//!
//! Promise: an answer that says something of a run is true when it is given, because a move takes all rows of a run away in
//! one transaction. An answer that says nothing, such as an empty list, is believed only after the database has said that
//! it still has the run's bucket, since the same move as when it was asked.

use aether_core::store::{AppendError, Purged, Sent, StoreError, Unread};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::placement::map::Spot;
use crate::placement::shared::{Shared, Standing};
use crate::shard::shard;

/// A question to the database of a run, while it is asked.
#[derive(Debug)]
pub(crate) struct Search<'s> {
    shared: &'s Shared,
    shard: i16,
    spot: Spot,
    since: Instant,
    pause: Duration,
}

impl Shared {
    /// A question about what is placed by `name`.
    pub(crate) fn search(&self, name: &str) -> Search<'_> {
        let (shard, spot) = (shard(name), Spot::default());
        Search { shared: self, shard, spot, since: Instant::now(), pause: Duration::from_millis(2) }
    }
}

impl<'s> Search<'s> {
    /// The database to ask now.
    pub(crate) fn database(&mut self) -> &'s Arc<Database> {
        self.spot = self.shared.map.spot(self.shard);
        self.shared.database(self.spot.database)
    }

    /// Queues something for the database to ask now, before the bucket can be at another spot for this process.
    pub(crate) fn queued<T>(&mut self, queue: impl FnOnce(&Arc<Database>) -> T) -> T {
        self.shared.map.with(self.shard, |spot| {
            self.spot = spot;
            queue(self.shared.database(spot.database))
        })
    }

    /// Whether the database that was asked had the bucket; otherwise the next one can be asked when this returns.
    pub(crate) async fn was_right(&mut self) -> Result<bool, StoreError> {
        if !self.shared.is_sharded() {
            return Ok(true);
        }
        match self.shared.standing(self.spot, self.shard).await? {
            Standing::Here if self.spot.settled => return Ok(true),
            // It may have come between the answer and the look: it is asked again, now that it is there.
            Standing::Here => self.shared.follow(self.shard, Spot { settled: true, ..self.spot }).await?,
            Standing::Moved(spot) => self.shared.follow(self.shard, spot).await?,
            Standing::Coming => {
                let database = self.shared.database(self.spot.database);
                if self.since.elapsed() >= database.options.patience {
                    let reason = format!("bucket {} is being moved there", self.shard);
                    return Err(StoreError::Unavailable { store: database.name.to_string(), reason });
                }
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).min(Duration::from_millis(100));
            }
        }
        Ok(false)
    }
}

/// Whether an answer may only mean that a run is not in the database that was asked.
pub(crate) trait Doubtful {
    /// Whether it may.
    fn is_doubtful(&self) -> bool;
}

impl<T> Doubtful for Option<T> {
    fn is_doubtful(&self) -> bool {
        self.is_none()
    }
}

impl<T> Doubtful for Vec<T> {
    fn is_doubtful(&self) -> bool {
        self.is_empty()
    }
}

/// Whether something was there.
impl Doubtful for bool {
    fn is_doubtful(&self) -> bool {
        !*self
    }
}

impl Doubtful for Unread {
    fn is_doubtful(&self) -> bool {
        self.messages == 0
    }
}

impl Doubtful for Purged {
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl Doubtful for () {
    fn is_doubtful(&self) -> bool {
        false
    }
}

impl Doubtful for Sent {
    fn is_doubtful(&self) -> bool {
        false
    }
}

impl Doubtful for StoreError {
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::UnknownRun { .. })
    }
}

impl Doubtful for AppendError {
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_doubtful())
    }
}

impl<T: Doubtful, E: Doubtful> Doubtful for Result<T, E> {
    fn is_doubtful(&self) -> bool {
        match self {
            Ok(answer) => answer.is_doubtful(),
            Err(error) => error.is_doubtful(),
        }
    }
}

/// Asks the database of a run, and once more after each move of it: `at!(shared, run, |db| db.load(..))`. Gives what was
/// answered.
macro_rules! at {
    ($shared:expr, $name:expr, |$db:ident| $ask:expr) => {{
        let mut search = $shared.search($name);
        loop {
            let $db = search.database();
            let answer = $ask.await;
            if !$crate::placement::search::Doubtful::is_doubtful(&answer) || search.was_right().await? {
                break answer;
            }
        }
    }};
}
pub(crate) use at;
