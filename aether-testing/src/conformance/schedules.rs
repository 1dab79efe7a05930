//! Rules about schedules.

use std::sync::Arc;

use aether_core::clock_change::{Gap, Repeat};
use aether_core::labels::Labels;
use aether_core::payload::Payload;
use aether_core::store::{
    CatchUp, Created, Decision, DueSchedules, Overlap, ScheduleRecord, ScheduleSpec, Store, Tick, TickOutcome,
};
use jiff::Timestamp;

use super::kit::{at, new_run};

fn schedule(name: &str, next: Timestamp) -> ScheduleRecord {
    let mut labels = Labels::default();
    labels.insert("customer", "acme").unwrap();
    let spec = ScheduleSpec {
        labels,
        workflow: format!("{name}-flow"),
        module: "reports".into(),
        version: 2,
        input: Payload::encode(&("ü", 1.5)).unwrap(),
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        overlap: Overlap::Wait,
        catch_up: CatchUp::All(7),
        jitter_ms: 60_000,
        gap: Gap::Skip,
        repeat: Repeat::Twice,
    };
    let missed = Tick { at: at(1), until: at(2), outcome: TickOutcome::Missed, noted_at: Some(at(3)) };
    let outcome = TickOutcome::Failed("why".into());
    let failed = Tick { at: at(3), until: at(3), outcome, noted_at: None };
    ScheduleRecord {
        name: name.into(),
        spec,
        paused: false,
        next,
        delay_ms: 0,
        starting: Vec::new(),
        last: Some(at(3)),
        recent: vec![missed, failed],
        created_at: at(0),
        revision: 1,
    }
}

/// A run that rests on a schedule is created only while that has the revision in which its tick was decided.
pub async fn a_creation_rests_on_its_schedule(store: &Arc<dyn Store>) {
    let decision = |revision| Decision::Schedule { name: "nightly".into(), revision };
    let create = async |name: &str, revision| store.create_decided(new_run(name), decision(revision)).await;
    assert_eq!(create("a", 1).await, Ok(Created::DecisionGone));
    let first = schedule("nightly", at(10));
    assert_eq!(store.put_schedule(first.clone(), 0).await, Ok(true));
    assert_eq!(create("a", 1).await, Ok(Created::New));
    assert_eq!(store.put_schedule(ScheduleRecord { revision: 2, ..first }, 1).await, Ok(true));
    assert!(matches!(create("a", 1).await, Ok(Created::Existing(_))));
    assert_eq!(create("b", 1).await, Ok(Created::DecisionGone));
    assert_eq!(create("b", 2).await, Ok(Created::New));
}

/// A schedule is read as it was written. A write replaces only the revision that it names, so that no change is lost.
pub async fn a_schedule_is_kept_by_name_and_revision(store: &Arc<dyn Store>) {
    let first = schedule("nightly", at(10));
    assert_eq!(store.put_schedule(first.clone(), 1).await, Ok(false));
    assert_eq!(store.put_schedule(first.clone(), 0).await, Ok(true));
    assert_eq!(store.put_schedule(schedule("nightly", at(99)), 0).await, Ok(false));
    assert_eq!(store.put_schedule(schedule("hourly", at(5)), 0).await, Ok(true));
    let second = ScheduleRecord { revision: 2, paused: true, last: None, ..first };
    assert_eq!(store.put_schedule(second.clone(), 1).await, Ok(true));
    assert_eq!(store.put_schedule(schedule("nightly", at(99)), 1).await, Ok(false));
    assert_eq!(store.schedule("nightly").await, Ok(Some(second.clone())));
    assert_eq!(store.schedule("nobody").await, Ok(None));
    assert_eq!(store.schedules(None, 0).await, Ok(vec![schedule("hourly", at(5)), second.clone()]));
    assert_eq!(store.schedules(None, 1).await, Ok(vec![schedule("hourly", at(5))]));
    assert_eq!(store.schedules(Some("hourly"), 1).await, Ok(vec![second]));
    assert_eq!(store.schedules(Some("nightly"), 1).await, Ok(Vec::new()));
}

/// What is due is found by its time and the names of workflows, the longest due first, in pages. A schedule with decided
/// ticks is due at the first of them, a paused one never.
pub async fn due_schedules_are_found_by_time_and_workflow(store: &Arc<dyn Store>) {
    let paused = ScheduleRecord { paused: true, ..schedule("paused", at(1)) };
    let starting = ScheduleRecord { starting: vec![at(7), at(8)], ..schedule("starting", at(90)) };
    for record in
        [schedule("late", at(5)), schedule("early", at(3)), schedule("later", at(20)), paused, starting]
    {
        assert_eq!(store.put_schedule(record, 0).await, Ok(true));
    }
    let flows = |names: &[&str]| names.iter().map(|name| format!("{name}-flow")).collect::<Arc<[_]>>();
    let all = flows(&["late", "early", "later", "paused", "starting"]);
    let due = async |now: u64, workflows: Arc<[String]>, limit: usize| {
        let query = DueSchedules { now: at(now), workflows, after: None, limit };
        let due = store.due_schedules(query).await.unwrap();
        due.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>()
    };
    assert_eq!(due(2, all.clone(), 9).await, [""; 0]);
    assert_eq!(due(3, all.clone(), 9).await, ["early"]);
    assert_eq!(due(19, all.clone(), 9).await, ["early", "late", "starting"]);
    assert_eq!(due(19, all, 1).await, ["early"]);
    assert_eq!(due(19, flows(&["late", "nobody"]), 9).await, ["late"]);
    // The next page begins behind the last one, also among those that are due at one time.
    for record in [schedule("late-b", at(5)), schedule("late-a", at(5))] {
        assert_eq!(store.put_schedule(record, 0).await, Ok(true));
    }
    let (mut after, mut pages) = (None, Vec::new());
    let workflows = flows(&["late", "early", "late-a", "late-b"]);
    loop {
        let query =
            DueSchedules { now: at(19), workflows: workflows.clone(), after: after.clone(), limit: 2 };
        let page = store.due_schedules(query).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.due_at().map(|due| (due, last.name.clone()));
        pages.push(page.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>());
    }
    assert_eq!(pages, [["early", "late"], ["late-a", "late-b"]]);
    assert_eq!(due(19, flows(&[]), 9).await, [""; 0]);
}

/// A schedule that was removed is gone, also for a write that follows on what it was.
pub async fn a_removed_schedule_is_gone(store: &Arc<dyn Store>) {
    assert_eq!(store.remove_schedule("nightly").await, Ok(false));
    assert_eq!(store.put_schedule(schedule("nightly", at(5)), 0).await, Ok(true));
    assert_eq!(store.remove_schedule("nightly").await, Ok(true));
    assert_eq!(store.put_schedule(schedule("nightly", at(5)), 1).await, Ok(false));
    assert_eq!(store.schedules(None, 0).await, Ok(Vec::new()));
}
