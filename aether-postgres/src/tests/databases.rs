//! Stores of two databases, one of which is away, or fails.

use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::environment::Environment;
use aether_core::payload::Payload;
use aether_core::store::{
    AppendError, ClaimRequest, Created, Decision, KeyedStart, Sent, SilentWorker, Store as _, StoreError,
};
use aether_pg_tests::Cluster;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::proxy::Proxy;
use super::queues::queued;
use super::writer::{append, new_run};
use super::{LEASE, Table, at, message, names, options, request, run_id, takeover, worker};
use crate::store::PostgresStore;

/// Also on a slow machine.
const SOON: Duration = Duration::from_secs(60);

async fn store(first: &str, second: &str, patience: Duration) -> PostgresStore {
    PostgresStore::connect_all_with(
        [("a", first), ("b", second)],
        options().patience(patience).connections(1),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_worker_retires_and_a_store_closes_in_every_database() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let store = store(&first.url, &second.url, Duration::from_secs(1)).await;
    let me = worker("me");
    assert!(store.register(&me, LEASE, Vec::new()).await.unwrap());
    first.client.batch_execute("ALTER TABLE workers RENAME TO away").await.unwrap();
    assert!(matches!(store.retire(&me).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(second.number("SELECT count(*) FROM workers").await, 0, "there it is not known any more");
    super::writer::create(&store.shared.all()[0].clone(), "a").await;
    first.client.batch_execute("ALTER TABLE journal RENAME TO gone").await.unwrap();
    let database = store.shared.all()[0].clone();
    let stuck = tokio::spawn(async move { super::writer::write(&database, "a", 1, |_| {}).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let closed = tokio::time::timeout(SOON, store.close()).await.unwrap();
    assert!(closed.is_err(), "something could not be written");
    stuck.await.unwrap().unwrap_err();
    assert!(store.shared.all().iter().all(|database| database.is_closed()));
}

/// The clock of this machine. Nothing is drawn.
#[derive(Debug)]
pub(super) struct Host;

impl Environment for Host {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        Box::pin(tokio::time::sleep(left))
    }
}

/// It sees nobody where it has not renewed, and would not renew where it sees nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_watches_the_others_again_after_a_renewal_that_failed() {
    for both in [false, true] {
        let tables = [Table::lay().await, Table::lay().await];
        let store = Arc::new(store(&tables[0].url, &tables[1].url, Duration::ZERO).await);
        tables[1].run("run", Some("x"), 0).await;
        let busy = "INSERT INTO workers(id, renewals, lease) VALUES ('x', 5, 3600000000)";
        tables[1].client.batch_execute(busy).await.unwrap();
        let builder = Engine::builder().environment(Arc::new(Host)).store(store.clone());
        let engine = builder.lease(Duration::from_millis(400)).start().await.unwrap();
        let id = "SELECT id FROM workers WHERE id <> 'x'";
        let idle = worker(tables[1].client.query_typed(id, &[]).await.unwrap()[0].get(0));
        let renews = async || {
            let renewals = "SELECT max(renewals)::int8 FROM workers WHERE id <> 'x'";
            let before = tables[1].number(renewals).await;
            while tables[1].number(renewals).await < before + 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, renews()).await.expect("it watches `x`");
        let broken = &tables[usize::from(!both)..];
        for table in broken {
            let refused = "ALTER TABLE workers ADD CONSTRAINT refused CHECK (id = 'x') NOT VALID";
            table.client.batch_execute(refused).await.unwrap();
        }
        let fails = async {
            while store.is_renewed_everywhere(&idle) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, fails).await.expect("it is refused");
        // Until it has looked, and seen nobody.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for table in broken {
            table.client.batch_execute("ALTER TABLE workers DROP CONSTRAINT refused").await.unwrap();
        }
        tokio::time::timeout(SOON, renews()).await.expect("it watches `x` again");
        assert!(store.is_renewed_everywhere(&idle), "both: {both}");
        engine.shutdown().await.unwrap();
    }
}

/// Of several engines in one process, the one that cannot renew somewhere hides nobody from the others.
#[tokio::test]
async fn a_worker_that_cannot_renew_hides_no_database_from_another_one_of_its_process() {
    let tables = [Table::lay().await, Table::lay().await];
    let store = store(&tables[0].url, &tables[1].url, Duration::ZERO).await;
    tables[1].run("run", Some("x"), 0).await;
    let refused = "INSERT INTO workers(id, renewals, lease) VALUES ('x', 5, 1000000);
        ALTER TABLE workers ADD CONSTRAINT refused CHECK (id <> 'refused')";
    tables[1].client.batch_execute(refused).await.unwrap();
    let sees = async || store.workers().await.unwrap().into_iter().map(|seen| seen.id).collect::<Vec<_>>();
    let (refused, other) = (worker("refused"), worker("other"));
    store.renew(&refused, LEASE, Vec::new()).await.unwrap();
    assert!(!store.is_renewed_everywhere(&refused));
    assert_eq!(sees().await, [], "nobody could renew there");
    store.renew(&other, LEASE, Vec::new()).await.unwrap();
    assert!(store.is_renewed_everywhere(&other));
    assert_eq!(sees().await, [worker("x")]);
    store.retire(&refused).await.unwrap();
    assert_eq!(sees().await, [worker("x")]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_lost_claim_is_found_while_another_database_is_away() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let proxies =
        [Proxy::before(Cluster::shared().port()).await, Proxy::before(Cluster::shared().port()).await];
    let url = |number: usize, table: &Table| proxies[number].url(table.url.rsplit('/').next().unwrap());
    let store = store(&url(0, &first), &url(1, &second), Duration::ZERO).await;
    let here = store.shared.all()[0].clone();
    first.run("run", None, 1).await;
    here.claim(&request("w", 0)).await.unwrap();
    proxies[0].lose_after(1, 1);
    here.claim(&request("w", 5)).await.unwrap_err();
    assert_eq!(first.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 1);
    proxies[1].hold(true);
    proxies[1].cut();
    let found = tokio::time::timeout(SOON, here.claim(&request("w", 5))).await.unwrap();
    assert_eq!(names(&found.unwrap()), ["run"]);
}

/// As in one database: what is due would keep it back for as long as there is more of it than room.
#[tokio::test]
async fn what_a_silent_worker_holds_is_taken_before_what_is_due_in_any_database() {
    for there in [0, 1] {
        let tables = [Table::lay().await, Table::lay().await];
        let store = store(&tables[0].url, &tables[1].url, Duration::from_secs(60)).await;
        for (number, table) in tables.iter().enumerate() {
            for run in 0..6 {
                table.run(&format!("due-{number}-{run}"), None, run).await;
            }
        }
        tables[there].run("held", Some("former"), 0).await;
        let busy = "INSERT INTO workers(id, renewals, lease) VALUES ('former', 7, 1000000)";
        tables[there].client.batch_execute(busy).await.unwrap();
        for expected in [&["held", "due"][..], &["due", "due"]] {
            let claim = ClaimRequest { limit: 2, ..takeover("w", 100, "former", 7) };
            let leases = store.claim(claim).await.unwrap();
            let kinds: Vec<_> = names(&leases).iter().map(|name| name.split('-').next().unwrap()).collect();
            assert_eq!(kinds, expected, "in database {there}");
        }
    }
}

/// What it holds in one database may be for nobody who is there, and stay where it is.
#[tokio::test]
async fn a_worker_is_taken_over_in_each_database_by_its_number_there() {
    let tables = [Table::lay().await, Table::lay().await];
    let store = store(&tables[0].url, &tables[1].url, Duration::from_secs(60)).await;
    for (number, table) in tables.iter().enumerate() {
        table.run(&format!("run-{number}"), Some("former"), 0).await;
        let known =
            format!("INSERT INTO workers(id, renewals, lease) VALUES ('former', {}, 1000000)", 9 - number);
        table.client.batch_execute(&known).await.unwrap();
    }
    let silent = async || {
        let seen = store.workers().await.unwrap().into_iter();
        seen.map(|seen| SilentWorker { id: seen.id, renewals: seen.renewals }).collect::<Vec<_>>()
    };
    let both = silent().await;
    assert_eq!(both.len(), 2);
    // It comes back in the first one.
    tables[0].client.batch_execute("UPDATE workers SET renewals = 8").await.unwrap();
    let claim = |silent| ClaimRequest { silent, ..request("w", 100) };
    let leases = store.claim(claim(both.clone())).await.unwrap();
    assert_eq!(names(&leases), ["run-1"], "by the number of the second one nothing is taken in the first");
    tables[0].client.batch_execute("UPDATE workers SET renewals = 9").await.unwrap();
    assert_eq!(names(&store.claim(claim(both)).await.unwrap()), ["run-0"]);
}

/// A worker that was not told of the target would lose there what it holds.
#[tokio::test]
async fn a_worker_that_comes_before_the_lock_keeps_its_runs_from_being_moved() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let store = std::sync::Arc::new(store(&first.url, &second.url, Duration::from_secs(60)).await);
    first.run("run", None, 1).await;
    let bucket = u16::try_from(crate::shard::shard("run")).unwrap();
    let claim = first.begin().await;
    let held = "INSERT INTO workers(id, renewals, lease) VALUES ('old', 5, 1000000);
        UPDATE runs SET owner = 'old' WHERE id = 'run'";
    claim.batch_execute(held).await.unwrap();
    let moving = store.clone();
    let moved = tokio::spawn(async move { moving.move_buckets(bucket..bucket + 1, "b").await });
    first.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(second.number("SELECT count(*) FROM runs").await, 0, "it is the worker's");
    assert!(!moved.is_finished());
    let told = "INSERT INTO workers(id, renewals, lease) VALUES ('old', 5, 1000000)";
    second.client.batch_execute(told).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, moved).await.unwrap().unwrap(), Ok(1));
    let record = store.run(&run_id("run")).await.unwrap().unwrap();
    assert_eq!(record.owner, Some(worker("old")));
}

