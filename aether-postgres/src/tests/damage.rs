//! What one row that cannot be read costs the others: nothing.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::payload::Payload;
use aether_core::store::{
    CatchUp, DueSchedules, DueStarts, EndedRuns, KeyedStart, Overlap, ScheduleRecord, ScheduleSpec,
    StoreError,
};
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::queues::queued;
use super::{Table, at, message, names, options, request, run_id, send, worker};
use crate::database::Database;

#[tokio::test]
async fn a_damaged_run_keeps_no_other_one_from_being_claimed() {
    for is_queued in [false, true] {
        let table = Table::lay().await;
        for (name, wake_at) in [("a", 1), ("bad", 2), ("c", 3)] {
            if is_queued {
                Arc::clone(&table.database).create(queued(name, "k"), Vec::new(), None).await.unwrap();
            } else {
                table.run(name, None, wake_at).await;
            }
        }
        table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
        let leases = table.database.claim(&request("w", 100)).await.unwrap();
        assert_eq!(names(&leases), ["a", "c"], "queued: {is_queued}");
        let owned = table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await;
        assert_eq!(owned, 2, "nobody holds what nobody advances");
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(names(&table.database.claim(&request("w", 101)).await.unwrap()), [""; 0], "not at once");
        assert_eq!(table.number("SELECT epoch FROM runs WHERE id = 'bad'").await, 1, "nor by anybody");
        table.client.batch_execute("UPDATE runs SET labels = '{}' WHERE id = 'bad'").await.unwrap();
        let healed = table.database.claim(&request("w", 4_000)).await.unwrap();
        assert_eq!(names(&healed), ["bad"], "queued: {is_queued}");
    }
}

/// What a claim got whose answer was lost may hold a damaged run as well.
#[tokio::test]
async fn a_damaged_run_keeps_no_other_one_from_being_found() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = options().patience(Duration::ZERO).connections(1);
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), far).await.unwrap();
    table.run("bad", None, 1).await;
    table.run("run", None, 2).await;
    table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
    far.claim(&request("w", 0)).await.unwrap();
    proxy.lose_after(1, 1);
    far.claim(&request("w", 5)).await.unwrap_err();
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 2);
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), ["run"]);
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 1);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), [""; 0], "each is in one answer");
}

/// Who asks for one run is told that it cannot be read.
#[tokio::test]
async fn a_claim_of_a_damaged_run_alone_says_so() {
    let table = Table::lay().await;
    table.run("bad", None, 1).await;
    table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
    let only = aether_core::store::ClaimRequest { only: Some(run_id("bad")), ..request("w", 5) };
    let refused = table.database.claim(&only).await;
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })), "{refused:?}");
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 0);
}

#[tokio::test]
async fn a_damaged_run_keeps_no_other_one_from_being_purged() {
    let table = Table::lay().await;
    for name in ["bad-1", "a", "bad-2", "b", "bad-3"] {
        table.run(name, None, 1).await;
    }
    let end = "UPDATE runs SET status = 3, ended_at = 1; UPDATE runs SET labels = '{' WHERE id LIKE 'bad%'";
    table.client.batch_execute(end).await.unwrap();
    let mut query = EndedRuns { before: vec![(Status::Completed, at(50))], after: 0, limit: 1 };
    let mut ended = Vec::new();
    while let Some((place, run)) = table.database.ended(&query).await.unwrap().pop() {
        ended.push(run.id.to_string());
        query.after = place;
    }
    assert_eq!(ended, ["a", "b"]);
    assert_eq!(table.database.ended(&EndedRuns { after: 0, limit: 9, ..query }).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_damaged_run_hides_no_unread_message_of_another_one() {
    let table = Table::lay().await;
    for name in ["a", "bad", "b"] {
        table.run(name, None, 1).await;
        send(&table.database, name, &message("m", "signal:x")).await.unwrap();
    }
    let waits = "UPDATE runs SET status = 2; UPDATE runs SET labels = '{' WHERE id = 'bad'";
    table.client.batch_execute(waits).await.unwrap();
    let (mut after, mut found) = (None, Vec::new());
    while let Some((run, _)) = table.database.unread_waiting(after, 1).await.unwrap().pop() {
        found.push(run.id.to_string());
        after = Some(run.place);
    }
    assert_eq!(found, ["b", "a"]);
    let held = "UPDATE runs SET owner = 'w'; UPDATE inbox SET seq = -seq WHERE run = 'bad'";
    table.client.batch_execute(held).await.unwrap();
    let held = table.database.unread_held(&worker("w")).await.unwrap();
    assert_eq!(
        held.iter().map(|(run, _)| run.as_str()).collect::<std::collections::BTreeSet<_>>(),
        ["a", "b"].into()
    );
}

#[tokio::test]
async fn a_damaged_schedule_stops_no_other_one() {
    let table = Table::lay().await;
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
    for name in ["a", "bad", "c"] {
        let record = ScheduleRecord {
            name: name.into(),
            spec: spec.clone(),
            paused: false,
            next: at(1),
            delay_ms: 0,
            starting: Vec::new(),
            last: None,
            recent: Vec::new(),
            created_at: at(0),
            revision: 1,
        };
        assert_eq!(table.database.put_schedule(&record, 0).await, Ok(true));
        let start = KeyedStart {
            name: name.into(),
            workflow: "flow".into(),
            due_at: at(1),
            record: Payload::null(),
            revision: 1,
        };
        assert_eq!(table.database.put_keyed_start(&start, 0).await, Ok(true));
    }
    let damage = "UPDATE schedules SET record = '{' WHERE name = 'bad';
        UPDATE keyed_starts SET record = '{' WHERE name = 'bad'";
    table.client.batch_execute(damage).await.unwrap();
    let mut query = DueSchedules { now: at(9), workflows: ["flow".into()].into(), after: None, limit: 2 };
    let due = table.database.due_schedules(&query).await.unwrap();
    assert_eq!(due.iter().map(|schedule| schedule.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    query.after = Some((at(1), "c".into()));
    assert_eq!(table.database.due_schedules(&query).await, Ok(Vec::new()));
    let mut query = DueStarts { now: at(9), workflows: ["flow".into()].into(), after: None, limit: 2 };
    let due = table.database.due_starts(&query).await.unwrap();
    assert_eq!(due.iter().map(|start| start.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    query.after = Some((at(1), "c".into()));
    assert_eq!(table.database.due_starts(&query).await, Ok(Vec::new()));
}
