//! The databases of a store.
//!
//! Promise: there is at least one, and the first is the home of what belongs to no run. A database that cannot be reached
//! is left out of what workers ask all the time, so that it does not hold up the work in the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use aether_core::store::{Append, StoreError};
use tokio::sync::oneshot;

use crate::database::{Database, ask};
use crate::placement::births::Births;
use crate::placement::leases::Renewals;
use crate::placement::map::{PlacementMap, Spot};
use crate::row::get;
use crate::shard::shard;
use crate::writer::Op;

/// How long a worker waits for one of several databases before it does without it.
pub(crate) const REACH: Duration = Duration::from_secs(2);

/// The databases of a store, and which of them has which run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) map: PlacementMap,
    /// The runs that are being created.
    pub(crate) births: Births,
    databases: Vec<Arc<Database>>,
    names: Vec<String>,
    pub(crate) renewals: Mutex<Renewals>,
    turn: AtomicUsize,
}

/// How a database finds the others of its store.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Its own number.
    pub(crate) number: usize,
    pub(crate) shared: Weak<Shared>,
}

/// What a database knows of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has it.
    Here,
    /// It will have it: it is on its way.
    Coming,
    /// It had it.
    Moved(Spot),
}

impl Shared {
    /// A store of one database.
    pub(crate) fn one(database: Arc<Database>) -> Arc<Self> {
        Arc::new(Self::new(vec![(String::new(), database)]))
    }

    /// A store of several, by their names.
    pub(crate) fn several(databases: Vec<(String, Arc<Database>)>) -> Arc<Self> {
        let shared = Arc::new(Self::new(databases));
        for (number, database) in shared.databases.iter().enumerate() {
            let peers = Peers { number, shared: Arc::downgrade(&shared) };
            let _set_once = database.peers.set(peers);
        }
        shared
    }

    fn new(databases: Vec<(String, Arc<Database>)>) -> Self {
        let (names, databases) = databases.into_iter().unzip();
        let (map, renewals, turn) = (PlacementMap::first(), Mutex::default(), AtomicUsize::new(0));
        Self { map, births: Births::default(), databases, names, renewals, turn }
    }

    /// Whether there is more than one database.
    pub(crate) fn is_sharded(&self) -> bool {
        self.databases.len() > 1
    }

    /// The database of this number.
    pub(crate) fn database(&self, number: usize) -> &Arc<Database> {
        // There is at least one, and the map names none that is not there.
        &self.databases[number.min(self.databases.len().saturating_sub(1))]
    }

    /// The database that has what is placed by `name`, as far as is known.
    pub(crate) fn of(&self, name: &str) -> &Arc<Database> {
        self.database(self.map.spot(shard(name)).database)
    }

    /// The database of what belongs to no run.
    pub(crate) fn home(&self) -> &Arc<Database> {
        self.database(0)
    }

    /// Every database.
    pub(crate) fn all(&self) -> &[Arc<Database>] {
        &self.databases
    }

    /// Every database, beginning with another one each time.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (usize, &Arc<Database>)> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.databases.len().max(1);
        let numbered = || self.databases.iter().enumerate();
        numbered().skip(first).chain(numbered().take(first))
    }

    /// The name of a database.
    pub(crate) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// The number of a database.
    ///
    /// # Errors
    /// Where this process was not told of it.
    pub(crate) fn number(&self, name: &str) -> Result<usize, StoreError> {
        self.names.iter().position(|known| known == name).ok_or_else(|| StoreError::Unavailable {
            store: self.home().name.to_string(),
            reason: format!(
                "some of its runs are in the database `{name}`, which this process was not told of: name it in \
                 PostgresStore::connect_all"
            ),
        })
    }

    /// Queues an append.
    pub(crate) fn append(&self, append: Append) {
        let of = shard(append.run.as_str());
        self.map.with(of, |spot| self.database(spot.database).append(append));
    }

    /// What the database of `spot` knows of some buckets that the map says are there.
    pub(crate) async fn standing(&self, spot: Spot, shard: i16) -> Result<Standing, StoreError> {
        let database = self.database(spot.database);
        let found = ask!(database, |conn| {
            let rows = conn.query(BUCKETS, &[&[shard].as_slice()]).await?;
            rows.iter().map(Bucket::read).collect::<Result<Vec<_>, _>>()
        })?;
        self.judge(spot, found.first())
    }

    /// What a row of `buckets` means where the map names its database.
    pub(crate) fn judge(&self, spot: Spot, found: Option<&Bucket>) -> Result<Standing, StoreError> {
        Ok(match found {
            None => Standing::Here,
            Some(row) if row.version < spot.version => Standing::Coming,
            Some(Bucket { away: true, elsewhere: Some(name), version, .. }) => {
                Standing::Moved(Spot { database: self.number(name)?, version: *version, settled: false })
            }
            Some(Bucket { away: true, elsewhere: None, .. }) => Standing::Coming,
            // It was away meanwhile, and has come back.
            Some(row) if row.version > spot.version => {
                Standing::Moved(Spot { database: spot.database, version: row.version, settled: true })
            }
            Some(_) => Standing::Here,
        })
    }

    /// A bucket is at another spot: what is queued for the former one is sent on, and what is queued from now on goes there.
    /// Returns once that is so.
    pub(crate) async fn follow(&self, shard: i16, spot: Spot) -> Result<(), StoreError> {
        loop {
            let known = self.map.spot(shard);
            if known.version >= spot.version
                && (known.settled || !spot.settled || known.version > spot.version)
            {
                return Ok(());
            }
            if known.database == spot.database {
                self.map.hold().set(shard, spot);
                continue;
            }
            let (reply, done) = oneshot::channel();
            let former = self.database(known.database);
            let queued = former
                .writers
                .get()
                .is_some_and(|writers| writers.send_of(shard, Op::Moved(shard, spot, reply)).is_ok());
            if !queued || done.await.is_err() {
                return Err(crate::error::gone(&former.name));
            }
        }
    }
}

/// Rows of `buckets`, by their shards.
const BUCKETS: &str = "SELECT shard, version, away, elsewhere FROM buckets WHERE shard = ANY($1::int2[])";

/// A row of `buckets`.
#[derive(Debug)]
pub(crate) struct Bucket {
    version: i64,
    away: bool,
    elsewhere: Option<String>,
}

impl Bucket {
    /// Reads a row that begins as those of [`BUCKETS`].
    pub(crate) fn read(row: &tokio_postgres::Row) -> Result<Self, crate::error::OpError> {
        Ok(Self { version: get(row, 1)?, away: get(row, 2)?, elsewhere: get(row, 3)? })
    }
}