/// Two databases, the second of which has the bucket of the run, and the keyed start `key` in revision 1.
async fn decided(run: &str, patience: Duration) -> ([Table; 2], Arc<PostgresStore>, Decision) {
    let tables = [Table::lay().await, Table::lay().await];
    let store = store(&tables[0].url, &tables[1].url, patience).await;
    let bucket = u16::try_from(crate::shard::shard(run)).unwrap();
    assert_eq!(store.move_buckets(bucket..bucket + 1, "b").await, Ok(1));
    assert_eq!(store.put_keyed_start(revision(1), 0).await, Ok(true));
    (tables, Arc::new(store), Decision::KeyedStart { name: "key".into(), revision: 1 })
}

fn revision(revision: u64) -> KeyedStart {
    let (name, workflow, record) = ("key".into(), "flow".into(), Payload::encode(&revision).unwrap());
    KeyedStart { name, workflow, due_at: at(9), record, revision }
}

/// A creation that waits in the second database, and the transaction that it waits for.
async fn held_up(
    [_, second]: &[Table; 2],
    store: &Arc<PostgresStore>,
    decision: Decision,
) -> (tokio::task::JoinHandle<Result<Created, StoreError>>, tokio_postgres::Client) {
    let blocker = second.begin().await;
    blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
    let store = store.clone();
    let creating = tokio::spawn(async move { store.create_decided(new_run("run"), decision).await });
    second.until_blocked(1).await;
    (creating, blocker)
}

