//! A damaged row, as a bit that has flipped or a hand that has slipped leaves it, is in the way of no other.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::sync::Arc;
use std::time::Duration;

use aether_core::clock_change::{Gap, Repeat};
use aether_core::contract::Status;
use aether_core::id::{CodeId, CommandId, WorkerId};
use aether_core::payload::Payload;
use aether_core::queue::{QueuePlace, Serves, StartTerms};
use aether_core::store::{
    CatchUp, ClaimRequest, DueSchedules, DueStarts, EndedRuns, ForeignRuns, KeyedStart, Lease, Limit,
    LimitKind, Message, NewRun, OpenWait, Overlap, RunRecord, ScheduleRecord, ScheduleSpec, SilentWorker,
    Store, WaitFilter,
};
use aether_core::waiting::Waiting;
use aether_sqlite::SqliteStore;
use jiff::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;

use kit::{at, claim, id, new_run};

mod kit;

/// A store and a connection of somebody else to its file.
struct File {
    store: SqliteStore,
    other: Connection,
    _folder: TempDir,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let store = SqliteStore::open(&path).unwrap();
        Self { store, other: Connection::open(&path).unwrap(), _folder: folder }
    }

    /// Free runs, due in the order of their names.
    async fn create(&self, names: &[&str], queue: Option<&str>) {
        for (name, second) in names.iter().zip(0..) {
            let place =
                queue.map(|queue| QueuePlace { queue: queue.into(), key: String::new(), priority: 0 });
            let terms = StartTerms { queue: place, ..StartTerms::default() };
            let new = NewRun { owner: None, at: at(second), code: code(), terms, ..new_run(name) };
            self.store.create(new).await.unwrap();
        }
    }

    fn damage(&self, sql: &str) {
        assert!(self.other.execute(sql, []).unwrap() > 0, "{sql}");
    }

    async fn claim(&self, limit: usize) -> Vec<String> {
        let request = ClaimRequest { limit, codes: vec![code()], ..claim("worker", 60) };
        names(self.store.claim(request).await.unwrap())
    }
}

fn code() -> CodeId {
    CodeId::of("shop", "flow", 1, "0011223344556677")
}

fn names(leases: Vec<Lease>) -> Vec<String> {
    leases.into_iter().map(|lease| lease.run.id.to_string()).collect()
}

const BOGUS: &str = "UPDATE aether_runs SET status = 'bogus' WHERE id LIKE 'damaged%'";

#[tokio::test]
async fn damaged_runs_that_are_due_take_no_places_of_a_claim() {
    let file = File::new();
    file.create(&["damaged1", "damaged2", "a", "b"], None).await;
    file.damage(BOGUS);
    assert_eq!(file.claim(1).await, ["a"]);
    assert_eq!(file.claim(2).await, ["b"]);
    file.damage("UPDATE aether_runs SET status = 'pending' WHERE id = 'damaged2'");
    assert_eq!(file.claim(1).await, ["damaged2"], "it is due again once it is mended");
}

#[tokio::test]
async fn damaged_runs_of_a_silent_worker_take_no_places_of_a_claim() {
    let file = File::new();
    for name in ["damaged1", "a"] {
        file.store.create(new_run(name)).await.unwrap();
    }
    file.damage(BOGUS);
    file.damage("UPDATE aether_runs SET queue = CAST(x'ff' AS TEXT), queue_key = '' WHERE id = 'damaged1'");
    let silent = vec![SilentWorker { id: new_run("a").owner.unwrap(), renewals: 0 }];
    let request = ClaimRequest { limit: 1, silent, ..claim("worker", 60) };
    assert_eq!(names(file.store.claim(request).await.unwrap()), ["a"]);
}

#[tokio::test]
async fn a_damaged_run_of_a_queue_takes_no_place_no_slot_and_no_start() {
    let file = File::new();
    let hour = Duration::from_secs(3600);
    for kind in [LimitKind::Starts { n: 2, per: hour }, LimitKind::Running(2)] {
        file.store.put_limit(Limit::new("mail", kind).unwrap()).await.unwrap();
    }
    file.create(&["damaged", "a", "b", "c"], Some("mail")).await;
    file.damage(BOGUS);
    assert_eq!(file.claim(1).await, ["a"]);
    assert_eq!(file.claim(1).await, ["b"]);
    assert_eq!(file.claim(1).await, [""; 0], "both starts are used");
    assert!(file.store.queue_position(&id("c"), at(60)).await.unwrap().unwrap().limit.is_some());
    let starts: i64 =
        file.other.query_row("SELECT count(*) FROM aether_starts", [], |row| row.get(0)).unwrap();
    assert_eq!(starts, 2);
}

