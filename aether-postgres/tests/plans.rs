//! No statement of the store reads more of a full database than what it is about.
//!
//! Promise: what is checked are the plans that the server carried out, of whatever the store sent. None scans a table
//! sequentially that has rows for each run, and no part of one gives or drops more rows than a page holds, so that a walk
//! through a whole index is found, too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::queue::QueuePlace;
use aether_core::store::{
    ClaimRequest, Cursor, EndedRuns, ForeignRuns, Limit, LimitKind, Message, RunFilter, SilentWorker, Store,
    WaitFilter,
};
use aether_core::waiting::Waiting;
use aether_pg_tests::{Cluster, Database};
use aether_postgres::{PostgresOptions, PostgresStore};
use aether_testing::conformance as rules;
use jiff::Timestamp;
use tokio_postgres::NoTls;

/// The tables that have rows for each run.
const OF_RUNS: [&str; 12] = [
    "runs",
    "labels",
    "journal",
    "ledger",
    "due",
    "inbox",
    "waits",
    "effects",
    "blobs",
    "snapshots",
    "progress",
    "lost",
];

/// No part of a plan may give or drop more rows: a page, or one look into each of 4,096 shards.
const MOST: u64 = 4_200;

/// 12,000 runs that have ended, 6,000 that wait, 100 that a worker holds, 100 that are due now; an analyzed database, or
/// one that was never analyzed. They are of three workflows, and their codes are no rule's.
const FILL: &str = "
SET search_path = aether;
INSERT INTO runs SELECT (n * 7 % 4096)::int2, 'fill-' || n, n::int8 << 12, 'filling-' || n % 3, 1, 'filling-' || n % 3, n % 2000 = 0 AND n > 12000,
    CASE WHEN n <= 12000 THEN 3 + n % 4 WHEN n <= 18000 THEN 2 WHEN n <= 18100 THEN 1 ELSE 0 END, repeat('d', 64), CASE WHEN n % 1000 = 0 THEN 'fill-1' END,
    1600000000000000 + n, CASE WHEN n <= 12000 THEN 1600000000000001 + n END, '{}', NULL, 1,
    CASE WHEN n BETWEEN 18001 AND 18100 THEN 'filler' END, NULL FROM generate_series(1, 18200) n;
UPDATE runs SET digest = (SELECT digest FROM given);
INSERT INTO labels SELECT 'customer', 'c-' || place % 50, place, shard, id FROM runs;
INSERT INTO journal SELECT shard, id, f, f, 1, created_at, 1, f = 1 AND status > 2, '[]', decode(repeat('00', 32), 'hex')
    FROM runs, generate_series(0, 1) f;
INSERT INTO due SELECT shard, id, CASE status WHEN 0 THEN 1600000000000000 ELSE 9000000000000000 END + place % 9000, code, 0, false
    FROM runs WHERE status IN (0, 2) AND place % 3 > 0;
INSERT INTO inbox SELECT shard, id, s, 'm' || s, 'signal:x', 'null', 0, CASE WHEN s = 1 OR status > 2 THEN 2 END
    FROM runs, generate_series(1, 2) s WHERE place >> 12 > 18050 OR place >> 12 < 6000;
INSERT INTO waits SELECT shard, id, '1:x', place, CASE WHEN (place >> 12) % 100 = 0 THEN 'approval' ELSE 'timer' END, 'x', 0, NULL, NULL, 'null'
    FROM runs WHERE status = 2;
INSERT INTO ledger SELECT shard, id, id || ':key', 1, '1:x', 'i', 't', digest, NULL, false, 1, NULL, NULL, true, 1, 0, 0 FROM runs;
INSERT INTO effects SELECT shard, id, 'key', 1, 1, '[]', NULL FROM runs;
INSERT INTO blobs SELECT shard, id, 'hash', '' FROM runs;
INSERT INTO snapshots SELECT shard, id, 1, '{}' FROM runs;
INSERT INTO progress SELECT shard, id, '1:x', '{}' FROM runs WHERE status < 3;
INSERT INTO lost SELECT 'filler', shard, id, 1 FROM runs;
INSERT INTO queues VALUES ('filled', 0, 0, '');
UPDATE runs SET queue = 'filled', queue_key = 'k-' || place % 20, rank = place, begun = true, slot = status = 1
    WHERE status IN (1, 2) AND NOT parked;
