//! Queues under several processes: no claim goes over a limit, no slot is lost, and a long queue delays nobody.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Instant;

use aether_core::contract::Status;
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::{QueuePlace, StartTerms};
use aether_core::store::{Created, Limit, LimitKind, NewRun};

use super::proxy::Proxy;
use super::*;
use crate::database::ask;

pub(super) fn queued(name: &str, key: &str) -> NewRun {
    let place = QueuePlace { queue: "q".into(), key: key.into(), priority: 0 };
    NewRun {
        id: run_id(name),
        workflow: "flow".into(),
        version: 3,
        code: code("flow"),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: Frame { count: 1, text: "[]".into() },
        at: at(0),
        owner: None,
        parent_epoch: None,
        terms: StartTerms { queue: Some(place), ..StartTerms::default() },
    }
}

fn queued_in(name: &str, queue: &str) -> NewRun {
    let mut new = queued(name, "k");
    new.terms.queue = Some(QueuePlace { queue: queue.into(), key: "k".into(), priority: 0 });
    new
}

async fn create(database: &Arc<Database>, new: NewRun) -> Created {
    Arc::clone(database).create(new, Vec::new(), None).await.unwrap().unwrap()
}

async fn set(database: &Database, pattern: &str, kind: LimitKind) {
    database.put_limit(&Limit::new(pattern, kind).unwrap()).await.unwrap();
}

