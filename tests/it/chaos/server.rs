//! A Postgres that is stopped as by a crash, and started again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aether::store::{RunFilter, Store};
use aether::view::Status;
use aether_pg_tests::{Cluster, Stop};
use aether_postgres::PostgresStore;
use tokio::runtime::Runtime;

use super::faults::Fault;
use super::home::{Home, Messages};

/// How long the driver waits for a look at the store; while the server is down it does without.
const LOOK: Duration = Duration::from_millis(200);

/// A cluster whose commits wait for the disk.
pub(super) struct Server {
    cluster: Cluster,
    runtime: Runtime,
    store: Arc<PostgresStore>,
}

impl Server {
    pub(super) fn begin() -> Self {
        let cluster = Cluster::begin(Cluster::options().durable());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(PostgresStore::connect(&cluster.url("postgres"))).unwrap();
        Self { cluster, runtime, store: Arc::new(store) }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one Postgres that crashes")
    }
}

impl Home for Server {
    fn address(&self) -> String {
        self.cluster.url("postgres")
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
        true
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn messages(&self) -> Messages {
        self.runtime.block_on(async {
            let url = self.cluster.url("postgres");
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let rows = client.query("SELECT run, id, topic, consumed FROM aether.inbox", &[]).await.unwrap();
            rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect()
        })
    }

    fn damage(&self) -> Option<String> {
        let log = self.cluster.log();
        let panics: Vec<&str> = log.lines().filter(|line| line.contains("PANIC:")).collect();
        (!panics.is_empty()).then(|| panics.join("\n"))
    }
}