#[tokio::test]
async fn a_decision_is_held_until_its_run_is_created_in_another_database() {
    let (tables, store, decision) = decided("run", Duration::from_secs(60)).await;
    let (creating, blocker) = held_up(&tables, &store, decision.clone()).await;
    let noting = tables[0].database.clone();
    let mut noted = tokio::spawn(async move { noting.put_keyed_start(&revision(2), 1).await });
    tokio::select! {
        noted = &mut noted => panic!("it is noted before the run is there: {noted:?}"),
        () = tables[0].until_blocked(1) => {}
    }
    assert!(!creating.is_finished());
    blocker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(creating.await.unwrap(), Ok(Created::New));
    assert_eq!(noted.await.unwrap(), Ok(true));
    assert!(store.run(&run_id("run")).await.unwrap().is_some());
    assert!(matches!(store.create_decided(new_run("run"), decision.clone()).await, Ok(Created::Existing(_))));
    store.shared.all()[1].remove(&run_id("run")).await.unwrap();
    assert_eq!(store.create_decided(new_run("run"), decision).await, Ok(Created::DecisionGone));
    assert_eq!(store.run(&run_id("run")).await, Ok(None));
}

/// Whoever lost its hold of the decision does not know who has found the run since.
#[tokio::test]
async fn a_run_stays_whose_decision_was_replaced_because_it_could_not_be_held() {
    let (tables, store, decision) = decided("run", Duration::from_secs(60)).await;
    let (creating, blocker) = held_up(&tables, &store, decision).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle in transaction'";
    assert_eq!(tables[0].number(end).await, 1, "the decision is held");
    assert_eq!(tables[0].database.put_keyed_start(&revision(2), 1).await, Ok(true));
    blocker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(creating.await.unwrap(), Ok(Created::New));
    assert!(store.run(&run_id("run")).await.unwrap().is_some());
}