/// Processes claim and release at the same time, while a watcher counts slots: never over the limits, and
/// at the end every slot is free again and every run has had its turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_at_the_same_time_stay_within_the_limits() {
    let table = Table::lay().await;
    set(&table.database, "q", LimitKind::Running(5)).await;
    set(&table.database, "q/*", LimitKind::Running(2)).await;
    for no in 0..60 {
        let new = queued(&format!("r{no}"), ["a", "b", "b/1", "c", "c/2"][no % 5]);
        assert_eq!(create(&table.database, new).await, Created::New);
    }
    let (turns, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    // They go on until the watcher has seen turns at the same time.
    let (seen, until) = (Arc::new(AtomicI64::new(0)), Instant::now() + Duration::from_secs(120));
    let mut tasks = Vec::new();
    for no in 0..3 {
        let (database, turns, seen) = (table.another().await, Arc::clone(&turns), Arc::clone(&seen));
        tasks.push(tokio::spawn(async move {
            let name = format!("w{no}");
            let has_seen = || seen.load(Ordering::Relaxed) > 1 || Instant::now() > until;
            while turns.load(Ordering::Relaxed) < 150 || !has_seen() {
                let now = i64::try_from(turns.load(Ordering::Relaxed)).unwrap();
                let asked = request(&name, now);
                let claim = database.claim(&asked);
                for lease in claim.await.unwrap() {
                    assert_eq!(lease.run.status, Status::Pending);
                    assert!(lease.run.queue.started_at.is_some());
                    turns.fetch_add(1, Ordering::Relaxed);
                    database.release(&worker(&name), &lease.run.id, lease.run.epoch, at(now)).await.unwrap();
                }
            }
        }));
    }
    let watcher = tokio::spawn({
        let (done, seen, client) = (Arc::clone(&done), Arc::clone(&seen), connect(&table.url).await);
        async move {
            let sql = "SELECT count(*), coalesce(max(n), 0)::int8 FROM (SELECT count(*) OVER
                (PARTITION BY split_part(queue_key, '/', 1)) AS n FROM runs WHERE owner IS NOT NULL) held";
            while !done.load(Ordering::Relaxed) {
                let row = client.query_one(sql, &[]).await.unwrap();
                let (all, of_a_key): (i64, i64) = (row.get(0), row.get(1));
                assert!(all <= 5 && of_a_key <= 2, "{all} have a turn, {of_a_key} of one key");
                seen.fetch_max(all, Ordering::Relaxed);
            }
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    watcher.await.unwrap();
    assert!(seen.load(Ordering::Relaxed) > 1, "no two runs had a turn at the same time");
    let held = table.number("SELECT count(*) FROM runs WHERE owner IS NOT NULL").await;
    assert_eq!(held, 0);
    let late = i64::try_from(turns.load(Ordering::Relaxed)).unwrap() + 1_000;
    assert_eq!(table.database.claim(&request("last", late)).await.unwrap().len(), 5);
}

/// Starts at the same time from two processes stay within a limit of open runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_at_the_same_time_stay_within_a_limit_of_open_runs() {
    let table = Table::lay().await;
    let other = table.another().await;
    set(&table.database, "q/*", LimitKind::Open(7)).await;
    let start = |no: usize| {
        let database = Arc::clone(if no.is_multiple_of(2) { &table.database } else { &other });
        tokio::spawn(async move { create(&database, queued(&format!("r{no}"), "k")).await })
    };
    let starts: Vec<_> = (0..30).map(start).collect();
    let mut made = 0;
    for start in starts {
        match start.await.unwrap() {
            Created::New => made += 1,
            Created::OverLimit { open, .. } => assert_eq!(open, 7),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, table.number("SELECT count(*) FROM runs").await), (7, 7));
}

fn one(now: i64) -> ClaimRequest {
    ClaimRequest { limit: 1, ..request("w", now) }
}

#[tokio::test]
async fn runs_are_claimed_where_statements_and_locks_are_waited_for_for_ever() {
    for ever in [Duration::MAX, Duration::ZERO] {
        let patient =
            options().patience(Duration::MAX).linger(ever).statement_timeout(ever).lock_timeout(ever);
        let table = Table::with(patient).await;
        assert_eq!(create(&table.database, queued("turn", "short")).await, Created::New);
        table.run("free", None, 1).await;
        let claimed = table.database.claim(&request("w", 100)).await.unwrap();
        assert_eq!(claimed.len(), 2, "{claimed:?}");
    }
}

/// How long half of a hundred claims take at most, each of one run.
async fn middle_of_claims(database: &Database) -> Duration {
    let mut times = Vec::new();
    for now in 0..100 {
        let since = Instant::now();
        let leases = database.claim(&one(now)).await.unwrap();
        times.push(since.elapsed());
        assert_eq!(leases.len(), 1);
        assert!(leases[0].run.queue.started_at.is_some());
    }
    times.sort_unstable();
    times[50]
}

/// A hundred thousand queued runs of one key: the first run of another has its turn after at most two of theirs, and a claim
/// costs no more than one from a short queue does.
#[tokio::test]
async fn a_long_queue_delays_nobody() {
    let (short, table) = (Table::lay().await, Table::lay().await);
    for no in 0..110 {
        assert_eq!(create(&short.database, queued(&format!("r{no}"), "short")).await, Created::New);
    }
    let from_short = middle_of_claims(&short.database).await;
    assert_eq!(create(&table.database, queued("first", "big")).await, Created::New);
    let many = "
        INSERT INTO runs SELECT r.shard, 'big-' || n, r.place + n * 4096, r.workflow, r.version, r.code, r.parked, r.status,
            r.digest, r.parent, r.created_at, r.ended_at, r.labels, r.traceparent, r.epoch, r.owner, r.ending, r.terms, r.queue,
            r.queue_key, r.rank + n, r.begun, r.slot, r.started_at, r.lapses_at FROM runs r, generate_series(1, 100000) n;
        INSERT INTO due SELECT d.shard, 'big-' || n, d.wake_at, d.code, 0, false, d.queue, d.ready, d.queue_key, d.begun,
            d.rank + n, d.place + n * 4096 FROM due d, generate_series(1, 100000) n;
        INSERT INTO journal SELECT j.shard, 'big-' || n, 0, 0, 1, j.at, 0, false, j.events, j.chain
            FROM journal j, generate_series(1, 100000) n;
        ANALYZE;";
    table.client.batch_execute(many).await.unwrap();
    let from_long = middle_of_claims(&table.database).await;
    println!("a claim from 100,000: {from_long:?}, from 110: {from_short:?}");
    // The machine may be slow, and busier now than it was. To walk through the queue takes a hundred times as long.
    let most = Duration::from_millis(250).max(from_short * 20);
    assert!(from_long < most, "a claim from 100,000: {from_long:?}, from 110: {from_short:?}");
    assert_eq!(create(&table.database, queued("small", "small")).await, Created::New);
    let mut before = 0;
    while !names(&table.database.claim(&one(200)).await.unwrap()).contains(&"small") {
        before += 1;
        assert!(before <= 2, "{before} turns of the long queue came first");
    }
}

/// More keys than one claim looks at: each gets its turn.
#[tokio::test]
async fn every_key_gets_its_turn() {
    let table = Table::lay().await;
    for no in 0..700 {
        assert_eq!(create(&table.database, queued(&format!("r{no}"), &format!("k{no}"))).await, Created::New);
    }
    let mut got = 0;
    for now in 0..80 {
        got += table.database.claim(&request("w", now)).await.unwrap().len();
    }
    assert_eq!(got, 700);
}

/// A start that is with the writer goes on, whoever has waited for it: nothing else begins before it is counted.
#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_is_counted() {
    for portable in [false, true] {
        let table = Table::with(options().portable(portable)).await;
        let other = Database::open(&table.url, options().portable(portable)).await.unwrap();
        set(&table.database, "q", LimitKind::Open(1)).await;
        let blocker = table.begin().await;
        blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
        tokio::select! {
            _ = create(&table.database, queued("first", "k")) => panic!("the run cannot be written"),
            () = table.until_blocked(1) => {}
        }
        let second = tokio::spawn(async move { create(&other, queued("second", "k")).await });
        table.until_blocked(2).await;
        blocker.batch_execute("COMMIT").await.unwrap();
        assert!(matches!(second.await.unwrap(), Created::OverLimit { open: 1, .. }), "portable: {portable}");
        assert_eq!(table.number("SELECT count(*) FROM runs WHERE id = 'first'").await, 1);
    }
}

