//! A Postgres that is stopped as by a crash, and started again, and how the workers reach it. In half of the runs it also
//! cuts connections all the time, also while the runs come to their ends.
//!
//! Promise: the judge reads it directly, and not as the workers do.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::store::{RunFilter, Store};
use aether::view::Status;
use aether_pg_tests::{Cluster, PgBouncer, Stop};
use aether_postgres::{PostgresOptions, PostgresStore};
use fastrand::Rng;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::faults::Fault;
use super::home::{Home, Messages};
use crate::postgres::way::Way;

/// How long the driver waits for a look at the store; while the server is down it does without.
const LOOK: Duration = Duration::from_millis(200);

/// So often some connections of the workers are cut: about one in twenty each time, wherever they stand.
const CUTS: Duration = Duration::from_millis(100);
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND application_name <> '' AND random() < 0.05";

/// For so long notices of runs that have ended may be on their way.
const NOTICED: Duration = Duration::from_secs(120);

/// Frames that do not follow the one before them: a number or a position is left out, the epoch falls, or the run had ended.
const STRAY: &str = "SELECT count(*), min(run) FROM (SELECT run, frame, position, epoch, lag(frame) OVER w AS frame_before,
        lag(position + count) OVER w AS end_before, lag(epoch) OVER w AS epoch_before, lag(final) OVER w AS final_before
    FROM aether.journal WINDOW w AS (PARTITION BY shard, run ORDER BY frame)) f
WHERE frame_before IS NOT NULL
    AND (frame <> frame_before + 1 OR position <> end_before OR epoch < epoch_before OR final_before)";

/// How the workers reach the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    way: Way,
    writers: usize,
}

impl Reach {
    /// What the seed says; an `AETHER_STORE` on Postgres outweighs it.
    fn drawn(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed.rotate_left(32));
        let (writers, way) = (rng.usize(1..=3), rng.usize(..4));
        let drawn = [Way::Plain, Way::Plain, Way::Portable, Way::Pooler][way];
        let is_chosen = std::env::var("AETHER_STORE").is_ok_and(|name| name.starts_with("postgres"));
        let way = if is_chosen { Way::chosen() } else { drawn };
        Self { way, writers }
    }

    /// Reads an address of [`Server`]; `None` for another one.
    pub(super) fn read(address: &str) -> Option<(Self, &str)> {
        let [way, writers, url] = address.split('|').collect::<Vec<_>>().try_into().ok()?;
        let way = Way::ALL.into_iter().find(|known| format!("{known:?}") == way);
        Some((Self { way: way?, writers: writers.parse().ok()? }, url))
    }

    pub(super) fn options(self) -> PostgresOptions {
        self.way.options().writers(self.writers)
    }
}

/// A cluster whose commits wait for the disk.
pub(super) struct Server {
    reach: Reach,
    pooler: Option<PgBouncer>,
    cluster: Cluster,
    runtime: Runtime,
    store: Arc<PostgresStore>,
    restarts: usize,
    cuts: bool,
}

impl Server {
    pub(super) fn begin(seed: u64) -> Self {
        let reach = Reach::drawn(seed);
        let cluster = Cluster::begin(Cluster::options().durable());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        if reach.way == Way::Portable {
            let serializable = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'";
            runtime.block_on(cluster.sql(&[serializable.to_owned()]));
        }
        let options = if reach.way == Way::Portable { reach.options() } else { PostgresOptions::new() };
        let url = cluster.url("postgres");
        let store = Arc::new(runtime.block_on(PostgresStore::connect_with(&url, options)).unwrap());
        let pooler = (reach.way == Way::Pooler).then(|| PgBouncer::before(&cluster, 20));
        let cuts = Rng::with_seed(seed.rotate_left(16)).bool();
        if cuts {
            runtime.spawn(cut_connections(url));
        }
        Self { reach, pooler, cluster, runtime, store, restarts: 0, cuts }
    }

