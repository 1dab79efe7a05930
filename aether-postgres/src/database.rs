//! One Postgres database: its connections, and how a request is tried again.
//!
//! Promise: a request that the server refused for the moment, that lost to another transaction, or whose answer was lost with
//! its connection, is made again for as long as the options say. So every request is one that may be carried out twice, or
//! that finds what it wrote before (`LostAnswer`). A connection that broke is replaced.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use aether_core::measures::BatchCounter;
use aether_core::store::{Durability, StoreClock as _, StoreError};
use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_postgres::Error;
use tokio_postgres::config::Host;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::claimed::Claims;
use crate::clock::{LastPlace, PlaceClock};
use crate::connection::Connection;
use crate::error::{Failure, OpError, failure, gone, is_distrust, said, translate};
use crate::inbox::Doors;
use crate::network::{self, Thread};
use crate::options::PostgresOptions;
use crate::placement::leases::Reach;
use crate::placement::shared::Peers;
use crate::silence::Silence;
use crate::work::connection::StepConnections;
use crate::work::lanes::Lanes;
use crate::workers::Present;
use crate::writer::{Heads, Writers};
use crate::{row, schema, tls};

/// One database of a store.
pub(crate) struct Database {
    /// Kind and place, for messages.
    pub(crate) name: Arc<str>,
    /// Gives places in the order of creation.
    pub(crate) clock: Arc<PlaceClock>,
    /// Where the journals end that this process appends to.
    pub(crate) heads: Heads,
    /// What the writers have written.
    pub(crate) batches: BatchCounter,
    /// How many batches were sent while another one was at the server.
    #[cfg(test)]
    pub(crate) sent_behind: std::sync::atomic::AtomicU64,
    /// What this process knows of its claims.
    pub(crate) claims: Claims,
    /// The workers of this process, and when they were last said to be there.
    pub(crate) present: Present,
    /// Sends of one process to one run come one after the other.
    pub(crate) doors: Doors,
    pub(crate) options: PostgresOptions,
    pub(crate) writers: OnceLock<Writers>,
    /// Starts of this process that are counted by a limit take turns here.
    pub(crate) admission: tokio::sync::Mutex<()>,
    /// Decided starts of this process whose runs are to be here, and whose decisions are in another database, take turns.
    pub(crate) deciding: Semaphore,
    /// Woken when there may be a notice to deliver.
    pub(crate) notices: Notify,
    /// Runs whose appends wait for a transaction step.
    pub(crate) lanes: Lanes,
    /// Connections of transaction steps.
    pub(crate) steps: StepConnections,
    /// The other databases of the store, where there are some.
    pub(crate) peers: OnceLock<Peers>,
    /// Whether it is worth asking while others can be asked as well.
    pub(crate) reach: Reach,
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    pooler: AtomicBool,
    fsync: AtomicBool,
    closed: AtomicBool,
    permits: Semaphore,
    /// For renewals alone: what waits for locks must not let a lease expire.
    urgent: Semaphore,
    idle: Mutex<Vec<Arc<Connection>>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the configuration: it holds the password.
        f.debug_struct("Database")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A connection of the pool; returned when dropped.
#[derive(Debug)]
pub(crate) struct Pooled<'d> {
    database: &'d Database,
    conn: Arc<Connection>,
    _permit: SemaphorePermit<'d>,
}

impl std::ops::Deref for Pooled<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if self.conn.is_sound() && !self.database.is_closed() {
            let mut idle = self.database.idle.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of renewals, made while all were in use, are not kept beside them.
            if idle.len() < self.database.options.connections {
                idle.push(self.conn.clone());
            }
        }
    }
}

/// How long a statement of a writer waits for a lock, unless the options say less.
const WRITERS_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// The server's clock, in microseconds since 1970.
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
/// A round trip of more microseconds is not used to follow the server's clock.
const QUICK: i64 = 100_000;

impl Database {
    /// Connects, and brings the tables up to date.
    pub(crate) async fn open(url: &str, options: PostgresOptions) -> Result<Arc<Self>, StoreError> {
        Self::open_beside(url, options, LastPlace::default()).await
    }

