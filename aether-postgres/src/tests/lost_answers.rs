//! Requests that were carried out and whose answers never came.

use std::sync::Arc;
use std::time::Duration;

use aether_core::payload::Payload;
use aether_core::store::ledger::Reservation;
use aether_core::store::{
    CatchUp, Created, Limit, LimitKind, NewRun, Overlap, Purged, ScheduleRecord, ScheduleSpec, Sent,
};
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::queues::queued;
use super::writer::new_run;
use super::{LEASE, Table, at, message, names, options, request, run_id, send, takeover, worker};
use crate::create::Removal;
use crate::database::Database;
use crate::error::LostAnswer;

/// A table, and a process that reaches it through a proxy.
async fn apart(patience: Duration) -> (Table, Proxy, Arc<Database>) {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let name = table.url.rsplit('/').next().unwrap();
    let far = Database::open(&proxy.url(name), options().patience(patience).connections(1)).await.unwrap();
    (table, proxy, far)
}

const PATIENT: Duration = Duration::from_secs(180);
/// Longer than a lost claim is not looked for, and much shorter than a server is waited for.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_claim_finds_what_it_got() {
    let (table, proxy, far) = apart(PATIENT).await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("free", None, 1).await;
    table.run("held", Some("first"), 0).await;
    // The worker says that it is there; what follows is a look into the queues, and the claim.
    far.claim(&request("w", 0)).await.unwrap();
    proxy.lose_after(1, 1);
    let leases = far.claim(&request("w", 5)).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch, proxy.left()), (vec!["free"], 1, 0));
    proxy.lose(1);
    let leases = far.claim(&takeover("w", 5, "first", 0)).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch, proxy.left()), (vec!["held"], 2, 0));
    assert_eq!(leases[0].taken_from, Some(worker("first")));
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), [""; 0], "each is in one answer");
    assert_eq!(table.number("SELECT count(*) FROM journal WHERE count = 0").await, 2, "and was claimed once");
}