UPDATE due d SET queue = r.queue FROM runs r WHERE r.shard = d.shard AND r.id = d.run AND r.queue IS NOT NULL AND r.place % 2 = 0;
INSERT INTO workers VALUES ('filler', 5, 60000000);
DROP TABLE given;
";

/// 10,000 runs that are due and 10,000 of one key of a queue, all of one code, beside few runs of others that have ended;
/// analyzed: the planner believes that the code singles out one run of seven.
const BACKLOG: &str = "
SET search_path = aether;
INSERT INTO runs SELECT (n * 7 % 4096)::int2, 'back-' || n, n::int8 << 12, 'filling', 1,
    'filling-' || CASE WHEN n % 100 = 0 THEN 1 + n / 100 % 6 ELSE 0 END, false, CASE WHEN n % 100 = 0 THEN 3 ELSE 0 END,
    repeat('d', 64), NULL, 1600000000000000 + n, NULL, '{}', NULL, 1, NULL, NULL FROM generate_series(1, 20000) n;
UPDATE runs SET queue = 'backlog', queue_key = 'k', rank = place WHERE (place >> 12) % 2 = 0 AND status = 0;
INSERT INTO journal SELECT shard, id, 0, 0, 1, created_at, 1, false, '[]', decode(repeat('00', 32), 'hex') FROM runs;
INSERT INTO due(shard, run, wake_at, code, seq, notified, queue, ready, queue_key, begun, rank, place)
    SELECT shard, id, created_at, code, 0, false, queue, CASE WHEN queue IS NOT NULL THEN created_at END, queue_key,
        CASE WHEN queue IS NOT NULL THEN false END, rank, CASE WHEN queue IS NOT NULL THEN place END FROM runs WHERE status = 0;
INSERT INTO queues VALUES ('backlog', 0, 0, '');
VACUUM ANALYZE;
";

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_600_000_000_000_000 + micros).unwrap()
}

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name.to_owned())
}

fn code(n: u32) -> CodeId {
    CodeId::from(format!("filling-{n}"))
}

fn cluster() -> Cluster {
    Cluster::begin(
        Cluster::options()
            .setting("session_preload_libraries", "auto_explain")
            .setting("auto_explain.log_min_duration", "0")
            .setting("auto_explain.log_analyze", "on")
            .setting("auto_explain.log_timing", "off")
            .setting("autovacuum", "off"),
    )
}

/// A database with many runs.
async fn full(cluster: &Cluster, analyzed: bool) -> Database<'_> {
    let template = if analyzed { "analyzed" } else { "not_analyzed" };
    cluster
        .database_from(template, async |url: String| {
            let store = PostgresStore::connect(&url).await.unwrap();
            let digest = aether_core::payload::Digest::of(&aether_core::payload::Payload::null()).unwrap();
            let digest = serde_json::to_value(digest).unwrap().as_str().unwrap().to_owned();
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let given = format!("CREATE TABLE aether.given AS SELECT '{digest}' AS digest;");
            client.batch_execute(&(given + FILL)).await.unwrap();
            if analyzed {
                client.batch_execute("VACUUM ANALYZE").await.unwrap();
            }
            store.close().await.unwrap();
        })
        .await
}

/// Every plan since `from` that reads too much, with its statement.
fn offenders(log: &str, from: usize) -> Vec<String> {
    let mut found = Vec::new();
    for entry in log[from..].split("Query Text: ").skip(1) {
        let plan: Vec<_> = entry.lines().take_while(|line| !line.contains(" LOG: ")).collect();
        if let Some(line) = plan.iter().find(|line| is_offending(line)) {
            found.push(format!("{}\n{}", line.trim(), plan.join("\n")));
        }
    }
    found
}