/// The parent is in the first database and its child in the second, where the creation waits meanwhile.
#[tokio::test]
async fn a_child_is_given_up_whose_parent_was_lost_or_has_ended_while_it_was_created() {
    let lost = "INSERT INTO journal SELECT shard, run, 1, 1, 0, 1, 2, false, '', chain FROM journal WHERE run = 'parent'";
    let ended = "UPDATE journal SET final = true WHERE run = 'parent'";
    for meanwhile in ["", lost, ended] {
        let ([first, second], store, _) = decided("run", Duration::from_secs(60)).await;
        assert_eq!(store.create(new_run("parent")).await, Ok(Created::New));
        let blocker = second.begin().await;
        blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
        let (mut child, creating) = (new_run("run"), store.clone());
        (child.parent, child.parent_epoch) = (Some(run_id("parent")), Some(1));
        let created = tokio::spawn(async move { creating.create(child).await });
        second.until_blocked(1).await;
        first.client.batch_execute(meanwhile).await.unwrap();
        blocker.batch_execute("COMMIT").await.unwrap();
        let created = tokio::time::timeout(SOON, created).await.unwrap().unwrap();
        let rows = async |of: &str| second.number(&format!("SELECT count(*) FROM {of} = 'run'")).await;
        let there = (rows("runs WHERE owner IS NULL AND id").await, rows("due WHERE run").await);
        let (expected, left) = match meanwhile {
            "" => (Created::New, (0, 0)),
            _ if meanwhile == lost => (Created::ParentLost, (1, 1)),
            _ => (Created::ParentLost, (0, 0)),
        };
        assert_eq!((created, there), (Ok(expected), left), "{meanwhile}");
    }
}

/// More starts than the pools have connections hold up each other for a while, and not for good.
#[tokio::test]
async fn many_decided_starts_at_once_take_turns() {
    let (_tables, store, decision) = decided("run", Duration::from_secs(20)).await;
    let starts = (0..8).map(|_| store.create_decided(new_run("run"), decision.clone()));
    let created = futures_util::future::join_all(starts).await;
    let new = created.iter().filter(|created| **created == Ok(Created::New)).count();
    assert_eq!((new, created.iter().filter(|created| created.is_ok()).count()), (1, 8), "{created:?}");
}

