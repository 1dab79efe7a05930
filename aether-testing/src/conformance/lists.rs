//! Rules about listing and counting runs, and about their labels.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::labels::Labels;
use aether_core::store::{Created, Cursor, NewRun, Purged, RunFilter, Store};

use super::kit::{Hand, at, becomes, new_run, run_id};

/// The ids of a list, one after the other.
async fn list(store: &Arc<dyn Store>, filter: RunFilter) -> String {
    let found = store.runs(filter).await.unwrap();
    found.iter().map(|run| run.id.to_string()).collect::<Vec<_>>().join(" ")
}

/// The ids of the same list, as a check of the store reads it.
async fn rows(store: &Arc<dyn Store>, filter: RunFilter) -> String {
    let mut ids = Vec::new();
    for row in store.run_rows(filter).await.unwrap() {
        let run = row.run.unwrap();
        let last = store.last_frame(&run.id).await.unwrap().unwrap();
        assert!(row.tip.is_none_or(|tip| tip == last.chain), "a row has another chain hash than its journal");
        assert_eq!((row.place, &*row.id), (run.place, run.id.as_str()));
        ids.push(row.id);
    }
    ids.join(" ")
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::default();
    pairs.iter().for_each(|(key, value)| labels.insert(*key, *value).unwrap());
    labels
}

/// Creates runs that differ in everything that a filter asks for. `a-1` and `c-1` have ended.
async fn five(store: &Arc<dyn Store>) {
    let gold = [("customer", "acme"), ("tier", "gold")];
    for (n, (name, workflow, pairs)) in [
        ("a-1", "flow", &gold[..]),
        ("a-2", "flow", &gold[..1]),
        ("a_3", "other", &[("customer", "acme corp")]),
        ("b-a-4", "flow", &[("tier", "gold")]),
        ("c-1", "other", &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut new =
            NewRun { workflow: workflow.into(), labels: labels(pairs), at: at(n as u64), ..new_run(name) };
        new.parent = (name == "b-a-4").then(|| run_id("a-1"));
        new.version = if name == "a-2" { 4 } else { 3 };
        store.create(new).await.unwrap();
    }
    Hand::of(store, "a-1", 1, 1).status(becomes(Status::Completed, None, true)).await;
    Hand::of(store, "c-1", 1, 1).status(becomes(Status::Failed, None, true)).await;
}

/// Each part of a filter alone, newest first, listed and counted.
pub async fn every_part_of_a_filter_counts(store: &Arc<dyn Store>) {
    five(store).await;
    let all = RunFilter::new;
    for (filter, expected) in [
        (all(), "c-1 b-a-4 a_3 a-2 a-1"),
        (all().workflow("flow"), "b-a-4 a-2 a-1"),
        (all().workflow("flo"), ""),
        (all().version(4), "a-2"),
        (all().status(Status::Running), "b-a-4 a_3 a-2"),
        (all().statuses([Status::Completed, Status::Failed]), "c-1 a-1"),
        (all().open(), "b-a-4 a_3 a-2"),
        (all().id_prefix("a"), "a_3 a-2 a-1"),
        (all().id_prefix("a-"), "a-2 a-1"),
        (all().id_prefix(""), "c-1 b-a-4 a_3 a-2 a-1"),
        (all().id_prefix("A"), ""),
        (all().id_contains("-1"), "c-1 a-1"),
        (all().id_contains("a-"), "b-a-4 a-2 a-1"),
        (all().id_contains("_"), "a_3"),
        (all().id_contains("%"), ""),
        (all().parent(run_id("a-1")), "b-a-4"),
        (all().created_after(at(2)), "c-1 b-a-4 a_3"),
        (all().created_before(at(2)), "a-2 a-1"),
        (all().created_after(at(1)).created_before(at(3)), "a_3 a-2"),
        (all().label("customer", "acme"), "a-2 a-1"),
        (all().label("customer", "acme").label("tier", "gold"), "a-1"),
        (all().label("customer", "acme").label("customer", "other"), ""),
        (all().label("Customer", "acme"), ""),
        (all().limit(2), "c-1 b-a-4"),
    ] {
        assert_eq!(list(store, filter.clone()).await, expected, "{filter:?}");
        assert_eq!(rows(store, filter.clone()).await, expected, "{filter:?}");
        let whole =
            if filter.limit == 0 { expected.split(' ').filter(|id| !id.is_empty()).count() } else { 5 };
        assert_eq!(store.count(filter.clone()).await, Ok(whole as u64), "{filter:?}");
    }
}

/// All parts of a filter must hold together.
pub async fn the_parts_of_a_filter_hold_together(store: &Arc<dyn Store>) {
    five(store).await;
    let all = RunFilter::new;
    for (filter, expected) in [
        (all().workflow("flow").open(), "b-a-4 a-2"),
        (all().workflow("flow").status(Status::Completed).id_contains("1"), "a-1"),
        (all().label("tier", "gold").status(Status::Running), "b-a-4"),
        (all().label("customer", "acme").open().created_after(at(1)), "a-2"),
        (all().id_prefix("a").workflow("other").open(), "a_3"),
        (all().parent(run_id("a-1")).statuses([Status::Completed, Status::Failed]), ""),
        (all().workflow("flow").created_before(at(1)), "a-1"),
        (all().version(3).id_prefix("a"), "a_3 a-1"),
    ] {
        assert_eq!(list(store, filter.clone()).await, expected, "{filter:?}");
        let count = expected.split(' ').filter(|id| !id.is_empty()).count();
        assert_eq!(store.count(filter.clone()).await, Ok(count as u64), "{filter:?}");
    }
}

/// Pages that follow each other hold each run once, although runs are created, end and are purged between them.
pub async fn pages_hold_each_run_once(store: &Arc<dyn Store>) {
    let name = |n: u64| format!("run-{n:02}");
    for n in 0..20 {
        let labels = labels(&[("customer", if n % 2 == 0 { "acme" } else { "else" })]);
        store.create(NewRun { labels, ..new_run(&name(n)) }).await.unwrap();
    }
    let expected = |every: usize| (0..20).rev().step_by(every).map(name).collect::<Vec<_>>();
    for (filter, expected) in [
        (RunFilter::new(), expected(1)),
        (RunFilter::new().workflow("flow"), expected(1)),
        (RunFilter::new().statuses([Status::Running, Status::Completed]), expected(1)),
        (RunFilter::new().id_prefix("run-"), expected(1)),
        (RunFilter::new().created_after(at(0)), expected(1)),
        (RunFilter::new().label("customer", "else"), expected(2)),
    ] {
        let (mut found, mut after) = (Vec::new(), None::<Cursor>);
        for turn in 0.. {
            let page = store.runs(RunFilter { after, ..filter.clone().limit(3) }).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 3 && page.iter().map(|run| run.place).is_sorted_by(|a, b| a > b));
            after = Some(last.place);
            let labels = labels(&[("customer", "else")]);
            let late = format!("run-late-{turn}-{}", found.len());
            store.create(NewRun { labels, ..new_run(&late) }).await.unwrap();
            found.extend(page.iter().map(|run| run.id.to_string()));
            // The place that the next page begins at may be that of a run that is gone.
            let end = becomes(Status::Completed, None, true);
            Hand::of(store, &late, 1, 1).status(end).await;
            if turn % 2 == 0 {
                assert_eq!(store.purge(&run_id(&late), None).await, Ok(Purged::Deleted));
            }
        }
        assert_eq!(found, expected, "{filter:?}");
        for run in store.runs(RunFilter::new().id_prefix("run-late-")).await.unwrap() {
            assert_eq!(store.purge(&run.id, None).await, Ok(Purged::Deleted));
        }
    }
}