#[tokio::test]
async fn a_damaged_run_that_has_expired_takes_no_place() {
    let file = File::new();
    file.create(&["damaged", "a"], Some("mail")).await;
    file.damage(BOGUS);
    file.damage("UPDATE aether_runs SET lapses_at = created_at");
    assert_eq!(file.claim(1).await, ["a"]);
}

#[tokio::test]
async fn a_place_in_a_queue_that_is_no_text_keeps_no_other_run_from_being_claimed() {
    let file = File::new();
    file.create(&["damaged", "a"], Some("mail")).await;
    file.create(&["b"], None).await;
    file.damage("UPDATE aether_runs SET ready = NULL, queue = CAST(x'ff' AS TEXT) WHERE id = 'damaged'");
    assert_eq!(file.claim(3).await, ["b", "a"]);
}

#[tokio::test]
async fn a_damaged_limit_is_none_and_keeps_nothing_from_being_claimed() {
    let file = File::new();
    let limit = |pattern, n| Limit::new(pattern, LimitKind::Running(n)).unwrap();
    for (pattern, n) in [("jobs", 1), ("mail", 1)] {
        file.store.put_limit(limit(pattern, n)).await.unwrap();
    }
    file.damage("UPDATE aether_limits SET n = -1 WHERE pattern = 'jobs'");
    file.create(&["a"], None).await;
    file.create(&["b", "c"], Some("mail")).await;
    assert_eq!(file.claim(3).await, ["a", "b"]);
    assert_eq!(file.store.limits().await.unwrap(), [limit("mail", 1)]);
}

#[tokio::test]
async fn damaged_runs_of_other_code_shorten_no_page() {
    let file = File::new();
    file.create(&["damaged1", "a", "damaged2", "b", "c"], None).await;
    file.damage(BOGUS);
    let foreign = async |limit, after| {
        let query = ForeignRuns { codes: Vec::new(), due: None, after, limit };
        file.store.foreign(query).await.unwrap()
    };
    let ids = |runs: &[RunRecord]| runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>();
    let page = foreign(2, None).await;
    assert_eq!(ids(&page), ["a", "b"]);
    assert_eq!(ids(&foreign(2, Some(page[1].place)).await), ["c"]);
    assert_eq!(ids(&foreign(0, None).await), ["a", "b", "c"]);
}

const LABELS: &str = "UPDATE aether_runs SET labels = '{' WHERE id LIKE 'damaged%'";

#[tokio::test]
async fn damaged_runs_that_have_ended_hide_no_others() {
    let file = File::new();
    file.create(&["damaged1", "damaged2", "a", "b"], None).await;
    file.damage("UPDATE aether_runs SET status = 'completed'");
    file.damage(LABELS);
    let query = EndedRuns { before: vec![(Status::Completed, at(60))], after: 0, limit: 1 };
    let page = file.store.ended(query.clone()).await.unwrap();
    assert_eq!(page[0].1.id, id("a"));
    let page = file.store.ended(EndedRuns { after: page[0].0, ..query }).await.unwrap();
    assert_eq!(page[0].1.id, id("b"));
}

#[tokio::test]
async fn damaged_runs_with_messages_hide_no_others() {
    let file = File::new();
    file.create(&["a", "damaged1", "damaged2"], None).await;
    file.store.create(new_run("held")).await.unwrap();
    file.store.create(new_run("damaged3")).await.unwrap();
    for name in ["a", "damaged1", "damaged2", "damaged3", "held"] {
        let (topic, payload) = ("signal:m".into(), Payload::null());
        let message = Message { seq: 0, id: "m".into(), topic, payload, at: at(9) };
        file.store.send(&id(name), message).await.unwrap();
    }
    file.damage("UPDATE aether_runs SET status = 'waiting' WHERE owner IS NULL");
    file.damage(LABELS);
    file.damage("UPDATE aether_runs SET id = '' WHERE id = 'damaged3'");
    let waiting = file.store.unread_waiting(None, 1).await.unwrap();
    assert_eq!(waiting[0].0.id, id("a"));
    let held = file.store.unread_held(&new_run("held").owner.unwrap()).await.unwrap();
    assert_eq!(held.iter().map(|(run, _)| run).collect::<Vec<_>>(), [&id("held")]);
}