    /// A connection of the judge's own.
    async fn client(&self) -> Client {
        let url = self.cluster.url("postgres");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// What is wrong with journals, or left behind.
    async fn wrong_rows(&self) -> Option<String> {
        let client = self.client().await;
        let stray = client.query_one(STRAY, &[]).await.unwrap();
        if stray.get::<_, i64>(0) > 0 {
            let (frames, run): (i64, Option<String>) = (stray.get(0), stray.get(1));
            return Some(format!("{frames} frames do not follow those before them, the first of {run:?}"));
        }
        let until = Instant::now() + NOTICED;
        loop {
            let left =
                client.query_one("SELECT count(*), min(child) FROM aether.notices", &[]).await.unwrap();
            let (notices, child): (i64, Option<String>) = (left.get(0), left.get(1));
            if notices == 0 {
                return None;
            }
            if Instant::now() > until {
                return Some(format!("{notices} notices to parents are left, the first of {child:?}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Cuts connections for as long as the runtime is there.
async fn cut_connections(url: String) {
    loop {
        tokio::time::sleep(CUTS).await;
        // While the server is away there is nothing to cut.
        let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await else {
            continue;
        };
        tokio::spawn(connection);
        while client.query(CUT, &[]).await.is_ok() {
            tokio::time::sleep(CUTS).await;
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.reach.way {
            Way::Plain => "directly",
            Way::Portable => "in portable mode, every transaction serializable,",
            Way::Pooler => "through PgBouncer",
        };
        let cuts = if self.cuts { " and cuts connections" } else { "" };
        write!(f, "one Postgres that crashes{cuts}, reached {way} by {} writers each", self.reach.writers)
    }
}

impl Home for Server {
    fn address(&self) -> String {
        let url = match &self.pooler {
            Some(pooler) => pooler.url("postgres"),
            None => self.cluster.url("postgres"),
        };
        format!("{:?}|{}|{url}", self.reach.way, self.reach.writers)
    }

    fn cards(&self) -> &'static [(Fault, usize)] {
        use Fault::{Kill, Leap, Pause, Quiet, Shutdown};
        &[(Kill, 4), (Pause, 3), (Shutdown, 3), (Leap, 1), (Quiet, 1)]
    }

    fn open_runs(&mut self) -> Option<u32> {
        let mut open = RunFilter::new();
        for status in [Status::Pending, Status::Running, Status::Waiting] {
            open = open.status(status);
        }
        let look = async { tokio::time::timeout(LOOK, self.store.count(open)).await };
        let open = self.runtime.block_on(look).ok()?.ok()?;
        u32::try_from(open).ok()
    }

    fn begin(&mut self, fault: Fault) -> bool {
        assert_eq!(fault, Fault::Restart, "it does not happen to a server");
        self.cluster.stop(Stop::Immediate);
        true
    }

    fn end(&mut self, _restart: Fault) -> bool {
        self.cluster.start();
        // PgBouncer outlives one restart, and is killed in the next one.
        self.restarts += 1;
        if let Some(pooler) = self.pooler.as_ref().filter(|_| self.restarts.is_multiple_of(2)) {
            pooler.restart();
        }
        true
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn messages(&self) -> Messages {
        self.runtime.block_on(async {
            let client = self.client().await;
            let rows = client.query("SELECT run, id, topic, consumed FROM aether.inbox", &[]).await.unwrap();
            rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect()
        })
    }

    fn damage(&self) -> Option<String> {
        let log = self.cluster.log();
        let panics: Vec<&str> = log.lines().filter(|line| line.contains("PANIC:")).collect();
        if !panics.is_empty() {
            return Some(panics.join("\n"));
        }
        // The judge may be in a runtime of its own.
        std::thread::scope(|scope| scope.spawn(|| self.runtime.block_on(self.wrong_rows())).join().unwrap())
    }

    fn sees_paused(&self) -> bool {
        // A worker that is paused before it renews on a new connection is not seen.
        self.reach.way == Way::Plain && !self.cuts
    }

    fn keep(&self, folder: &Path) {
        let dump = std::fs::File::create(folder.join("store.sql")).unwrap();
        let url = self.cluster.url("postgres");
        let own = self.cluster.bin().join("pg_dump");
        let program = if own.exists() { own } else { "pg_dump".into() };
        let dumped = Command::new(program).arg(url).stdout(dump).status();
        println!("the database is in {}: {dumped:?}", folder.display());
        std::fs::write(folder.join("server-log"), self.cluster.log()).unwrap();
    }
}
