//! Runs that begin at a time or within one: neither a build that they do not fit nor a message takes that from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use aether::engine::{EngineBuilder, Environment, RunEnd, SystemEnvironment};
use aether::postgres::EnginePostgres as _;
use aether::prelude::*;
use aether::store::memory::MemoryStore;
use aether::store::{RunFilter, RunRecord};
use aether::view::Status;
use aether_pg_tests::Cluster;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const MOMENT: Duration = Duration::from_millis(300);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// How many calls were made.
#[derive(Clone, Debug, Default)]
struct Charges(Arc<AtomicUsize>);

/// Charge.
#[step(effect = "tool")]
async fn charge_later(cx: &mut StepCx) -> Result<()> {
    cx.dep::<Charges>()?.0.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Charge, and say what was told.
#[workflow]
async fn charged_later(cx: &mut Cx) -> Result<String> {
    charge_later(cx).await?;
    Ok(cx.signal::<String>("details").await?)
}

/// A clock that is ahead by so many seconds.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicI64>);

impl Ahead {
    fn by(&self) -> SignedDuration {
        SignedDuration::from_secs(self.0.load(Ordering::SeqCst))
    }

    /// Lets time pass.
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_secs() as i64, Ordering::SeqCst);
    }
}

impl Environment for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.by()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep_until(until - self.by())
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep(span)
    }

    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        SystemEnvironment.spawn_keeper(task);
    }
}

/// A store, and the clock of the processes that use it.
struct World {
    store: Box<dyn Fn(EngineBuilder) -> EngineBuilder>,
    clock: Ahead,
    charges: Charges,
}

impl World {
    fn new(store: impl Fn(EngineBuilder) -> EngineBuilder + 'static) -> Self {
        Self { store: Box::new(store), clock: Ahead::default(), charges: Charges::default() }
    }

    fn builder(&self) -> EngineBuilder {
        let builder =
            Engine::builder().environment(Arc::new(self.clock.clone())).provide(self.charges.clone());
        (self.store)(builder).poll_interval(Duration::from_millis(10)).lease(Duration::from_secs(1))
    }

    async fn engine(&self) -> Engine {
        self.builder().start().await.unwrap()
    }

    /// A deploy without the workflow, until it has looked at all that is there.
    async fn other_build(&self, parked: &[&str]) -> Engine {
        let build = self.builder().without_workflow::<charged_later>().start().await.unwrap();
        for run in parked {
            while !record(&build, run).await.parked {
                sleep(Duration::from_millis(5)).await;
            }
        }
        sleep(MOMENT).await;
        build
    }

    fn charged(&self) -> usize {
        self.charges.0.load(Ordering::SeqCst)
    }
}

async fn record(engine: &Engine, run: &str) -> RunRecord {
    let runs = engine.runs(RunFilter::new()).await.unwrap();
    runs.into_iter().find(|record| record.id.as_str() == run).unwrap()
}

async fn tell(engine: &Engine, run: &str) {
    engine.signal(&run.parse().unwrap(), "details", "1", &"told".to_owned()).await.unwrap();
}

async fn result(engine: &Engine, run: &str) -> String {
    in_time(engine.handle::<charged_later>(run).await.unwrap().result()).await.unwrap()
}

