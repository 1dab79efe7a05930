//! How a store behaves.

use std::time::Duration;

/// How a [`PostgresStore`](crate::PostgresStore) behaves. The defaults suit one Postgres that the workers reach directly.
///
/// ```
/// # use std::time::Duration;
/// use aether_postgres::PostgresOptions;
/// let options = PostgresOptions::new().application_name("shop").schema("shop_agents").connections(4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) application_name: String,
    pub(crate) schema: String,
    pub(crate) writers: usize,
    pub(crate) connections: usize,
    pub(crate) transactions: usize,
    pub(crate) batch: usize,
    pub(crate) linger: Duration,
    pub(crate) patience: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) pooler: bool,
    pub(crate) portable: bool,
    pub(crate) migrate: bool,
    pub(crate) arrays_only: bool,
}

/// The server counts milliseconds in 32 bits.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);
/// No instant is much longer away than that where somebody says `Duration::MAX`.
const LONGEST_LINGER: Duration = Duration::from_secs(60);

/// A time as the server can be told it. Zero is for ever there, so that what is shorter than its unit is one.
pub(crate) fn told(time: Duration) -> Duration {
    if time.is_zero() { time } else { time.clamp(Duration::from_millis(1), LONGEST_WAIT) }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            application_name: "aether".into(),
            schema: "aether".into(),
            writers: 1,
            connections: 4,
            transactions: 4,
            batch: 2000,
            linger: Duration::from_millis(2),
            patience: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            pooler: false,
            portable: false,
            migrate: true,
            arrays_only: false,
        }
    }
}

impl PostgresOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the server lists the connections as, unless the connection string says it. Default: `aether`.
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// The schema that holds the tables; created where it is missing. Default: `aether`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// How many connections write appends; a run's appends all go through one. One is best below about 256 appends in
    /// flight; more need more cores. Default: 1.
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers.clamp(1, 64);
        self
    }

    /// The most connections for everything but appends and transaction steps. While all are in use, leases are renewed on up
    /// to two more. Default: 4.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 1024);
        self
    }

    /// How many bodies of transaction steps run at the same time, each on a connection of its own; the others wait. Default: 4.
    pub fn transactions(mut self, transactions: usize) -> Self {
        self.transactions = transactions.clamp(1, 1024);
        self
    }

    /// At most so many appends in one transaction. Default: 2000.
    pub fn batch(mut self, appends: usize) -> Self {
        self.batch = appends.clamp(1, 20_000);
        self
    }

    /// How long a batch that no caller waits for stays open for more, at most a minute. Default: 2 ms.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time.min(LONGEST_LINGER);
        self
    }

    /// How long a call waits for a free connection, and for a server that cannot be reached or refuses for the moment, before
    /// it fails. What the server works on by then is waited for. Appends and outcomes of bodies never fail for that: they are
    /// kept. Default: 10 s.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// After how long the server ends a statement, which is then tried again, at most 24 days; zero for never. A request of the store's own
    /// that has no answer 10 s later loses its connection: the server is frozen. Default: 30 s.
    pub fn statement_timeout(mut self, time: Duration) -> Self {
        self.statement_timeout = told(time);
        self
    }

    /// How long a statement waits for a row that another transaction has locked, before it is tried again, at most 24 days;
    /// zero for ever.
    /// Default: 5 s.
    pub fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = told(time);
        self
    }

    /// Whether a pooler that gives each transaction another connection stands between store and server (PgBouncer in
    /// transaction mode): no statement is prepared, and settings are made in each transaction. Default: `false`.
    pub fn pooler(mut self, pooler: bool) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether the server only speaks the protocol and language of Postgres, and may lack what is Postgres' own: rows are
    /// claimed without `SKIP LOCKED`, storage parameters and planner settings are left out. Default: `false`.
    pub fn portable(mut self, portable: bool) -> Self {
        self.portable = portable;
        self
    }

    /// Whether small batches are sent as large ones are. For tests, whose batches are small. Default: `false`.
    #[doc(hidden)]
    pub fn arrays_only(mut self, arrays_only: bool) -> Self {
        self.arrays_only = arrays_only;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_told_times_that_it_knows() {
        let cases = [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(30), 30_000),
            (Duration::from_secs(1 << 40), i32::MAX as u128),
            (Duration::MAX, i32::MAX as u128),
        ];
        for (time, told) in cases {
            let options = PostgresOptions::new().statement_timeout(time).lock_timeout(time);
            assert_eq!(options.statement_timeout.as_millis(), told, "{time:?}");
            assert_eq!(options.lock_timeout.as_millis(), told, "{time:?}");
        }
        assert_eq!(PostgresOptions::new().linger(Duration::MAX).linger, LONGEST_LINGER);
    }
}