#[tokio::test]
async fn a_start_that_is_given_up_before_its_turn_creates_nothing() {
    let table = Table::lay().await;
    set(&table.database, "q", LimitKind::Open(1)).await;
    let blocker = table.begin().await;
    blocker.batch_execute("SELECT FROM limits FOR UPDATE").await.unwrap();
    tokio::select! {
        _ = create(&table.database, queued("first", "k")) => panic!("it has no turn"),
        () = table.until_blocked(1) => {}
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(create(&table.database, queued("second", "k")).await, Created::New);
    assert_eq!(table.number("SELECT count(*) FROM runs").await, 1);
}

/// Whoever has waited for the lock of a limit counts what was created meanwhile.
#[tokio::test]
async fn a_limit_of_open_runs_holds_where_transactions_are_serializable_by_default() {
    a_limit_of_open_runs_holds(options(), "SELECT FROM limits FOR UPDATE").await;
}

/// There the transactions are serializable indeed.
#[tokio::test]
async fn a_limit_of_open_runs_holds_in_portable_mode() {
    a_limit_of_open_runs_holds(options().portable(true), "UPDATE limits SET n = n").await;
}

async fn a_limit_of_open_runs_holds(options: PostgresOptions, lock: &str) {
    let own = Cluster::shared().database().await;
    let default =
        format!("ALTER DATABASE \"{}\" SET default_transaction_isolation = 'serializable'", own.name());
    Cluster::shared().sql(&[default]).await;
    let database = Database::open(&own.url(), options).await.unwrap();
    set(&database, "q", LimitKind::Open(1)).await;
    let client = connect(&own.url()).await;
    let first = create(&database, queued("first", "k")).await;
    assert_eq!(first, Created::New);
    client.batch_execute("UPDATE runs SET status = 3").await.unwrap();
    let creating = connect(&own.url()).await;
    creating.batch_execute(&format!("BEGIN ISOLATION LEVEL READ COMMITTED; {lock}")).await.unwrap();
    let waiting = tokio::spawn(async move { create(&database, queued("second", "k")).await });
    let blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted
        AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    while client.query_typed(blocked, &[]).await.unwrap()[0].get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Another process has created one, and lets go of the lock.
    client.batch_execute("UPDATE runs SET status = 0").await.unwrap();
    creating.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Created::OverLimit { .. }), "over its limit");
}