    /// As [`Database::open`], for a store of several databases: each has a clone of `places`.
    pub(crate) async fn open_beside(
        url: &str,
        options: PostgresOptions,
        places: LastPlace,
    ) -> Result<Arc<Self>, StoreError> {
        let no = |reason| StoreError::Open { store: "postgres".into(), reason };
        let (mut config, tls) = tls::split(url).map_err(no)?;
        let tls = tls.connector().map_err(no)?;
        complete(&mut config, &options);
        let database = Arc::new(Self {
            name: describe(&config, &options).into(),
            clock: Arc::new(PlaceClock::new(places)),
            heads: Heads::default(),
            batches: BatchCounter::default(),
            #[cfg(test)]
            sent_behind: Default::default(),
            claims: Claims::default(),
            present: Present::default(),
            doors: Doors::default(),
            writers: OnceLock::new(),
            admission: tokio::sync::Mutex::default(),
            deciding: Semaphore::new(1),
            notices: Notify::new(),
            lanes: Lanes::default(),
            steps: StepConnections::new(options.transactions),
            peers: OnceLock::new(),
            reach: Reach::default(),
            pooler: AtomicBool::new(options.pooler),
            fsync: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            permits: Semaphore::new(options.connections),
            urgent: Semaphore::new(2),
            idle: Mutex::default(),
            config,
            tls,
            options,
        });
        database.prepare().await.map_err(|error| match error {
            StoreError::Unavailable { store, reason } => StoreError::Open { store, reason },
            other => other,
        })?;
        Ok(database)
    }

    async fn prepare(self: &Arc<Self>) -> Result<(), StoreError> {
        ask!(at self.asking_first(), |conn| self.look_at_server(conn).await)?;
        ask!(self, |conn| schema::migrate(conn, &self.name, &self.options).await)?;
        ask!(self, |conn| self.set_clock(conn).await)?;
        Writers::start(self).await
    }

    /// Refuses a database that cannot hold every text, and learns what an acknowledged append survives.
    async fn look_at_server(&self, conn: &Connection) -> Result<(), OpError> {
        let sql = "SELECT current_setting('server_encoding'), coalesce(current_setting('fsync', true), 'on')";
        let Ok(rows) = conn.query(sql, &[]).await else { return Ok(()) };
        let Some(found) = rows.first() else { return Ok(()) };
        let (encoding, fsync): (String, String) = (row::get(found, 0)?, row::get(found, 1)?);
        self.fsync.store(fsync != "off", Ordering::Relaxed);
        if !encoding.eq_ignore_ascii_case("UTF8") {
            let reason = format!("the database has the encoding {encoding}: create one with ENCODING 'UTF8'");
            return Err(StoreError::Open { store: self.name.to_string(), reason }.into());
        }
        Ok(())
    }

    /// Compares the clocks by the quickest of some round trips, and lets places follow those that are given.
    pub(crate) async fn set_clock(&self, conn: &Connection) -> Result<(), OpError> {
        conn.prepare(CLOCK).await?;
        let mut best: Option<(i64, i64, i64)> = None;
        for _ in 0..5 {
            let Some(sample) = self.sample_clock(conn).await? else { continue };
            best = Some(best.map_or(sample, |best| best.min(sample)));
        }
        if let Some((_, server, elapsed)) = best {
            self.clock.set(server, elapsed);
        }
        for sql in ["SELECT max(place) FROM runs", "SELECT max(place) FROM waits"] {
            if let Some(found) = conn.query_opt(sql, &[]).await?
                && let Some(place) = row::get::<Option<i64>>(&found, 0)?
            {
                self.clock.pass(row::nat(place, "place")?);
            }
        }
        Ok(())
    }

    /// How long a round trip took, what the server's clock said in it, and what this process's said in its middle.
    async fn sample_clock(&self, conn: &Connection) -> Result<Option<(i64, i64, i64)>, OpError> {
        let before = self.clock.elapsed();
        let rows = conn.query(CLOCK, &[]).await?;
        let trip = self.clock.elapsed() - before;
        let sample = |server| Ok::<_, OpError>((trip, row::get(server, 0)?, before + trip / 2));
        rows.first().map(sample).transpose()
    }

    /// Follows the server's clock, which drifts apart from this machine's and may be set; called at least four times in each
    /// lease, whether or not a worker holds runs. A slow round trip says little.
    pub(crate) async fn follow_clock(&self, conn: &Connection) -> Result<(), OpError> {
        let Some((trip, server, elapsed)) = self.sample_clock(conn).await? else { return Ok(()) };
        // A slow one still says so where the clocks differ by more than it may be wrong: the machine was suspended.
        if trip <= QUICK || self.clock.error_at(server, elapsed) > trip {
            self.clock.set(server, elapsed);
        }
        Ok(())
    }

    /// What an acknowledged append survives.
    pub(crate) fn durability(&self) -> Durability {
        if self.fsync.load(Ordering::Relaxed) { Durability::PowerLoss } else { Durability::ProcessCrash }
    }