#[tokio::test]
async fn the_next_claim_finds_what_a_failed_one_got() {
    let (table, proxy, far) = apart(Duration::ZERO).await;
    table.run("run", None, 1).await;
    far.claim(&request("w", 0)).await.unwrap();
    proxy.lose_after(1, 1);
    far.claim(&request("w", 5)).await.unwrap_err();
    assert_eq!(
        table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await,
        1,
        "it holds a run unknowingly"
    );
    assert_eq!(names(&far.claim(&request("v", 5)).await.unwrap()), [""; 0], "which is no other worker's");
    let leases = far.claim(&request("w", 5)).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch), (vec!["run"], 1));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn the_next_claim_finds_what_one_got_that_was_given_up() {
    let table = Table::lay().await;
    table.run("run", None, 1).await;
    table.database.claim(&request("w", 0)).await.unwrap();
    let blocker = table.begin().await;
    blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
    let claim = request("w", 5);
    tokio::select! {
        _ = table.database.claim(&claim) => panic!("the fence cannot be written"),
        () = table.until_blocked(1) => {}
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    let owned = "SELECT count(*) FROM runs WHERE owner = 'w'";
    while table.number(owned).await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(names(&table.database.claim(&request("w", 5)).await.unwrap()), ["run"]);
}

/// The look for a lost claim may take longer than until the next claim would look for it again.
#[tokio::test]
async fn what_a_lost_claim_got_is_given_to_one_caller() {
    let table = Table::lay().await;
    table.run("run", None, 1).await;
    table.database.claim(&request("w", 0)).await.unwrap();
    let blocker = table.begin().await;
    blocker.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
    let claim = request("w", 5);
    tokio::select! {
        _ = table.database.claim(&claim) => panic!("the fence cannot be written"),
        () = table.until_blocked(1) => {}
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    while table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    blocker.batch_execute("BEGIN; LOCK TABLE lost").await.unwrap();
    let mut claims = Vec::new();
    for blocked in 1..=2 {
        let (database, claim) = (table.database.clone(), claim.clone());
        claims.push(tokio::spawn(async move { database.claim(&claim).await.unwrap() }));
        table.until_blocked(blocked).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    let mut leases = 0;
    for claim in claims {
        leases += claim.await.unwrap().len();
    }
    assert_eq!(leases, 1, "a run is advanced twice, or by nobody");
}

/// Commits that claim wait for a lock.
const STALLS: &str = "CREATE FUNCTION aether.stall() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER stall AFTER UPDATE ON aether.runs DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION aether.stall()";

/// A try that was cut off may be carried out after the next one has found nothing, because the first had locked it all.
#[tokio::test]
async fn a_claim_whose_first_try_is_committed_after_the_second_is_found() {
    for is_queued in [false, true] {
        let (table, proxy, far) = apart(PATIENT).await;
        table.client.batch_execute(STALLS).await.unwrap();
        // The worker says that it is there.
        far.claim(&request("w", 0)).await.unwrap();
        if is_queued {
            let limit = Limit::new("q", LimitKind::Running(1)).unwrap();
            table.database.put_limit(&limit).await.unwrap();
            let made =
                Arc::clone(&table.database).create(queued("run", "k"), Vec::new(), None).await.unwrap();
            assert_eq!(made, Some(Created::New));
        } else {
            table.run("run", None, 1).await;
        }
        let stalls = table.begin().await;
        stalls.batch_execute("SELECT pg_advisory_xact_lock(7)").await.unwrap();
        let claiming = far.clone();
        let claim = tokio::spawn(async move { claiming.claim(&request("w", 5)).await });
        table.until_blocked(1).await;
        proxy.cut();
        assert_eq!(names(&claim.await.unwrap().unwrap()), [""; 0], "queued: {is_queued}");
        stalls.batch_execute("COMMIT").await.unwrap();
        while table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let found = async {
            while far.claim(&request("w", 5)).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, found).await.expect("a run is held and never found");
    }
}

/// A write whose answer was lost, and whose record another process has replaced since.
#[tokio::test]
async fn a_keyed_start_is_not_denied_after_another_has_replaced_it() {
    let (table, proxy, far) = apart(PATIENT).await;
    let start = |revision: u64, replaces: u64| {
        let record = Payload::encode(&revision).unwrap();
        let (name, workflow) = ("key".to_owned(), "flow".to_owned());
        (aether_core::store::KeyedStart { name, workflow, due_at: at(9), record, revision }, replaces)
    };
    for replaces in [0, 2] {
        proxy.lose(1);
        proxy.hold(true);
        let (writing, (own, of)) = (far.clone(), start(replaces + 1, replaces));
        let put = tokio::spawn(async move { writing.put_keyed_start(&own, of).await });
        let is_there = format!("SELECT count(*) FROM keyed_starts WHERE revision = {}", replaces + 1);
        while table.number(&is_there).await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (next, of) = start(replaces + 2, replaces + 1);
        assert_eq!(table.database.put_keyed_start(&next, of).await, Ok(true));
        proxy.hold(false);
        assert_eq!((put.await.unwrap(), proxy.left()), (Ok(true), 0), "it was written");
        let (late, of) = start(replaces + 1, replaces);
        assert_eq!(far.put_keyed_start(&late, of).await, Ok(false), "another one was not");
    }
}

/// A commit may wait for the server's disk for longer than any timeout says.
#[tokio::test]
async fn a_claim_that_is_committed_late_is_found() {
    let brief = options().statement_timeout(Duration::ZERO).lock_timeout(Duration::ZERO);
    let table = Table::with(brief).await;
    table.client.batch_execute(STALLS).await.unwrap();
    table.run("run", None, 1).await;
    table.database.claim(&request("w", 0)).await.unwrap();
    let stalls = table.begin().await;
    stalls.batch_execute("SELECT pg_advisory_xact_lock(7)").await.unwrap();
    let claim = request("w", 5);
    tokio::select! {
        _ = table.database.claim(&claim) => panic!("it cannot be committed"),
        () = table.until_blocked(1) => {}
    }
    tokio::time::sleep(Duration::from_millis(1600)).await;
    assert_eq!(names(&table.database.claim(&claim).await.unwrap()), [""; 0]);
    stalls.batch_execute("COMMIT").await.unwrap();
    while table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let found = async {
        while table.database.claim(&claim).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENT, found).await.expect("a run is held and never found");
}

/// A claim has several parts. One that is given up in a later part has got runs and slots in an earlier one: they are the
/// worker's, and nobody else could take them while it lives.
#[tokio::test]
async fn the_next_claim_finds_the_slots_of_one_that_was_given_up_in_a_later_part() {
    let table = Table::lay().await;
    let limit = Limit::new("q", LimitKind::Running(1)).unwrap();
    table.database.put_limit(&limit).await.unwrap();
    for name in ["queued", "next"] {
        let made = Arc::clone(&table.database).create(queued(name, "k"), Vec::new(), None).await.unwrap();
        assert_eq!(made, Some(Created::New));
    }
    table.run("free", None, 1).await;
    table.database.claim(&request("w", 0)).await.unwrap();
    let first = table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await;
    assert_eq!(first, 1, "the queue is served first");
    table.database.release(&worker("w"), &run_id("queued"), 1, at(2)).await.unwrap();
    let blocker = table.begin().await;
    let fence = "INSERT INTO journal SELECT shard, run, frame + 1, position + count, 0, at, epoch + 1, false, '', chain
        FROM journal WHERE run = 'free'";
    blocker.batch_execute(fence).await.unwrap();
    let claim = request("w", 5);
    tokio::select! {
        _ = table.database.claim(&claim) => panic!("the fence of `free` cannot be written"),
        () = table.until_blocked(1) => {}
    }
    blocker.batch_execute("ROLLBACK").await.unwrap();
    while table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(names(&table.database.claim(&request("v", 5)).await.unwrap()), [""; 0], "another has no slot");
    let found = async {
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(table.database.claim(&request("w", 5)).await.unwrap());
        }
        found
    };
    let found = tokio::time::timeout(PATIENT, found).await.expect("a run is held and never found");
    let mut found = names(&found);
    found.sort_unstable();
    assert_eq!(found, ["free", "queued"]);
}

#[tokio::test]
async fn a_message_is_delivered_once_and_its_sender_told_so() {
    let (table, proxy, far) = apart(PATIENT).await;
    table.run("run", Some("first"), 0).await;
    for (id, topic) in [("m", "signal:x"), ("c", "cancel")] {
        proxy.lose(1);
        let sent = send(&far, "run", &message(id, topic)).await.unwrap();
        assert_eq!((sent, proxy.left()), (Sent::Delivered, 0), "{id}");
        let again = send(&far, "run", &message(id, topic)).await.unwrap();
        assert_eq!(again, Sent::Duplicate, "{id}");
    }
    proxy.lose(1);
    let other = send(&far, "run", &message("m", "signal:y")).await.unwrap();
    assert_eq!((other, proxy.left()), (Sent::Duplicate, 0), "another message of that id");
    assert_eq!(table.database.inbox(&run_id("run"), 0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_release_is_made_once() {
    let (table, proxy, far) = apart(PATIENT).await;
    table.run("run", Some("first"), 0).await;
    proxy.lose(1);
    far.release(&worker("first"), &run_id("run"), 1, at(30)).await.unwrap();
    assert_eq!(proxy.left(), 0);
    let record = table.database.run_record(&run_id("run")).await.unwrap().unwrap();
    assert_eq!((record.owner, record.wake_at, record.epoch), (None, Some(at(30)), 1));
}

#[tokio::test]
async fn a_purge_says_that_it_deleted() {
    // A run with many rows goes in several statements, of which the last is the end of their transaction.
    for (values, passed) in [(0, 1), (20, 1)] {
        let (table, proxy, far) = apart(PATIENT).await;
        table.run("run", Some("first"), 0).await;
        super::purging::values(&table, "run", values).await;
        let end = "UPDATE runs SET status = 3, owner = NULL, ended_at = 1; UPDATE journal SET final = true";
        table.client.batch_execute(end).await.unwrap();
        let place = table.number("SELECT place FROM runs").await;
        proxy.lose_after(passed, 1);
        let lost = LostAnswer::default();
        assert_eq!(far.delete(&run_id("run"), place, &lost).await, Ok(Purged::Unknown));
        assert!(lost.happened(), "it may have deleted it");
        assert_eq!((proxy.left(), table.number("SELECT count(*) FROM journal").await), (0, 0));
    }
}

#[tokio::test]
async fn a_schedule_and_a_reservation_are_found_by_their_writers() {
    let (_table, proxy, far) = apart(PATIENT).await;
    let spec = ScheduleSpec {
        workflow: "flow".into(),
        module: "shop".into(),
        version: 0,
        input: Payload::null(),
        labels: Default::default(),
        cron: "0 3 * * *".into(),
        zone: "UTC".into(),
        overlap: Overlap::Skip,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        gap: Default::default(),
        repeat: Default::default(),
    };
    let record = |revision, paused| ScheduleRecord {
        name: "nightly".into(),
        spec: spec.clone(),
        paused,
        next: at(1),
        delay_ms: 0,
        starting: Vec::new(),
        last: None,
        recent: Vec::new(),
        created_at: at(0),
        revision,
    };
    for replaces in [0, 1] {
        proxy.lose(1);
        let put = far.put_schedule(&record(replaces + 1, false), replaces).await;
        assert_eq!((put, proxy.left()), (Ok(true), 0));
        assert_eq!(far.put_schedule(&record(replaces + 1, true), replaces).await, Ok(false));
    }
    let wanted = Reservation {
        business_key: "store\tinvoice-7".into(),
        run: run_id("run"),
        key: aether_core::id::IdempotencyKey::from("key".to_owned()),
        epoch: 1,
        at: at(0),
        sealed: None,
    };
    proxy.lose(1);
    assert_eq!(far.reserve(&wanted, None).await, Ok(Some(wanted.clone())));
    assert_eq!(proxy.left(), 0);
    let next = Reservation { epoch: 2, ..wanted.clone() };
    proxy.lose(2);
    assert_eq!(far.reserve(&next, Some(&wanted)).await, Ok(Some(next.clone())));
    assert_eq!(far.reserve(&wanted, Some(&wanted)).await, Ok(Some(next)));
}

/// Creates a child and loses the answer; before it is asked for again the parent ends, and `touch` happens. What the creator
/// is told.
async fn create_a_child(
    (table, proxy, far): &(Table, Proxy, Arc<Database>),
    owner: Option<&str>,
    touch: impl AsyncFnOnce(&Database),
) -> Option<Created> {
    super::writer::create(&table.database, "parent").await;
    let (parent, owner) = (Some(run_id("parent")), owner.map(worker));
    let child = NewRun { parent, parent_epoch: Some(1), owner, ..new_run("child") };
    proxy.lose(1);
    proxy.hold(true);
    let creating = tokio::spawn(far.clone().create(child, Vec::new(), None));
    while table.number("SELECT count(*) FROM runs WHERE id = 'child'").await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let end = "UPDATE runs SET status = 3, owner = NULL, ended_at = 1 WHERE id = 'parent';
        UPDATE journal SET final = true WHERE run = 'parent'";
    table.client.batch_execute(end).await.unwrap();
    touch(&table.database).await;
    proxy.hold(false);
    let created = creating.await.unwrap().unwrap();
    assert_eq!(proxy.left(), 0, "the answer was lost");
    created
}

#[tokio::test]
async fn a_child_whose_parent_has_ended_is_removed_where_nobody_has_touched_it() {
    for owner in [None, Some("first")] {
        let apart = apart(PATIENT).await;
        let created = create_a_child(&apart, owner, async |_| {}).await;
        assert_eq!(created, Some(Created::ParentLost), "{owner:?}");
        for rows in ["runs WHERE id", "journal WHERE run", "due WHERE run"] {
            assert_eq!(apart.0.number(&format!("SELECT count(*) FROM {rows} = 'child'")).await, 0, "{rows}");
        }
    }
}

#[tokio::test]
async fn a_child_that_another_worker_has_claimed_is_left_to_it() {
    for (owner, claim, epoch) in
        [(None, request("w", 5), 1), (Some("first"), takeover("w", 5, "first", 0), 2)]
    {
        let apart = apart(PATIENT).await;
        let claimed = async |database: &Database| {
            assert_eq!(names(&database.claim(&claim).await.unwrap()), ["child"]);
        };
        assert_eq!(create_a_child(&apart, owner, claimed).await, Some(Created::ParentLost), "{owner:?}");
        let record = apart.0.database.run_record(&run_id("child")).await.unwrap().unwrap();
        assert_eq!((record.owner, record.epoch), (Some(worker("w")), epoch));
        assert_eq!(apart.0.number("SELECT count(*) FROM journal WHERE run = 'child'").await, 2);
    }
}

#[tokio::test]
async fn a_child_that_has_a_message_is_not_removed() {
    let apart = apart(PATIENT).await;
    let sent = async |database: &Database| {
        let sent = send(database, "child", &message("m", "signal:x")).await;
        assert_eq!(sent, Ok(Sent::Delivered));
    };
    // Its creator gives it up: whoever claims it looks at the parent.
    assert_eq!(create_a_child(&apart, Some("first"), sent).await, Some(Created::ParentLost));
    assert_eq!(apart.0.number("SELECT count(*) FROM due WHERE run = 'child'").await, 1);
    assert_eq!(apart.0.number("SELECT count(*) FROM runs WHERE id = 'child' AND owner IS NULL").await, 1);
    assert_eq!(apart.0.database.inbox(&run_id("child"), 0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_about_to_be_committed_comes_before_a_removal() {
    let table = Table::lay().await;
    table.run("child", None, 1).await;
    let claim = table.begin().await;
    table.frame(&claim, "child", 1, 1).await;
    claim.batch_execute("UPDATE runs SET owner = 'w', epoch = 1 WHERE id = 'child'").await.unwrap();
    let (removing, child) = (table.database.clone(), run_id("child"));
    let removal = tokio::spawn(async move { removing.remove(&child).await });
    table.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    assert_eq!(removal.await.unwrap(), Ok(Removal::Touched));
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 1);
    assert_eq!(table.database.remove(&run_id("nobody")).await, Ok(Removal::NotThere));
}

/// The values of a start that was refused are deleted. Another start of the same id may be carried out meanwhile.
#[tokio::test]
async fn the_end_of_a_refused_start_deletes_no_value_of_a_run_that_was_just_created() {
    let table = Table::lay().await;
    let slow = "CREATE FUNCTION aether.linger() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN OLD; END $$;
        CREATE TRIGGER linger BEFORE DELETE ON aether.blobs FOR EACH ROW EXECUTE FUNCTION aether.linger()";
    table.client.batch_execute(slow).await.unwrap();
    for is_created in [true, false] {
        let run = if is_created { "created" } else { "refused" };
        table.database.put_blob(run, "hash", b"1").await.unwrap();
        let stalls = table.begin().await;
        stalls.batch_execute("SELECT pg_advisory_xact_lock(7)").await.unwrap();
        let database = table.database.clone();
        let refused = tokio::spawn(async move { database.delete_values(run).await });
        table.until_blocked(1).await;
        if is_created {
            table.run(run, None, 1).await;
            // As the engine does when it hears of the creation.
            table.database.put_blob(run, "hash", b"1").await.unwrap();
        }
        stalls.batch_execute("COMMIT").await.unwrap();
        assert_eq!(refused.await.unwrap(), Ok(!is_created));
        let left = table.database.blob(run, "hash").await.unwrap();
        assert_eq!(left.is_some(), is_created, "{run}");
    }
}