fn schedule(name: &str, next: Timestamp) -> ScheduleRecord {
    let spec = ScheduleSpec {
        labels: Default::default(),
        workflow: "flow".into(),
        module: "shop".into(),
        version: 1,
        input: Payload::null(),
        cron: "0 3 * * *".into(),
        zone: "UTC".into(),
        overlap: Overlap::Wait,
        catch_up: CatchUp::All(7),
        jitter_ms: 0,
        gap: Gap::Skip,
        repeat: Repeat::Twice,
    };
    ScheduleRecord {
        name: name.into(),
        spec,
        paused: false,
        next,
        delay_ms: 0,
        starting: Vec::new(),
        last: None,
        recent: Vec::new(),
        created_at: at(0),
        revision: 1,
    }
}

#[tokio::test]
async fn damaged_schedules_and_keyed_starts_hide_no_others() {
    let file = File::new();
    for (name, second) in [("damaged", 1), ("fine", 2)] {
        file.store.put_schedule(schedule(name, at(second)), 0).await.unwrap();
        let start = KeyedStart {
            name: name.into(),
            workflow: "flow".into(),
            due_at: at(second),
            record: Payload::null(),
            revision: 1,
        };
        file.store.put_keyed_start(start, 0).await.unwrap();
    }
    file.damage("UPDATE aether_schedules SET record = '{' WHERE name = 'damaged'");
    file.damage("UPDATE aether_keyed_starts SET record = '{' WHERE name = 'damaged'");
    let (now, workflows) = (at(600), Arc::<[String]>::from(["flow".to_owned()]));
    let query = DueSchedules { now, workflows: workflows.clone(), after: None, limit: 1 };
    assert_eq!(file.store.due_schedules(query).await.unwrap()[0].name, "fine");
    assert_eq!(file.store.schedules(None, 1).await.unwrap()[0].name, "fine");
    let query = DueStarts { now, workflows, after: None, limit: 1 };
    assert_eq!(file.store.due_starts(query).await.unwrap()[0].name, "fine");
}

#[tokio::test]
async fn damaged_workers_times_and_definitions_are_in_the_way_of_nobody() {
    let file = File::new();
    let worker = |name: &str| WorkerId::from(name.to_owned());
    let lease = Duration::from_secs(60);
    for name in ["damaged", "w"] {
        assert!(file.store.register(&worker(name), lease, vec![code()]).await.unwrap());
        file.store.serve(&worker(name), Serves::ALL).await.unwrap();
    }
    for name in ["a", "x"] {
        file.store.create(NewRun { owner: Some(worker("damaged")), ..new_run(name) }).await.unwrap();
    }
    file.create(&["b", "c"], None).await;
    file.damage("UPDATE aether_workers SET renewals = -7, lease = -1, serves = '{' WHERE worker = 'damaged'");
    file.damage("UPDATE aether_runs SET wake_at = -9223372036854775808 WHERE id = 'b'");
    assert_eq!(file.store.known_workers().await.unwrap().len(), 2);
    assert_eq!(file.store.serving_elsewhere(&worker("me")).await.unwrap().len(), 2);
    let held = file.store.workers().await.unwrap();
    assert_eq!((held[0].renewals, held[0].lease), (0, None));
    assert_eq!(file.store.next_wake().await.unwrap(), Some(Timestamp::MIN));
    let silent = vec![SilentWorker { id: worker("damaged"), renewals: 0 }];
    let codes = vec![code(), CodeId::default()];
    let request = ClaimRequest { silent, codes, ..claim("w", 60) };
    assert_eq!(names(file.store.claim(request).await.unwrap()), ["a", "x", "c"]);
    // The worker was not dead after all, and must hear of the loss.
    file.damage("UPDATE aether_runs SET id = '' WHERE id = 'x'");
    let lost = file.store.renew(&worker("damaged"), lease, Vec::new()).await.unwrap();
    assert_eq!(lost.iter().map(|lost| &lost.run).collect::<Vec<_>>(), [&id("a")]);
    assert_eq!(file.store.known_workers().await.unwrap().iter().map(|w| w.id.as_str()).max(), Some("w"));
}

#[tokio::test]
async fn a_damaged_wait_hides_no_other() {
    let file = File::new();
    file.create(&["a", "b"], None).await;
    for name in ["a", "b"] {
        let wait = OpenWait {
            command: CommandId::new("0", "wait"),
            waiting: Waiting::Signal,
            name: name.into(),
            since: at(1),
            until: None,
            site: None,
            detail: Payload::null(),
        };
        file.store.list_waits(&id(name), 1, vec![wait]).await.unwrap();
    }
    file.damage("UPDATE aether_waits SET kind = 'bogus' WHERE name = 'a'");
    let waits = file.store.waits(WaitFilter { limit: 1, ..WaitFilter::default() }).await.unwrap();
    assert_eq!(waits.iter().map(|wait| &wait.run).collect::<Vec<_>>(), [&id("b")]);
}