/// The home had queues before it was one of several.
#[tokio::test]
async fn a_bucket_with_open_runs_of_queues_is_not_moved() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let created = first.database.clone().create(queued("run", "k"), Vec::new(), None).await.unwrap();
    assert_eq!(created, Some(Created::New));
    let store = store(&first.url, &second.url, Duration::from_secs(60)).await;
    let bucket = u16::try_from(crate::shard::shard("run")).unwrap();
    let refused = store.move_buckets(bucket..bucket + 1, "b").await.unwrap_err().to_string();
    assert!(refused.contains("run `run` of queue `q` is open there"), "{refused}");
    assert_eq!(first.number("SELECT count(*) FROM placement WHERE target IS NOT NULL").await, 0);
    let leases = store.claim(request("w", 5)).await.unwrap();
    assert_eq!(names(&leases), ["run"], "it is advanced where it is");
    let fork = store.create_fork(queued("fork", "k"), Vec::new()).await;
    assert!(matches!(fork, Err(StoreError::NoQueues { .. })), "{fork:?}");
    first.client.batch_execute("UPDATE runs SET status = 3, owner = NULL, ended_at = 1").await.unwrap();
    assert_eq!(store.move_buckets(bucket..bucket + 1, "b").await, Ok(1));
}

/// Two databases, as a store sees them that does not know yet whether another process has moved the run's bucket.
async fn seen_too_late(run: &str, is_moved: bool) -> ([Table; 2], PostgresStore) {
    let tables = [Table::lay().await, Table::lay().await];
    let patience = Duration::from_secs(60);
    let (stale, other) = (
        store(&tables[0].url, &tables[1].url, patience).await,
        store(&tables[0].url, &tables[1].url, patience).await,
    );
    let bucket = u16::try_from(crate::shard::shard(run)).unwrap();
    if is_moved {
        assert_eq!(other.move_buckets(bucket..bucket + 1, "b").await, Ok(1));
    }
    (tables, stale)
}

/// The answer to the first try is lost, and the next one finds the run in another database.
#[tokio::test]
async fn what_was_sent_is_known_after_the_run_was_moved() {
    let tables = [Table::lay().await, Table::lay().await];
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let patience = Duration::from_secs(60);
    let url = proxy.url(tables[0].url.rsplit('/').next().unwrap());
    let far = Arc::new(store(&url, &tables[1].url, patience).await);
    let near = store(&tables[0].url, &tables[1].url, patience).await;
    tables[0].run("run", None, 1).await;
    proxy.lose(1);
    proxy.hold(true);
    let asking = far.clone();
    let asked = tokio::spawn(async move { asking.send(&run_id("run"), message("m", "signal:x")).await });
    let sent = async {
        while tables[0].number("SELECT count(*) FROM inbox").await == 0 || proxy.left() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, sent).await.unwrap();
    let bucket = u16::try_from(crate::shard::shard("run")).unwrap();
    assert_eq!(near.move_buckets(bucket..bucket + 1, "b").await, Ok(1));
    proxy.hold(false);
    assert_eq!(tokio::time::timeout(SOON, asked).await.unwrap().unwrap(), Ok(Sent::Delivered));
    assert_eq!(tables[1].number("SELECT count(*) FROM inbox").await, 1, "it is there once");
}

