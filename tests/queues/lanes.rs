//! Workers that serve some queues only: who takes what, and what a run says that nobody takes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::{EngineBuilder, Hold};
use aether::error::BuildError;
use aether::id::RunId;
use aether::prelude::*;
use aether::queue::Serves;
use aether::store::Store;
use aether::store::memory::MemoryStore;
use aether_pg_tests::Cluster;
use tokio::time::sleep;

use crate::open;

/// Which engine advanced which run.
#[derive(Clone, Debug, Default)]
struct Done(Arc<Mutex<Vec<(String, &'static str)>>>);

#[derive(Clone, Copy, Debug)]
struct Me(&'static str);

/// Says who does it.
#[step(effect = "read")]
async fn lane_work(cx: &mut StepCx, ms: u64) -> Result<()> {
    let (done, me) = (cx.dep::<Done>()?, cx.dep::<Me>()?);
    done.0.lock().unwrap().push((cx.run_id().to_string(), me.0));
    sleep(Duration::from_millis(ms)).await;
    Ok(())
}

/// One step.
#[workflow]
async fn lane_job(cx: &mut Cx, ms: u64) -> Result<()> {
    Ok(lane_work(cx, ms).await?)
}

async fn on_all(test: impl AsyncFn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::new())).await;
    let folder = tempfile::tempdir().unwrap();
    test(open(&folder.path().join("agent.db").display().to_string()).await).await;
    let database = Cluster::shared().database().await;
    test(open(&database.url()).await).await;
}

fn builder(store: &Arc<dyn Store>, done: &Done, name: &'static str) -> EngineBuilder {
    let builder = Engine::builder().store(Arc::clone(store)).provide(done.clone()).provide(Me(name));
    builder.poll_interval(Duration::from_millis(20))
}

async fn until(engine: &Engine, run: &RunId, wanted: impl Fn(&Hold) -> bool) -> Hold {
    let asked = async {
        loop {
            let hold = engine.why(run).await.unwrap();
            if wanted(&hold) {
                return hold;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), asked).await.expect("it takes too long")
}

fn has_ended(hold: &Hold) -> bool {
    matches!(hold, Hold::Ended { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_takes_what_it_serves_and_a_run_says_that_nobody_does() {
    on_all(async |store| {
        let done = Done::default();
        let client = builder(&store, &done, "client").client().start().await.unwrap();
        let some = builder(&store, &done, "some").queues(["tickets/acme", "mail"]).only_queues();
        let some = some.start().await.unwrap();
        let start = async |engine: &Engine, name: &str, queue: &str, key: &str| {
            let start = engine.start::<lane_job>(1).id(name);
            let start = if queue.is_empty() { start } else { start.queue(queue) };
            let start = if key.is_empty() { start } else { start.key(key) };
            start.await.unwrap().id().clone()
        };
        let acme = start(&client, "acme", "tickets", "acme/ann").await;
        let mail = start(&client, "mail", "mail", "").await;
        let globex = start(&client, "globex", "tickets", "globex").await;
        let free = start(&some, "free", "", "").await;
        until(&client, &acme, has_ended).await;
        until(&client, &mail, has_ended).await;
        let hold = client.why(&globex).await.unwrap();
        let Hold::NotServed { place: Some(place), .. } = &hold else { panic!("{hold:?}") };
        assert_eq!(place.to_string(), "tickets/globex");
        assert!(hold.needs_operator() && hold.to_string().ends_with("serves tickets/globex"), "{hold}");
        assert!(matches!(some.why(&free).await.unwrap(), Hold::NotServed { place: None, .. }));
        let listed = client.workers().await.unwrap();
        let serves = Serves {
            queues: Some(vec!["tickets/acme".parse().unwrap(), "mail".parse().unwrap()]),
            others: false,
        };
        assert_eq!(listed.iter().filter(|worker| worker.known.serves == serves).count(), 1);
        let none = builder(&store, &done, "none").without_queues().start().await.unwrap();
        until(&client, &free, has_ended).await;
        assert!(matches!(client.why(&globex).await.unwrap(), Hold::NotServed { .. }));
        let rest = builder(&store, &done, "rest").queues(["tickets/*"]).start().await.unwrap();
        until(&client, &globex, has_ended).await;
        let mut who = done.0.lock().unwrap().clone();
        who.sort();
        let wanted = [("acme", "some"), ("free", "none"), ("globex", "rest"), ("mail", "some")];
        assert_eq!(who, wanted.map(|(run, worker)| (run.to_owned(), worker)));
        for engine in [rest, none, some, client] {
            engine.shutdown().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_one_place_takes_turns_between_queues_and_others() {
    on_all(async |store| {
        let done = Done::default();
        let client = builder(&store, &done, "client").client().start().await.unwrap();
        for no in 0..40 {
            client.start::<lane_job>(15).id(format!("queued-{no}")).queue("q").await.unwrap();
        }
        let mut free = Vec::new();
        for no in 0..3 {
            free.push(client.start::<lane_job>(1).id(format!("free-{no}")).await.unwrap().id().clone());
        }
        let one = builder(&store, &done, "one").max_active(1).start().await.unwrap();
        for run in &free {
            until(&client, run, has_ended).await;
        }
        // What began before the others did: how far the queue has come since tells of the machine.
        let order = done.0.lock().unwrap().clone();
        let places: Vec<_> = order.iter().map(|(run, _)| run.starts_with("free")).collect();
        assert!(places.iter().rposition(|free| *free).unwrap() < 12, "{order:?}");
        one.shutdown_within(Duration::ZERO).await.unwrap();
        client.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_pattern_that_is_not_usable_is_refused() {
    let refused = Engine::builder().memory().queues(["mail/a*"]).start().await;
    let Err(BuildError::Queues(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("mail/a*"), "{error}");
}