async fn on_each(test: impl AsyncFn(World)) {
    let memory = MemoryStore::new();
    test(World::new(move |builder| builder.store(Arc::new(memory.clone())))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    test(World::new(move |builder| builder.sqlite(&path))).await;
    let database = Cluster::shared().database().await;
    let url = database.url();
    test(World::new(move |builder| builder.postgres(url.clone()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_build_takes_no_time_from_a_run() {
    on_each(async |world| {
        let engine = world.engine().await;
        let tomorrow = world.clock.now() + DAY;
        let start = |id: &str| engine.start::<charged_later>(()).id(id);
        start("later").at(tomorrow).await.unwrap();
        start("later-queued").queue("q").at(tomorrow).await.unwrap();
        start("later-told").at(tomorrow).await.unwrap();
        start("later-asked").queue("q").at(tomorrow).await.unwrap();
        engine.shutdown().await.unwrap();
        let build = world.other_build(&[]).await;
        tell(&build, "later-told").await;
        sleep(MOMENT).await;
        for run in ["later", "later-queued", "later-told"] {
            let record = record(&build, run).await;
            assert_eq!((record.status, record.parked), (Status::Pending, false), "{run}");
            assert_eq!((record.next, record.queue.started_at), (1, None), "{run}");
        }
        // What is asked to end does, with none of its code.
        build.find("later-asked").await.unwrap().cancel("enough", "ann").await.unwrap();
        in_time(async {
            while record(&build, "later-asked").await.status != Status::Cancelled {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        build.shutdown().await.unwrap();
        let engine = world.engine().await;
        sleep(2 * MOMENT).await;
        assert_eq!(world.charged(), 0);
        tell(&engine, "later").await;
        tell(&engine, "later-queued").await;
        world.clock.pass(DAY);
        for run in ["later", "later-queued", "later-told"] {
            assert_eq!(result(&engine, run).await, "told");
        }
        assert_eq!(world.charged(), 3);
        engine.shutdown().await.unwrap();
    })
    .await;
}

/// It is parked when it is due, and begins with the former build.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_under_another_build_is_parked() {
    on_each(async |world| {
        let engine = world.engine().await;
        let tomorrow = world.clock.now() + DAY;
        engine.start::<charged_later>(()).id("later").at(tomorrow).await.unwrap();
        engine.shutdown().await.unwrap();
        let build = world.other_build(&[]).await;
        world.clock.pass(DAY + MINUTE);
        in_time(async {
            while !record(&build, "later").await.parked {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        build.shutdown().await.unwrap();
        let engine = world.engine().await;
        tell(&engine, "later").await;
        assert_eq!(result(&engine, "later").await, "told");
        engine.shutdown().await.unwrap();
    })
    .await;
}

/// Whoever parks a run has its turn, in which nothing of it is executed: it expires as if it had had none.
#[tokio::test(flavor = "multi_thread")]
async fn another_build_lets_a_run_expire() {
    on_each(async |world| {
        let engine = world.builder().client().start().await.unwrap();
        let start = |id: &str| engine.start::<charged_later>(()).id(id).queue("q");
        start("expires").expires(5 * MINUTE).await.unwrap();
        start("in-time").expires(60 * MINUTE).await.unwrap();
        engine.shutdown().await.unwrap();
        let build = world.other_build(&["expires", "in-time"]).await;
        build.shutdown().await.unwrap();
        world.clock.pass(10 * MINUTE);
        let engine = world.engine().await;
        tell(&engine, "in-time").await;
        assert_eq!(result(&engine, "in-time").await, "told");
        let end = in_time(engine.find("expires").await.unwrap().end()).await.unwrap();
        assert!(matches!(end, RunEnd::Expired { .. }), "{end:?}");
        assert_eq!(world.charged(), 1);
        engine.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_begins_no_run() {
    on_each(async |world| {
        let engine = world.engine().await;
        let tomorrow = world.clock.now() + DAY;
        engine.start::<charged_later>(()).id("told").at(tomorrow).await.unwrap();
        engine.start::<charged_later>(()).id("told-queued").queue("q").at(tomorrow).await.unwrap();
        engine.start::<charged_later>(()).id("wanted").at(tomorrow).await.unwrap();
        for run in ["told", "told-queued", "wanted"] {
            tell(&engine, run).await;
        }
        sleep(MOMENT).await;
        assert_eq!((record(&engine, "told").await.epoch, record(&engine, "told-queued").await.epoch), (0, 0));
        // Whoever wants it before its time has it.
        assert!(engine.find("wanted").await.unwrap().advance().await.unwrap());
        assert_eq!(result(&engine, "wanted").await, "told");
        assert_eq!(world.charged(), 1);
        world.clock.pass(DAY);
        for run in ["told", "told-queued"] {
            assert_eq!(result(&engine, run).await, "told");
        }
        engine.shutdown().await.unwrap();
    })
    .await;
}