/// The writer of the former database does not reach it, and has appends of the bucket in hand: such that were never sent, were
/// carried out, or were cut off.
#[tokio::test]
async fn appends_follow_a_bucket_that_is_moved_while_its_former_database_is_away() {
    for fate in ["not sent", "written", "cut off"] {
        let tables = [Table::lay().await, Table::lay().await];
        let proxy = Proxy::before(Cluster::shared().port()).await;
        let url = proxy.url(tables[1].url.rsplit('/').next().unwrap());
        let far = store(&tables[0].url, &url, SOON).await;
        let near = store(&tables[0].url, &tables[1].url, SOON).await;
        let moves = async |run: &str, to: &str| {
            let bucket = u16::try_from(crate::shard::shard(run)).unwrap();
            assert_eq!(near.move_buckets(bucket..bucket + 1, to).await, Ok(1));
        };
        for run in ["run", "stays"] {
            moves(run, "b").await;
            assert_eq!(far.create(new_run(run)).await, Ok(Created::New));
        }
        let frames = "SELECT count(*) FROM journal WHERE run = 'run'";
        assert_eq!(tables[1].number(frames).await, 1);
        let queue = |run: &str, position, text: &str| {
            let (append, reply) = append(&run_id(run), 1, position, text);
            far.append(append);
            reply
        };
        proxy.refuse(true);
        let mut replies = Vec::new();
        match fate {
            "not sent" => {
                proxy.cut();
                replies.push(queue("run", 1, "x"));
            }
            "written" => {
                proxy.lose(1);
                replies.push(queue("run", 1, "x"));
                while tables[1].number(frames).await < 2 || proxy.left() > 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            _ => {
                let blocker = tables[1].begin().await;
                blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
                replies.push(queue("run", 1, "x"));
                tables[1].until_blocked(1).await;
                let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'";
                tables[1].number(end).await;
                proxy.cut();
                blocker.batch_execute("COMMIT").await.unwrap();
            }
        }
        replies.push(queue("run", 2, "y"));
        let mut stays = queue("stays", 1, "z");
        moves("run", "a").await;
        for (next, reply) in (2..).zip(replies) {
            let answer = tokio::time::timeout(SOON, reply).await.expect(fate);
            assert_eq!(answer.unwrap().unwrap().next, next, "{fate}");
        }
        assert_eq!((tables[0].number(frames).await, tables[1].number(frames).await), (3, 0), "{fate}");
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut stays).await.is_err(), "{fate}");
        proxy.refuse(false);
        assert_eq!(tokio::time::timeout(SOON, stays).await.unwrap().unwrap().unwrap().next, 2, "{fate}");
        let frames = tables[0].database.load(&run_id("run"), 0).await.unwrap();
        aether_core::journal::read_verified(&frames).unwrap();
    }
}

/// A run begins before its creation is answered.
#[tokio::test]
async fn a_creation_is_queued_before_what_follows_it() {
    let (tables, store) = seen_too_late("run", false).await;
    let created = store.create(new_run("run"));
    let (append, reply) = append(&run_id("run"), 1, 1, "x");
    store.append(append);
    assert_eq!(tokio::time::timeout(SOON, reply).await.unwrap().unwrap().unwrap().next, 2);
    assert_eq!(created.await, Ok(Created::New));
    assert_eq!(tables[0].number("SELECT count(*) FROM journal").await, 2);
}

#[tokio::test]
async fn appends_that_come_to_a_database_before_their_run_wait_for_it() {
    for (is_moved, of_parent) in [(true, false), (false, true), (true, true)] {
        let (tables, store) = seen_too_late("run", is_moved).await;
        let mut new = new_run("run");
        if of_parent {
            assert_eq!(store.create(new_run("parent")).await, Ok(Created::New));
            (new.parent, new.parent_epoch) = (Some(run_id("parent")), Some(1));
        }
        let created = store.create(new);
        let mut replies = Vec::new();
        for (position, text) in (1..).zip(["x", "y"]) {
            let (append, reply) = append(&run_id("run"), 1, position, text);
            store.append(append);
            replies.push(reply);
        }
        let first = &mut replies[0];
        let answer = tokio::time::timeout(Duration::from_millis(500), first).await;
        assert!(answer.is_err(), "moved: {is_moved}, of a parent: {of_parent}: {answer:?}");
        assert_eq!(created.await, Ok(Created::New));
        for (next, reply) in (2..).zip(replies) {
            assert_eq!(tokio::time::timeout(SOON, reply).await.unwrap().unwrap().unwrap().next, next);
        }
        let there = usize::from(is_moved);
        assert_eq!(tables[there].number("SELECT count(*) FROM journal WHERE run = 'run'").await, 3);
    }
}

/// Nobody will create it.
#[tokio::test]
async fn appends_to_a_run_whose_creation_is_given_up_wait_no_longer() {
    let (_tables, store) = seen_too_late("run", true).await;
    let created = store.create(new_run("run"));
    let (append, reply) = append(&run_id("run"), 1, 1, "x");
    store.append(append);
    drop(created);
    let answer = tokio::time::timeout(SOON, reply).await.unwrap().unwrap();
    assert!(matches!(answer, Err(AppendError::Store(StoreError::UnknownRun { .. }))), "{answer:?}");
}