/// A worker that is paused in the middle of a claim keeps the lock of its queue until the server ends its transaction.
#[tokio::test]
async fn a_queue_that_a_paused_worker_serves_holds_up_its_own_runs_alone() {
    let table = Table::lay().await;
    assert_eq!(create(&table.database, queued("queued", "k")).await, Created::New);
    table.run("free", None, 1).await;
    let paused = table.begin().await;
    paused.batch_execute("SELECT FROM queues FOR UPDATE").await.unwrap();
    let request = request("w", 5);
    let claim = tokio::time::timeout(Duration::from_secs(90), table.database.claim(&request)).await;
    assert_eq!(names(&claim.expect("a paused worker holds up all claims").unwrap()), ["free"]);
    paused.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(names(&table.database.claim(&request).await.unwrap()), ["queued"]);
}

/// Keys that wait for their limits, however many, do not keep back one that could have a turn.
#[tokio::test]
async fn keys_at_their_limits_keep_no_other_one_back() {
    let table = Table::lay().await;
    set(&table.database, "q/full/*", LimitKind::Running(0)).await;
    assert_eq!(create(&table.database, queued("first", "full/0")).await, Created::New);
    table.client.batch_execute(&many_keys("full", 2_000)).await.unwrap();
    let lanes = "INSERT INTO lanes SELECT queue, queue_key, 0, 0, false FROM due";
    table.client.batch_execute(lanes).await.unwrap();
    assert_eq!(create(&table.database, queued("free", "zz")).await, Created::New);
    table.client.batch_execute("INSERT INTO lanes VALUES ('q', 'zz', 0, 0, false)").await.unwrap();
    let since = Instant::now();
    assert_eq!(names(&table.database.claim(&one(5)).await.unwrap()), ["free"]);
    println!("a claim behind 2,000 keys at their limits: {:?}", since.elapsed());
    let aside = table.number("SELECT count(*) FROM lanes WHERE state = 2").await;
    assert!((1_000..2_001).contains(&aside), "{aside} are left out for a while");
}

/// The first run of a key that is new is not found only once the claims have been through all others.
#[tokio::test]
async fn a_new_key_among_thousands_has_its_first_turn_soon() {
    let table = Table::lay().await;
    assert_eq!(create(&table.database, queued("first", "a/0")).await, Created::New);
    table.client.batch_execute(&many_keys("a", 6_000)).await.unwrap();
    // The claims have been at the beginning, and go through the keys from there.
    let mut before = 0;
    for now in 1..4 {
        before += table.database.claim(&one(now)).await.unwrap().len();
    }
    assert_eq!(before, 3);
    assert_eq!(create(&table.database, queued("new", "0")).await, Created::New);
    let mut turns = 0;
    while names(&table.database.claim(&one(9)).await.unwrap()) != ["new"] {
        turns += 1;
        assert!(turns <= 2, "{turns} turns of other keys came first");
    }
}

/// A queue whose only run is held, and was sent a message, has something to do that nobody can take: however many there are,
/// another one has its turn.
#[tokio::test]
async fn queues_that_give_nothing_keep_no_other_one_back() {
    for (portable, held) in [(false, 16), (false, 130), (true, 1), (true, 20)] {
        let table = Table::with(options().portable(portable)).await;
        let mut all: Vec<_> = (0..held).map(|no| format!("h{no}")).collect();
        all.push("late".into());
        for queue in &all {
            assert_eq!(create(&table.database, queued_in(queue, queue)).await, Created::New);
        }
        let mut leases = Vec::new();
        while leases.len() < all.len() {
            leases.extend(table.database.claim(&request("w", 1)).await.unwrap());
        }
        let late = leases.iter().find(|lease| lease.run.id.as_str() == "late").unwrap();
        table
            .client
            .batch_execute("UPDATE runs SET status = 3, owner = NULL WHERE id = 'late'")
            .await
            .unwrap();
        assert_eq!(late.run.epoch, 1);
        let rows = "INSERT INTO due(shard, run, wake_at, code, seq, notified, queue)
            SELECT shard, id, created_at, code, 1, false, queue FROM runs WHERE owner IS NOT NULL";
        table.client.batch_execute(rows).await.unwrap();
        assert_eq!(create(&table.database, queued_in("late-2", "late")).await, Created::New);
        let mut claims = 1;
        while names(&table.database.claim(&one(5)).await.unwrap()) != ["late-2"] {
            claims += 1;
            assert!(claims <= 3, "{held} queues keep another one back; portable: {portable}");
        }
        assert!(held > 16 || claims == 1, "{claims} claims behind {held} queues; portable: {portable}");
    }
}