/// A run keeps the labels of its creation, also when it is created again; they are purged with it.
pub async fn labels_are_those_of_the_creation(store: &Arc<dyn Store>) {
    let given = labels(&[("customer", "acme"), ("über", "\"quoted\" 'text' %_")]);
    let new = NewRun { labels: given.clone(), ..new_run("a") };
    assert_eq!(store.create(new).await, Ok(Created::New));
    assert_eq!(store.run(&run_id("a")).await.unwrap().unwrap().labels, given);
    let again = NewRun { labels: labels(&[("customer", "other")]), ..new_run("a") };
    let Created::Existing(record) = store.create(again).await.unwrap() else {
        panic!("a second run of one id was created");
    };
    assert_eq!(record.labels, given);
    assert_eq!(list(store, RunFilter::new().label("customer", "other")).await, "");
    assert_eq!(list(store, RunFilter::new().label("über", "\"quoted\" 'text' %_")).await, "a");
    Hand::of(store, "a", 1, 1).status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Deleted));
    assert_eq!(list(store, RunFilter::new().label("customer", "acme")).await, "");
    // A new run may get the number of the one that is gone, and must not get its labels.
    store.create(new_run("b")).await.unwrap();
    assert_eq!(store.count(RunFilter::new().label("customer", "acme")).await, Ok(0));
    assert!(store.run(&run_id("b")).await.unwrap().unwrap().labels.is_empty());
}