    /// Opens a connection of its own.
    pub(crate) async fn connect(&self) -> Result<Connection, OpError> {
        self.connect_as(&self.options, network::runtime()).await
    }

    /// Opens a connection for the writer on a thread. A statement of it has the appends of many runs: it does not wait long
    /// for one lock.
    pub(crate) async fn connect_writer(&self, thread: &Thread) -> Result<Connection, OpError> {
        let lock_timeout = self.options.lock_timeout.min(WRITERS_LOCK_TIMEOUT);
        self.connect_as(&self.options.clone().lock_timeout(lock_timeout), thread.runtime()).await
    }

    async fn connect_as(&self, options: &PostgresOptions, runtime: Handle) -> Result<Connection, OpError> {
        let session = self.session(Silence::limit(options.statement_timeout), runtime).await?;
        Connection::new(session, options, self.has_pooler()).await
    }

    /// Opens a connection with the settings that role and database have. Its requests wait for ever.
    pub(crate) async fn connect_bare(&self) -> Result<tokio_postgres::Client, OpError> {
        Ok(self.session(None, network::runtime()).await?.0)
    }

    /// Begins a session, driven by `runtime`, which ends when a request is not answered for as long as `limit`.
    async fn session(
        &self,
        limit: Option<Duration>,
        runtime: Handle,
    ) -> Result<(tokio_postgres::Client, Arc<Silence>), OpError> {
        let (config, tls, name) = (self.config.clone(), self.tls.clone(), self.name.clone());
        let connecting = runtime.spawn(async move {
            let connected = timeout(Silence::connect_limit(&config), config.connect(tls)).await;
            // The driver's own word for it: it is tried again like every lost connection.
            let (client, connection) = connected.unwrap_or_else(|_| Err(Error::__private_api_timeout()))?;
            let silence = Arc::new(Silence::default());
            let silent = Arc::clone(&silence).lasts(limit);
            tokio::spawn(async move {
                match select(connection, Box::pin(silent)).await {
                    Either::Left((Ok(()), _)) => {}
                    Either::Left((Err(error), _)) => {
                        tracing::debug!(store = %name, error = %said(&error), "a connection has ended");
                    }
                    // Dropped here, it answers every request with an error.
                    Either::Right(_) => {
                        tracing::warn!(store = %name, ?limit, "a connection is given up: the server answers nothing");
                    }
                }
            });
            Ok::<_, Error>((client, silence))
        });
        let unanswered = |error: JoinError| StoreError::Unavailable {
            store: self.name.to_string(),
            reason: format!("a connection could not be made: {error}"),
        };
        Ok(connecting.await.map_err(unanswered)??)
    }

    /// Whether a pooler gives each transaction another connection.
    pub(crate) fn has_pooler(&self) -> bool {
        self.pooler.load(Ordering::Relaxed)
    }

    /// From now on statements are not prepared: a pooler stands in between.
    pub(crate) fn expect_pooler(&self, error: &tokio_postgres::Error) {
        if !self.pooler.swap(true, Ordering::Relaxed) {
            let error = translate(error, &self.name);
            tracing::warn!(%error, "statements are sent unprepared from now on, which is slower");
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A request that is about to be made; see [`ask!`].
    pub(crate) fn asking(&self) -> Asking<'_> {
        let tries = Tries::new(self.options.patience);
        Asking { database: self, permits: &self.permits, tries, is_first: false }
    }

    /// As [`Database::asking`], for the first request: one that fails because of the connection string is not made again.
    fn asking_first(&self) -> Asking<'_> {
        Asking { is_first: true, ..self.asking() }
    }

