//! One of two databases goes away for a while, and comes back.
//!
//! Promise: two real clusters, one of which is stopped. Runs in the other go on meanwhile; those of the stopped one wait,
//! and nothing of them is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use aether_core::id::{CodeId, CommandId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::journal::event::NodeFinished;
use aether_core::payload::{Digest, Payload};
use aether_core::store::{
    Ack, Append, AppendReply, ClaimRequest, Created, NewRun, SilentWorker, Store, StoreError,
};
use aether_pg_tests::{Cluster, Stop};
use aether_postgres::{PostgresOptions, PostgresStore};
use jiff::Timestamp;

const BUCKETS: u16 = 8;
/// How long a slow machine may take for what is not held up.
const SLOW: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(60);

#[allow(dead_code, reason = "the other test names more")]
#[path = "moves/names.rs"]
mod names;

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name.to_owned())
}

fn code() -> CodeId {
    CodeId::of("shop", "flow", 3, "0011223344556677")
}

fn frame(name: &str) -> Frame {
    Frame::encode(&[NodeFinished { command: CommandId::new("0", name) }.into()]).unwrap()
}

async fn create(store: &PostgresStore, name: &str, owner: Option<&str>) -> RunId {
    let run = RunId::new(name).unwrap();
    let new = NewRun {
        id: run.clone(),
        workflow: "flow".into(),
        version: 3,
        code: code(),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame("created"),
        at: Timestamp::UNIX_EPOCH,
        owner: owner.map(worker),
        parent_epoch: None,
        terms: Default::default(),
    };
    assert_eq!(store.create(new).await.unwrap(), Created::New);
    run
}

fn append(store: &PostgresStore, run: &RunId) -> AppendReply {
    let (ack, reply) = Ack::awaited(run.clone(), 2, Arc::default());
    store.append(Append {
        run: run.clone(),
        epoch: 1,
        expected: 1,
        at: Timestamp::UNIX_EPOCH,
        frame: frame("event"),
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: None,
        consumed: Vec::new(),
        waits: Vec::new(),
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    });
    reply
}