/// Runs of as many more keys, each like the only one that is there.
fn many_keys(prefix: &str, keys: u32) -> String {
    format!(
        "INSERT INTO runs SELECT r.shard, '{prefix}-' || n, r.place + n, r.workflow, r.version, r.code, r.parked,
            r.status, r.digest, r.parent, r.created_at, r.ended_at, r.labels, r.traceparent, r.epoch, r.owner, r.ending,
            r.terms, r.queue, '{prefix}/' || n, r.rank, r.begun, r.slot, r.started_at, r.lapses_at
            FROM runs r, generate_series(1, {keys}) n;
        INSERT INTO due SELECT d.shard, '{prefix}-' || n, d.wake_at, d.code, 0, false, d.queue, d.ready,
            '{prefix}/' || n, d.begun, d.rank, d.place + n FROM due d, generate_series(1, {keys}) n;
        INSERT INTO journal SELECT j.shard, '{prefix}-' || n, 0, 0, 1, j.at, 0, false, j.events, j.chain
            FROM journal j, generate_series(1, {keys}) n;
        ANALYZE;"
    )
}

/// What a claim of another worker needs: the locks of one that is paused in the middle of its own last seconds.
#[tokio::test]
async fn a_worker_that_is_paused_in_a_claim_lets_go_of_its_queues() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = options().connections(1);
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), far).await.unwrap();
    // Its connection is made and its statements are prepared, before there is something to take.
    assert_eq!(names(&far.claim(&request("far", 0)).await.unwrap()), [""; 0]);
    assert_eq!(create(&table.database, queued("queued", "k")).await, Created::New);
    // It has its queue when it comes to the limits.
    let blocker = table.begin().await;
    blocker.batch_execute("LOCK TABLE limits").await.unwrap();
    let claiming = far.clone();
    let paused = tokio::spawn(async move { claiming.claim(&request("far", 5)).await });
    table.until_blocked(1).await;
    proxy.freeze();
    let since = Instant::now();
    blocker.batch_execute("COMMIT").await.unwrap();
    let mut found = Vec::new();
    while found.is_empty() {
        found = table.database.claim(&request("near", 5)).await.unwrap();
    }
    assert_eq!(names(&found), ["queued"]);
    // The server waits for 30 s for a transaction that is no claim.
    assert!(since.elapsed() < Duration::from_secs(20), "its locks were held for {:?}", since.elapsed());
    proxy.thaw();
    assert_eq!(names(&paused.await.unwrap().unwrap()), [""; 0]);
    assert_eq!(create(&table.database, queued("next", "k")).await, Created::New);
    assert_eq!(names(&far.claim(&request("far", 6)).await.unwrap()), ["next"]);
}

/// The server says so in place of the next answer, or ends the connection before there is a question.
#[tokio::test]
async fn a_transaction_that_the_server_has_ended_is_made_again() {
    let table = Table::lay().await;
    let (mut tries, gone) = (
        0,
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'
        AND datname = current_database()",
    );
    let answer: Result<i64, _> = ask!(table.database, |conn| {
        tries += 1;
        let pause = Duration::from_millis(if tries == 1 { 1 } else { 60_000 });
        let transaction = conn.begin_for(pause).await?;
        while tries == 1 && table.number(gone).await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let found = transaction.query("SELECT 7::int8", &[]).await?;
        transaction.commit().await?;
        found.first().map_or(Ok(0), |row| crate::row::get(row, 0))
    });
    assert_eq!((answer, tries), (Ok(7), 2));
}