    /// As [`Database::asking`], for what a lease depends on: beside the limit of connections, and without pauses in which a
    /// good part of the lease would pass after the server is back.
    pub(crate) fn asking_at_once(&self, lease: Duration) -> Asking<'_> {
        let longest = (lease / 8).clamp(Duration::from_millis(20), LONGEST_PAUSE);
        let tries = Tries { longest, ..Tries::new(self.options.patience) };
        Asking { permits: &self.urgent, tries, ..self.asking() }
    }

    /// As [`Database::asking`], on a connection beside those of the pool, of which `permits` allows some.
    pub(crate) fn asking_beside<'d>(&'d self, permits: &'d Semaphore) -> Asking<'d> {
        Asking { permits, ..self.asking() }
    }

    /// A connection that nobody uses, or a new one, perhaps to a server that was away and has another time now.
    async fn pooled<'d>(
        &'d self,
        permit: SemaphorePermit<'d>,
        time: Duration,
    ) -> Result<Pooled<'d>, OpError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let known = std::iter::from_fn(idle).find(|conn| conn.is_sound());
        let conn = match known {
            Some(conn) => conn,
            None => {
                let connected = timeout(time, self.connect()).await;
                let conn = connected.unwrap_or_else(|_| Err(Error::__private_api_timeout().into()))?;
                if self.clock.now().is_some() {
                    self.follow_clock(&conn).await?;
                }
                Arc::new(conn)
            }
        };
        Ok(Pooled { database: self, conn, _permit: permit })
    }

    /// Whether the store was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes every connection; requests fail from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.permits.close();
        self.urgent.close();
        self.deciding.close();
        self.steps.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A connection cannot be used again.
    pub(crate) fn unusable(&self) -> StoreError {
        let reason = "its connection was closed".into();
        StoreError::Unavailable { store: self.name.to_string(), reason }
    }

    /// What is damaged, and where.
    pub(crate) fn corrupt(&self, reason: String) -> StoreError {
        StoreError::Corrupt { store: self.name.to_string(), reason }
    }
}

/// A request while it is made, and made again.
#[derive(Debug)]
pub(crate) struct Asking<'d> {
    database: &'d Database,
    permits: &'d Semaphore,
    tries: Tries,
    is_first: bool,
}

impl<'d> Asking<'d> {
    /// A connection for the next try.
    pub(crate) async fn connection(&mut self) -> Result<Pooled<'d>, OpError> {
        let database = self.database;
        if database.is_closed() {
            return Err(gone(&database.name).into());
        }
        let permit = self.waits_for("connection", self.permits.acquire()).await?;
        let permit = permit.map_err(|_| gone(&database.name))?;
        database.pooled(permit, self.tries.left()).await
    }

    /// Waits for something of this process that others have, for no longer than the patience lasts.
    pub(crate) async fn waits_for<T>(
        &self,
        what: &str,
        free: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        timeout(self.tries.left(), free).await.map_err(|_| StoreError::Unavailable {
            store: self.database.name.to_string(),
            reason: format!("no {what} became free in {:.1?}", self.tries.since.elapsed()),
        })
    }

    /// The last try failed: waits for the next one.
    ///
    /// # Errors
    /// What the caller is told, when there is no next one.
    pub(crate) async fn failed(&mut self, error: OpError) -> Result<(), StoreError> {
        let store = &self.database.name;
        let OpError::Driver(error) = error else { return Err(error.into_store_error(store)) };
        let failure = failure(&error);
        let again = match failure {
            Failure::Conflict | Failure::Slow | Failure::Moment => true,
            Failure::Lost => !(self.is_first && is_distrust(&error)),
            Failure::Pooler => {
                self.database.expect_pooler(&error);
                true
            }
            Failure::Data | Failure::Final => false,
        };
        if again && self.tries.pause(failure).await { Ok(()) } else { Err(translate(&error, store)) }
    }
}