fn claim(name: &str, silent: Vec<SilentWorker>) -> ClaimRequest {
    ClaimRequest {
        worker: worker(name),
        now: Timestamp::now(),
        silent,
        limit: 10,
        codes: vec![code()],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}

/// Renews until the database of this run has taken it: a slow one may not answer in the time that others can wait.
async fn renew_until_taken(store: &PostgresStore, me: &WorkerId, run: &RunId) {
    let until = Instant::now() + SLOW;
    loop {
        assert_eq!(store.renew(me, LEASE, Vec::new()).await.unwrap(), []);
        if store.is_renewed(me, run) {
            return;
        }
        assert!(Instant::now() < until, "the database of {run} takes no renewal");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Claims until there is something: a slow database may not answer in the time that others can wait.
async fn claimed(store: &PostgresStore, name: &str, silent: Vec<SilentWorker>, runs: usize) -> Vec<String> {
    let (until, mut claimed) = (Instant::now() + SLOW, Vec::new());
    while claimed.len() < runs {
        let leases = store.claim(claim(name, silent.clone())).await.unwrap();
        claimed.extend(leases.iter().map(|lease| lease.run.id.to_string()));
        assert!(Instant::now() < until, "{runs} runs are due, claimed are {claimed:?}");
    }
    claimed.sort_unstable();
    claimed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_holds_up_its_own_runs_alone() {
    let (home, other) = (Cluster::begin(Cluster::options()), Cluster::begin(Cluster::options()));
    let (first, second) = (home.database().await, other.database().await);
    // Whoever waits for the database that is away waits for longer than the others may take.
    let options = PostgresOptions::new().patience(SLOW * 5);
    let urls = || [("a", first.url()), ("b", second.url())];
    let store = PostgresStore::connect_all_with(urls(), options.clone()).await.unwrap();
    let impatient = PostgresOptions::new().patience(Duration::from_secs(1));
    let impatient = PostgresStore::connect_all_with(urls(), impatient).await.unwrap();
    assert_eq!(store.move_buckets(0..BUCKETS, "b").await.unwrap(), usize::from(BUCKETS));
    assert_eq!(store.move_buckets(0..BUCKETS, "b").await.unwrap(), 0);
    let me = worker("me");
    assert!(store.register(&me, LEASE, vec![code()]).await.unwrap());
    let there = create(&store, &names::moving("there"), Some("me")).await;
    let here = create(&store, "here", Some("me")).await;
    assert!(names::bucket("here") >= BUCKETS && names::bucket("free") >= BUCKETS);
    renew_until_taken(&store, &me, &here).await;
    renew_until_taken(&store, &me, &there).await;

    other.stop(Stop::Immediate);
    let since = Instant::now();
    renew_until_taken(&store, &me, &here).await;
    assert!(!store.is_renewed(&me, &there), "a body must not begin there");
    append(&store, &here).await.unwrap().unwrap();
    create(&store, "free", None).await;
    assert_eq!(claimed(&store, "me", Vec::new(), 1).await, ["free"]);
    let workers = store.workers().await.unwrap();
    assert_eq!(workers.iter().map(|worker| worker.id.as_str()).collect::<Vec<_>>(), ["me"]);
    assert!(since.elapsed() < SLOW * 2, "the other database holds everything up");
    let waits = append(&store, &there);
    let listed = impatient.runs(aether_core::store::RunFilter::default()).await;
    assert!(matches!(listed, Err(StoreError::Unavailable { .. })), "half a list: {listed:?}");

    other.start();
    waits.await.unwrap().unwrap();
    renew_until_taken(&store, &me, &there).await;
    assert_eq!(store.load(&there, 0).await.unwrap().len(), 2);
    // The numbers are the same again in both: who watches sees one that rises.
    let seen = store.workers().await.unwrap()[0].renewals;
    store.renew(&me, LEASE, Vec::new()).await.unwrap();
    assert_eq!(store.workers().await.unwrap()[0].renewals, seen + 1);
    let silent = vec![SilentWorker { id: me.clone(), renewals: seen }];
    assert_eq!(store.claim(claim("you", silent)).await.unwrap(), [], "it has renewed");
    let silent = vec![SilentWorker { id: me, renewals: seen + 1 }];
    assert_eq!(claimed(&store, "you", silent, 3).await, ["free", "here", there.as_str()]);
    impatient.close().await.unwrap();
    store.close().await.unwrap();
}

/// More than one statement has the time for, and more than one message may carry.
#[tokio::test]
async fn a_bucket_of_many_large_values_is_moved_in_pieces() {
    let cluster = Cluster::shared();
    let databases = [cluster.database().await, cluster.database().await];
    let [first, second] = databases.each_ref().map(|database| database.url());
    let options = PostgresOptions::new().statement_timeout(Duration::from_millis(1500)).patience(SLOW);
    let store =
        PostgresStore::connect_all_with([("a", first.as_str()), ("b", &second)], options).await.unwrap();
    let run = create(&store, "large", None).await;
    let value = |n: u32| -> Vec<u8> {
        (0..50_000_u32).flat_map(|at| (at ^ n).wrapping_mul(2_654_435_761).to_le_bytes()).collect()
    };
    for n in 0..100 {
        store.put_blob(&run, &format!("{n:064x}"), value(n)).await.unwrap();
    }
    // 100 values take 3 s.
    let slow = "CREATE FUNCTION aether.slow() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(0.03); RETURN OLD; END $$;
        CREATE TRIGGER slow BEFORE DELETE ON aether.blobs FOR EACH ROW EXECUTE FUNCTION aether.slow()";
    let (client, connection) = tokio_postgres::connect(&first, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(slow).await.unwrap();
    let bucket = names::bucket("large");
    assert_eq!(store.move_buckets(bucket..bucket + 1, "b").await.unwrap(), 1);
    for n in 0..100 {
        assert_eq!(store.blob(&run, &format!("{n:064x}")).await.unwrap(), Some(value(n)));
    }
    let left = client.query_one("SELECT count(*) FROM aether.parcels", &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(left, 0);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_database_belongs_to_one_store_under_one_name() {
    let cluster = Cluster::shared();
    let databases = [cluster.database().await, cluster.database().await, cluster.database().await];
    let [first, second, third] = databases.each_ref().map(|database| database.url());
    let store = PostgresStore::connect_all([("a", &first), ("b", &second)]).await.unwrap();
    store.move_buckets(3..4, "b").await.unwrap();
    let refused = async |databases: Vec<(&str, &String)>| {
        let error = PostgresStore::connect_all(databases).await.unwrap_err();
        let StoreError::Open { reason, .. } = error else { panic!("{error:?}") };
        reason
    };
    assert!(refused(vec![("b", &first), ("a", &second)]).await.contains("it is the database `a`"));
    assert!(refused(vec![("a", &first), ("a", &second)]).await.contains("is that of another database"));
    assert!(refused(vec![("c", &third), ("b", &second)]).await.contains("whose first one is `a`"));
    for one in [&first, &second] {
        let error = PostgresStore::connect(one).await.unwrap_err();
        assert!(error.to_string().contains("connect_all"), "{error}");
    }
    // The refusal above has made the third one a home; a fresh one with runs of its own is no further database.
    let fourth = cluster.database().await;
    let alone = PostgresStore::connect(&fourth.url()).await.unwrap();
    create(&alone, "own", None).await;
    assert!(refused(vec![("a", &first), ("d", &fourth.url())]).await.contains("runs of its own"));
    let placed = store.placement().await.unwrap();
    assert_eq!(placed.iter().map(|placed| placed.buckets).collect::<Vec<_>>(), [4095, 1]);
}