fn is_offending(line: &str) -> bool {
    let scanned = line.split_once("Seq Scan on ").map(|(_, table)| table.split(' ').next().unwrap());
    if scanned.is_some_and(|table| OF_RUNS.contains(&table)) {
        return true;
    }
    let number = |after: &str| {
        let digits = line.split_once(after)?.1.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let given =
        line.split_once("(actual rows=").and_then(|_| Some(number("(actual rows=")? * number("loops=")?));
    given.or_else(|| number("Rows Removed by Filter: ")).is_some_and(|rows| rows > MOST)
}

/// Reads of every kind, each of a page.
async fn read_pages(store: &Arc<dyn Store>) {
    let all = || RunFilter::new().limit(50);
    let failed = [Status::Completed, Status::Failed];
    for filter in [
        all(),
        all().after(Cursor::new(9_000 << 12)),
        all().workflow("filling-1"),
        all().workflow("filling-1").after(Cursor::new(9_000 << 12)),
        all().workflow("none"),
        all().statuses(failed),
        all().workflow("filling-2").statuses(failed).after(Cursor::new(9_000 << 12)),
        all().open(),
        all().code(code(1)).open(),
        all().parked(true),
        all().parent(RunId::new("fill-1").unwrap()),
        all().label("customer", "c-0"),
        all().label("customer", "c-0").label("tier", "gold"),
        all().id_prefix("fill-77"),
        all().queue("filled"),
        all().created_after(at(18_100)),
        all().created_after(at(900)).created_before(at(950)),
    ] {
        let page = store.runs(filter.clone()).await.unwrap_or_else(|error| panic!("{filter:?}: {error}"));
        assert!(page.len() <= 50 && page.is_sorted_by(|a, b| a.place > b.place), "{filter:?}");
    }
    for filter in [
        all().parent(RunId::new("fill-1").unwrap()),
        all().id_prefix("fill-77"),
        all().status(Status::Pending),
        all().label("customer", "c-1"),
    ] {
        store.count(filter).await.unwrap();
    }
    let waits = WaitFilter::default().limit(20);
    assert_eq!(store.waits(waits.clone()).await.unwrap().len(), 20);
    assert_eq!(store.waits(waits.kind(Waiting::Approval)).await.unwrap().len(), 20);
    let ended = EndedRuns {
        before: vec![(Status::Failed, at(900)), (Status::Completed, at(20))],
        after: 0,
        limit: 40,
    };
    assert_eq!(store.ended(ended).await.unwrap().len(), 40);
    assert_eq!(store.unread_waiting(None, 30).await.unwrap().len(), 0);
    assert_eq!(store.unread_held(&worker("filler")).await.unwrap().len(), 50);
    store.inbox(&RunId::new("fill-18060").unwrap(), 0).await.unwrap();
}

/// Claims, and everything that looks for work.
async fn look_for_work(store: &Arc<dyn Store>) {
    assert_eq!(
        store.next_wake().await.unwrap().map(|at| at.as_microsecond() < 1_700_000_000_000_000),
        Some(true)
    );
    let silent = vec![SilentWorker { id: worker("filler"), renewals: 5 }];
    for due in [None, Some((at(90_000), silent.clone()))] {
        let query = ForeignRuns { codes: vec![code(0), code(1)], due, after: None, limit: 25 };
        assert_eq!(store.foreign(query).await.unwrap().len(), 25);
    }
    assert_eq!(store.workers().await.unwrap().len(), 1);
    assert_eq!(store.register(&worker("w"), Duration::from_secs(60), vec![code(0)]).await, Ok(true));
    let claim = ClaimRequest {
        worker: worker("w"),
        now: at(90_000),
        silent: Vec::new(),
        limit: 10,
        codes: vec![code(0), code(1), code(2)],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    };
    assert_eq!(store.claim(claim.clone()).await.unwrap().len(), 10);
    assert_eq!(store.claim(ClaimRequest { silent, ..claim.clone() }).await.unwrap().len(), 10);
    let named = (17_000..17_009).map(|n| RunId::new(format!("fill-{n}")).unwrap()).collect();
    store.claim(ClaimRequest { adopt: named, ..claim.clone() }).await.unwrap();
    store.claim(ClaimRequest { only: RunId::new("fill-17777").ok(), ..claim.clone() }).await.unwrap();
    let claim_in_queues = ClaimRequest { now: at(7_500_000_000_000_000), ..claim };
    look_into_queues(store, claim_in_queues).await;
    store.renew(&worker("w"), Duration::from_secs(60), Vec::new()).await.unwrap();
    store.codes_elsewhere(&worker("v")).await.unwrap();
    let signal = Message {
        seq: 0,
        id: "signal".into(),
        topic: "signal:x".into(),
        payload: aether_core::payload::Payload::null(),
        at: at(1),
    };
    store.create(new_run("own")).await.unwrap();
    store.send(&RunId::new("own").unwrap(), signal.clone()).await.unwrap();
    store
        .send(&RunId::new("own").unwrap(), Message { topic: "cancel".into(), id: "c".into(), ..signal })
        .await
        .unwrap();
    store.retire(&worker("w")).await.unwrap();
}

/// Everything about queues: 6,000 runs have begun, and become ready at once.
async fn look_into_queues(store: &Arc<dyn Store>, claim: ClaimRequest) {
    for (pattern, kind) in [
        ("filled", LimitKind::Running(150)),
        ("filled/*", LimitKind::Starts { n: 3, per: Duration::from_secs(1) }),
        ("filled/*", LimitKind::Open(500)),
    ] {
        store.put_limit(Limit::new(pattern, kind).unwrap()).await.unwrap();
    }
    let mut new = new_run("queued");
    let place = QueuePlace::new("filled").unwrap();
    (new.owner, new.terms.queue, new.code) = (None, Some(place), code(0));
    store.create(new).await.unwrap();
    for _ in 0..3 {
        assert_eq!(store.claim(claim.clone()).await.unwrap().len(), 10);
    }
    let queued = RunId::new("queued").unwrap();
    store.queue_position(&queued, claim.now).await.unwrap();
    store.claim(ClaimRequest { only: Some(queued), ..claim }).await.unwrap();
    assert_eq!(store.limits().await.unwrap().len(), 3);
}

fn new_run(name: &str) -> aether_core::store::NewRun {
    aether_core::store::NewRun {
        id: RunId::new(name).unwrap(),
        workflow: "own".into(),
        version: 1,
        code: CodeId::from("own".to_owned()),
        digest: aether_core::payload::Digest::of(&aether_core::payload::Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: aether_core::journal::Frame { count: 1, text: "[]".into() },
        at: at(0),
        owner: Some(worker("w")),
        parent_epoch: None,
        terms: Default::default(),
    }
}

/// Rules of the suite that other runs in the store do not change.
async fn write(store: &Arc<dyn Store>, number: usize) {
    match number {
        0 => rules::appends::frames_are_ordered_and_chained(store).await,
        1 => rules::appends::pages_make_up_the_journal(store).await,
        2 => rules::ledger::updates_ride_with_appends(store).await,
        3 => rules::ledger::a_fork_comes_with_its_rows(store).await,
        4 => rules::inbox::a_message_during_suspension_is_not_lost(store).await,
        5 => rules::inbox::a_notification_during_suspension_is_not_lost(store).await,
        6 => rules::inbox::a_request_to_end_is_not_overtaken(store).await,
        7 => rules::leases::a_taken_over_worker_is_fenced(store).await,
        8 => rules::leases::released_runs_are_free(store).await,
        9 => rules::codes::an_append_changes_the_code_of_its_run(store).await,
        10 => rules::renewal::a_generation_begins_a_journal(store).await,
        11 => rules::purge::a_store_wide_key_outlives_its_run(store).await,
        12 => rules::kept::effects_are_kept(store).await,
        13 => rules::kept::the_newest_snapshot_is_kept(store).await,
        14 => rules::runs::a_child_needs_its_parent(store).await,
        _ => rules::reservations::only_the_very_reservation_is_replaced(store).await,
    }
}
const RULES: usize = 16;

#[test]
fn what_is_too_much_is_seen() {
    for (line, expected) in [
        ("  ->  Seq Scan on runs r  (cost=0.00..1.05 rows=1 width=4) (actual rows=1 loops=1)", true),
        ("  ->  Seq Scan on workers w  (cost=0.00..1.05 rows=1 width=4) (actual rows=1 loops=1)", false),
        ("  ->  Index Scan using x on runs r  (cost=0.0 rows=1 width=4) (actual rows=100 loops=43)", true),
        ("  ->  Index Scan using x on runs r  (cost=0.0 rows=9999 width=4) (actual rows=50 loops=2)", false),
        ("        Rows Removed by Filter: 9000", true),
        ("        Rows Removed by Filter: 7", false),
    ] {
        assert_eq!(is_offending(line), expected, "{line}");
    }
}

#[tokio::test]
async fn no_statement_reads_more_than_it_is_about() {
    let cluster = cluster();
    // What the planner knows of the tables matters to lists; writes find their rows by keys, and are sent in two ways.
    for (analyzed, arrays_only, numbers) in
        [(false, false, 0..RULES + 2), (false, true, 0..RULES), (true, false, RULES..RULES + 2)]
    {
        let options = PostgresOptions::new().arrays_only(arrays_only);
        // Appends of one group, and of any number of them.
        let ways = ["WITH g AS NOT MATERIALIZED (", "WITH g AS MATERIALIZED ("];
        let mut is_sent = false;
        for number in numbers {
            let database = full(&cluster, analyzed).await;
            let from = cluster.log().len();
            let store = PostgresStore::connect_with(&database.url(), options.clone()).await.unwrap();
            let store: Arc<dyn Store> = Arc::new(store);
            match number.checked_sub(RULES) {
                Some(0) => read_pages(&store).await,
                Some(_) => look_for_work(&store).await,
                None => write(&store, number).await,
            }
            store.close().await.unwrap();
            let log = cluster.log();
            assert!(log[from..].contains("Query Text: "), "the server logs no plans");
            is_sent |= log[from..].contains(ways[usize::from(arrays_only)]);
            assert!(!arrays_only || !log[from..].contains(ways[0]), "{number}");
            let found = offenders(&log, from);
            let which = format!("analyzed: {analyzed}, arrays: {arrays_only}, {number}");
            assert!(found.is_empty(), "{which}:\n{}", found.join("\n\n"));
        }
        assert!(is_sent || analyzed, "arrays: {arrays_only}: nothing is appended so");
    }
}

#[tokio::test]
async fn a_claim_reads_no_more_of_a_long_backlog() {
    let cluster = cluster();
    let database = cluster.database().await;
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for statement in BACKLOG.split_terminator(";\n") {
        client.batch_execute(statement).await.unwrap();
    }
    let from = cluster.log().len();
    let codes: Vec<_> = (0..5).map(code).collect();
    store.register(&worker("w"), Duration::from_secs(60), codes.clone()).await.unwrap();
    let claim = ClaimRequest {
        worker: worker("w"),
        now: at(90_000),
        silent: Vec::new(),
        limit: 10,
        codes,
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    };
    for _ in 0..3 {
        assert_eq!(store.claim(claim.clone()).await.unwrap().len(), 10);
    }
    store.close().await.unwrap();
    let log = cluster.log();
    assert!(
        log[from..].contains("unnest($1::text[], $2::text[]) AS n(queue, key)"),
        "no queue was looked into"
    );
    let found = offenders(&log, from);
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}