/// Makes a request on a connection of a database's pool, again and again while the error passes, for as long as the options
/// say: `ask!(database, |conn| { .. Ok(answer) })`. The block may use `?` on an [`OpError`]; it gives
/// `Result<T, StoreError>`.
macro_rules! ask {
    ($database:expr, |$conn:ident| $body:expr) => {
        $crate::database::ask!(at $database.asking(), |$conn| $body)
    };
    (at $asking:expr, |$conn:ident| $body:expr) => {{
        let mut asking = $asking;
        loop {
            let answer: Result<_, $crate::error::OpError> = match asking.connection().await {
                Ok(pooled) => {
                    let $conn: &$crate::connection::Connection = &pooled;
                    async { $body }.await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => break Ok(answer),
                Err(error) => {
                    if let Err(error) = asking.failed(error).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}
pub(crate) use ask;

/// The pauses between tries: short after a conflict, longer and longer while the server does not answer.
#[derive(Debug)]
pub(crate) struct Tries {
    since: Instant,
    patience: Duration,
    pause: Duration,
    longest: Duration,
    conflicts: u32,
    /// How often the pause after a conflict is doubled when conflicts do not end.
    doubled: u32,
}

/// How long a try waits for a connection at least.
const ONE_TRY: Duration = Duration::from_secs(1);
/// So many conflicts are no chance any more.
const MANY_CONFLICTS: u32 = 20;
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Tries {
    pub(crate) fn new(patience: Duration) -> Self {
        let pause = Duration::from_millis(20);
        Self { since: Instant::now(), patience, pause, longest: LONGEST_PAUSE, conflicts: 0, doubled: 0 }
    }

    /// For what is tried until it works: a conflict that does not end is waited for longer and longer, up to two seconds.
    pub(crate) fn without_end() -> Self {
        Self { doubled: 5, ..Self::new(Duration::MAX) }
    }

    /// What is left of the patience. Each try has some time, also where there is no other one.
    fn left(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed()).max(ONE_TRY)
    }

    /// Waits before the next try; `false` when the patience is at its end.
    pub(crate) async fn pause(&mut self, failure: Failure) -> bool {
        if self.since.elapsed() >= self.patience {
            return false;
        }
        tokio::time::sleep(self.next(failure)).await;
        true
    }

    /// The next pause.
    pub(crate) fn next(&mut self, failure: Failure) -> Duration {
        if matches!(failure, Failure::Conflict | Failure::Slow | Failure::Pooler) {
            self.conflicts = self.conflicts.saturating_add(1);
            let more = self.conflicts.saturating_sub(MANY_CONFLICTS).min(self.doubled);
            let steps = self.conflicts.saturating_sub(1).min(6) + more;
            return jittered(Duration::from_millis(1 << steps)).mul_f64(f64::from(u8::from(steps > 0)));
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(self.longest);
        jittered(pause)
    }
}

/// Between half of a time and all of it: a hundred workers that lost their server do not come back at once.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0);
    time.mul_f64(0.5 + 0.5 * (random >> 11) as f64 / (1_u64 << 53) as f64)
}

/// What a connection string leaves open.
fn complete(config: &mut tokio_postgres::Config, options: &PostgresOptions) {
    if config.get_application_name().is_none() {
        config.application_name(&options.application_name);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    // A server whose machine is gone says nothing: without this, a connection to it would hang for hours.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
    config.keepalives_idle(Duration::from_secs(20));
    // A standby can be read, but lags behind. Of several hosts one may be one, and so may be what a single name leads to
    // after a failover. To ask costs a round trip for each connection. Behind a pooler the answer would hold for one
    // transaction, and wait for a free session; a server that is only compatible may not understand the question.
    let is_alone = config.get_hosts().len() < 2;
    let cannot_ask = is_alone && (options.pooler || options.portable);
    if !cannot_ask && config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

/// Kind and place of a database; never its password.
fn describe(config: &tokio_postgres::Config, options: &PostgresOptions) -> String {
    let ports = config.get_ports();
    let host = |(at, host): (usize, &Host)| {
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    };
    let hosts: Vec<_> = config.get_hosts().iter().enumerate().map(host).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres {}/{database} (schema {})", hosts.join(","), options.schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_described_without_its_password() {
        let (config, _) = tls::split("postgres://ann:secret@db-1:5433,db-2:5434/shop").unwrap();
        let text = describe(&config, &PostgresOptions::new());
        assert_eq!(text, "postgres db-1:5433,db-2:5434/shop (schema aether)");
    }

    #[test]
    fn a_server_that_takes_no_writes_is_not_connected_to_where_that_can_be_asked() {
        let attrs = |url: &str, options: &PostgresOptions| {
            let mut config = tls::split(url).unwrap().0;
            complete(&mut config, options);
            config.get_target_session_attrs()
        };
        let (one, two) = ("postgres://ann@db-1/shop", "postgres://ann@db-1,db-2/shop");
        let plain = PostgresOptions::new();
        assert_eq!(attrs(one, &plain), TargetSessionAttrs::ReadWrite);
        for options in [plain.clone().pooler(true), plain.portable(true)] {
            assert_eq!(attrs(one, &options), TargetSessionAttrs::Any);
            assert_eq!(attrs(two, &options), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn pauses_grow_while_the_server_is_away_and_not_after_a_conflict() {
        let mut tries = Tries::new(Duration::from_secs(1));
        assert_eq!(tries.next(Failure::Conflict), Duration::ZERO);
        let pauses: Vec<_> = (0..8).map(|_| tries.next(Failure::Lost)).collect();
        assert!(pauses[0] <= Duration::from_millis(20) && pauses[7] >= Duration::from_millis(500));
        let mut renewal = Tries { longest: Duration::from_millis(100), ..Tries::new(Duration::from_secs(1)) };
        let pauses: Vec<_> = (0..8).map(|_| renewal.next(Failure::Lost)).collect();
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(100)), "{pauses:?}");
    }
}
