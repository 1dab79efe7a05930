//! Starts under keys and ids: what was answered begins once, whatever became of the id meanwhile.

use std::sync::Arc;
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::EngineBuilder;
use aether::error::{RunError, StartError};
use aether::id::RunId;
use aether::prelude::*;
use aether::queue::{Limit, LimitKind, Singleton};
use aether::sqlite::SqliteStore;
use aether::sqlite::rusqlite::Connection;
use aether::store::memory::MemoryStore;
use aether::store::{KeyedStart, RunFilter, RunRecord, Store};
use aether::view::Status;
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const HOUR: Duration = Duration::from_secs(3_600);

/// Add up what was gathered.
#[workflow]
async fn keyed_sum(_cx: &mut Cx, numbers: Vec<u64>) -> Result<u64> {
    Ok(numbers.iter().sum())
}

/// Say what was gathered last.
#[workflow]
async fn keyed_word(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(word)
}

/// Wait for a number.
#[workflow]
async fn keyed_wait(cx: &mut Cx) -> Result<u64> {
    Ok(cx.signal::<u64>("go").await?)
}

fn builder(store: &Arc<dyn Store>) -> EngineBuilder {
    Engine::builder().store(Arc::clone(store)).poll_interval(Duration::from_millis(10))
}

/// Waits until as many runs are there as are wanted.
async fn runs(engine: &Engine, filter: RunFilter, wanted: usize) -> Vec<RunRecord> {
    in_time(async {
        loop {
            let found = engine.runs(filter.clone()).await.unwrap();
            if found.len() >= wanted {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// The way to a run may take longer than its window, which begins with the run.
#[tokio::test]
async fn a_window_begins_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let (engine, other) = (builder(&store).start().await.unwrap(), builder(&store).start().await.unwrap());
    let window = Duration::from_millis(1_500);
    let deliver = |engine: &Engine, id: &str| {
        let (engine, id) = (engine.clone(), id.to_owned());
        tokio::spawn(async move {
            let start = engine.start::<keyed_word>("paid".into()).id(id).dedup("webhook", window);
            start.await.unwrap().id().to_string()
        })
    };
    let locks = Connection::open(&path).unwrap();
    locks.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = deliver(&engine, "first");
    sleep(window / 4).await;
    let again = deliver(&other, "again");
    sleep(window).await;
    locks.execute_batch("COMMIT").unwrap();
    let (first, again) = (in_time(first).await.unwrap(), in_time(again).await.unwrap());
    assert_eq!(first, again);
    assert_eq!(engine.count(RunFilter::new()).await.unwrap(), 1);
    sleep(window).await;
    assert_eq!(in_time(deliver(&engine, "later")).await.unwrap(), "later");
    engine.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_id_that_a_batch_has_gathers_no_other_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let add = |no: u64, id: &str| engine.start::<keyed_sum>(vec![no]).id(id).collect("k", 2, HOUR);
    add(1, "d-1").await.unwrap();
    let batch = add(2, "d-2").await.unwrap();
    assert_eq!((batch.id().as_str(), in_time(batch.result()).await.unwrap()), ("d-1", 3));
    // It is delivered again: that batch has it.
    let again = add(1, "d-1").await.unwrap();
    assert_eq!((again.id().as_str(), in_time(again.result()).await.unwrap()), ("d-1", 3));
    let refused = add(9, "d-1").await;
    assert!(matches!(&refused, Err(StartError::IdTaken { run, .. }) if run.as_str() == "d-1"), "{refused:?}");
    // What comes next is no part of it.
    let next = add(3, "d-3").await.unwrap();
    let refused = add(9, "d-1").await;
    assert!(matches!(refused, Err(StartError::IdTaken { .. })), "{refused:?}");
    add(4, "d-4").await.unwrap();
    assert_eq!((next.id().as_str(), in_time(next.result()).await.unwrap()), ("d-3", 7));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_gathers_for_longer_than_it_may_wait_for_a_turn_is_executed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(3));
    let add = |no: u64| engine.start::<keyed_sum>(vec![no]).queue("q").expires(short).collect("k", 9, long);
    let batch = add(1).await.unwrap();
    add(2).await.unwrap();
    assert_eq!(in_time(batch.result()).await.unwrap(), 3);
    // It waits for its turn no longer than that.
    engine.limits().set(Limit::new("q", LimitKind::Running(0)).unwrap()).await.unwrap();
    let late = add(3).await.unwrap();
    assert!(matches!(in_time(late.result()).await, Err(RunError::Expired { .. })));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_gathered_under_an_id_that_is_taken_begins_all_the_same() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let add = |no: u64, id: &str| engine.start::<keyed_sum>(vec![no]).id(id).collect("k", 2, HOUR);
    add(1, "e-1").await.unwrap();
    let other = engine.start::<keyed_sum>(vec![7]).id("e-1").await.unwrap();
    assert_eq!(in_time(other.result()).await.unwrap(), 7);
    add(2, "e-2").await.unwrap();
    let found = runs(&engine, RunFilter::new(), 2).await;
    let batch = found.iter().find(|run| run.terms.inputs == 2).unwrap();
    let batch = engine.handle::<keyed_sum>(batch.id.as_str()).await.unwrap();
    assert_eq!(in_time(batch.result()).await.unwrap(), 3);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(runs(&engine, RunFilter::new(), 2).await.len(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_input_that_came_late_under_a_used_id_is_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let soon = Duration::from_millis(20);
    let say = |word: &str| engine.start::<keyed_word>(word.into()).id("w").debounce("k", soon, HOUR);
    assert_eq!(in_time(say("a").await.unwrap().result()).await.unwrap(), "a");
    assert_eq!(in_time(say("a").await.unwrap().result()).await.unwrap(), "a");
    let refused = say("b").await;
    assert!(matches!(refused, Err(StartError::IdTaken { .. })), "{refused:?}");
    assert_eq!(runs(&engine, RunFilter::new(), 1).await.len(), 1);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_replacement_that_is_refused_leaves_the_run_its_key() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    engine.limits().set(Limit::new("q/*", LimitKind::Open(1)).unwrap()).await.unwrap();
    let start = |otherwise| engine.start::<keyed_wait>(()).queue("q").key("acme").once_per("k", otherwise);
    let first = start(Singleton::Reject).await.unwrap();
    for _ in 0..2 {
        let refused = start(Singleton::Replace).await;
        assert!(matches!(refused, Err(StartError::OverLimit { open: 1, .. })), "{refused:?}");
        assert_eq!(start(Singleton::Join).await.unwrap().id(), first.id());
        let held = start(Singleton::Reject).await;
        assert!(matches!(&held, Err(StartError::Held { run, .. }) if run == first.id()), "{held:?}");
    }
    engine.signal(first.id(), "go", "s", &5_u64).await.unwrap();
    assert_eq!(in_time(first.result()).await.unwrap(), 5);
    let second = start(Singleton::Replace).await.unwrap();
    // With room for both, one replaces the other.
    engine.limits().set(Limit::new("q/*", LimitKind::Open(2)).unwrap()).await.unwrap();
    let third = start(Singleton::Replace).await.unwrap();
    assert!(matches!(in_time(second.result()).await, Err(RunError::Cancelled { .. })));
    assert_ne!(third.status().await.unwrap(), Status::Cancelled);
    engine.shutdown().await.unwrap();
}

/// The record of a key as a process leaves it that dies between the creation of `run` and what follows.
async fn cut_off(store: &Arc<dyn Store>, due_at: jiff::Timestamp, run: &RunId, replaces: &RunId) {
    let held = store.keyed_start("once:keyed_wait:k").await.unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_str(held.record.as_str()).unwrap();
    assert_eq!(record["run"], replaces.as_str());
    for (member, value) in [("stage", "decided"), ("run", run.as_str()), ("replaces", replaces.as_str())] {
        record[member] = value.into();
    }
    let record = Payload::from_text(record.to_string()).unwrap();
    let next = KeyedStart { record, due_at, revision: held.revision + 1, ..held.clone() };
    assert!(store.put_keyed_start(next, held.revision).await.unwrap());
}

#[tokio::test]
async fn a_run_is_replaced_whoever_completes_the_start() {
    for who in ["a worker", "one that joins", "one that replaces"] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder(&store).start().await.unwrap();
        let start = |otherwise| engine.start::<keyed_wait>(()).once_per("k", otherwise);
        let first = start(Singleton::Reject).await.unwrap();
        let second = engine.start::<keyed_wait>(()).await.unwrap();
        let due_at = jiff::Timestamp::now() + if who == "a worker" { Duration::ZERO } else { HOUR };
        cut_off(&store, due_at, second.id(), first.id()).await;
        let last = match who {
            "a worker" => second,
            "one that joins" => start(Singleton::Join).await.unwrap(),
            _ => {
                let third = start(Singleton::Replace).await.unwrap();
                assert!(matches!(in_time(second.result()).await, Err(RunError::Cancelled { .. })));
                third
            }
        };
        assert!(matches!(in_time(first.result()).await, Err(RunError::Cancelled { .. })), "{who}");
        engine.signal(last.id(), "go", "s", &1_u64).await.unwrap();
        assert_eq!(in_time(last.result()).await.unwrap(), 1);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_repeated_start_that_has_ended_replaces_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let start = |id: &str| engine.start::<keyed_wait>(()).id(id).once_per("k", Singleton::Replace);
    let first = start("a").await.unwrap();
    engine.signal(first.id(), "go", "s", &1_u64).await.unwrap();
    in_time(first.result()).await.unwrap();
    let second = start("b").await.unwrap();
    assert_eq!(in_time(start("a").await.unwrap().result()).await.unwrap(), 1);
    assert_eq!(start("b").await.unwrap().id(), second.id());
    engine.signal(second.id(), "go", "s", &2_u64).await.unwrap();
    assert_eq!(in_time(second.result()).await.unwrap(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn starts_that_cannot_be_completed_hide_no_others() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // More than are read at a time.
    for no in 0..300 {
        let start = KeyedStart {
            name: format!("debounce:keyed_word:{no}"),
            workflow: "keyed_word".into(),
            due_at: jiff::Timestamp::UNIX_EPOCH,
            record: Payload::encode(&"of a build that is to come").unwrap(),
            revision: 1,
        };
        assert!(store.put_keyed_start(start, 0).await.unwrap());
    }
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<keyed_word>("a".into()).debounce("k", Duration::from_millis(20), HOUR).await;
    assert_eq!(in_time(run.unwrap().result()).await.unwrap(), "a");
    engine.shutdown().await.unwrap();
}

mod one {
    use aether::prelude::*;

    /// Wait for a number.
    #[workflow]
    pub(super) async fn keyed_twin(cx: &mut Cx) -> Result<u64> {
        Ok(cx.signal::<u64>("go").await?)
    }
}

mod two {
    use aether::prelude::*;

    /// Wait for a number.
    #[workflow]
    pub(super) async fn keyed_twin(cx: &mut Cx) -> Result<u64> {
        Ok(cx.signal::<u64>("go").await?)
    }
}

#[tokio::test]
async fn workflows_of_one_name_have_keys_of_their_own() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // Where the other one is not linked, its key has the plain name.
    let former = builder(&store).without_workflow::<two::keyed_twin>().start().await.unwrap();
    let held = former.start::<one::keyed_twin>(()).once_per("k", Singleton::Reject).await.unwrap();
    former.shutdown().await.unwrap();

    let engine = builder(&store).start().await.unwrap();
    let refused = engine.start::<one::keyed_twin>(()).once_per("k", Singleton::Reject).await;
    assert!(matches!(&refused, Err(StartError::Held { run, .. }) if run == held.id()), "{refused:?}");
    let other = engine.start::<two::keyed_twin>(()).once_per("k", Singleton::Reject).await.unwrap();
    assert_ne!(other.id(), held.id());
    engine.signal(held.id(), "go", "s", &1_u64).await.unwrap();
    in_time(engine.handle::<one::keyed_twin>(held.id().as_str()).await.unwrap().result()).await.unwrap();
    // Its own key is free, and the other one's is not.
    let next = engine.start::<one::keyed_twin>(()).once_per("k", Singleton::Reject).await.unwrap();
    for (run, again) in [
        (next.id(), engine.start::<one::keyed_twin>(()).once_per("k", Singleton::Join).await.unwrap().id()),
        (other.id(), engine.start::<two::keyed_twin>(()).once_per("k", Singleton::Join).await.unwrap().id()),
    ] {
        assert_eq!(run, again);
    }
    engine.shutdown().await.unwrap();
}

mod first {
    use aether::prelude::*;

    /// Count what was gathered.
    #[workflow(name = "keyed_versions")]
    pub(super) async fn keyed_versions_1(_cx: &mut Cx, items: Vec<u64>) -> Result<String> {
        Ok(format!("numbers {items:?}"))
    }

    /// Count what was gathered.
    #[workflow(name = "keyed_versions", version = 2)]
    pub(super) async fn keyed_versions_2(_cx: &mut Cx, items: Vec<String>) -> Result<String> {
        Ok(format!("words {items:?}"))
    }
}

#[tokio::test]
async fn elements_for_two_versions_are_gathered_apart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let number = |no: u64| engine.start::<first::keyed_versions_1>(vec![no]).collect("k", 2, HOUR);
    let word =
        |word: &str| engine.start::<first::keyed_versions_2>(vec![word.to_owned()]).collect("k", 2, HOUR);
    number(1).await.unwrap();
    word("a").await.unwrap();
    let numbers = number(2).await.unwrap();
    let words = word("b").await.unwrap();
    assert_eq!(in_time(numbers.result()).await.unwrap(), "numbers [1, 2]");
    assert_eq!(in_time(words.result()).await.unwrap(), r#"words ["a", "b"]"#);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_last_input_runs_with_the_version_that_it_is_for() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let quiet = Duration::from_millis(100);
    engine.start::<first::keyed_versions_1>(vec![1]).debounce("k", quiet, HOUR).await.unwrap();
    let last =
        engine.start::<first::keyed_versions_2>(vec!["a".into()]).debounce("k", quiet, HOUR).await.unwrap();
    assert_eq!(in_time(last.result()).await.unwrap(), r#"words ["a"]"#);
    engine.shutdown().await.unwrap();
}

/// An element of a batch.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Item {
    no: u64,
}

/// Count what was gathered.
#[workflow]
async fn keyed_items(_cx: &mut Cx, items: Vec<Item>) -> Result<usize> {
    Ok(items.len())
}

#[tokio::test]
async fn an_older_process_keeps_members_of_elements_that_it_does_not_know() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let add = |no: u64, id: &str| engine.start::<keyed_items>(vec![Item { no }]).id(id).collect("k", 2, HOUR);
    add(1, "f-1").await.unwrap();
    // As a newer process writes it.
    let held = store.keyed_start("collect:keyed_items:k").await.unwrap().unwrap();
    let record = held.record.as_str().replace(r#"{"no":1}"#, r#"{"no":1,"since":"2.0"}"#);
    assert_ne!(record, held.record.as_str());
    let record = Payload::from_text(record).unwrap();
    let next = KeyedStart { record, revision: held.revision + 1, ..held.clone() };
    assert!(store.put_keyed_start(next, held.revision).await.unwrap());

    let batch = add(2, "f-2").await.unwrap();
    assert_eq!(in_time(batch.result()).await.unwrap(), 2);
    let frames = store.load(batch.id(), 0).await.unwrap();
    let created = format!("{:?}", frames[0].events().unwrap()[0]);
    assert!(created.contains(r#"[{"no":1,"since":"2.0"},{"no":2}]"#), "{created}");
    // The first start again is that batch, by what this process knows of it.
    let again = add(1, "f-1").await.unwrap();
    assert_eq!(in_time(again.result()).await.unwrap(), 2);
    engine.shutdown().await.unwrap();
}

/// Starts that are under way when an engine shuts down are done before it has, or refused.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_keyed_start_is_written_behind_a_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let (mut started, mut refused) = (0, 0);
    for round in 0..40_u32 {
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(dir.path().join(format!("{round}.db"))).unwrap());
        let engine = builder(&store).start().await.unwrap();
        let kinds = ["once", "dedup", "debounce", "collect"];
        let one = Arc::new(tokio::sync::Notify::new());
        let starts = kinds.map(|kind| {
            let (engine, one) = (engine.clone(), one.clone());
            tokio::spawn(async move {
                let wait = || engine.start::<keyed_wait>(());
                let ended = match kind {
                    "once" => wait().once_per("k", Singleton::Join).await.map(drop),
                    "dedup" => wait().dedup("k", HOUR).await.map(drop),
                    "debounce" => wait().debounce("k", HOUR, HOUR).await.map(drop),
                    _ => engine.start::<keyed_sum>(vec![1]).collect("k", 1, HOUR).await.map(drop),
                };
                one.notify_one();
                (kind, ended)
            })
        });
        // Before any of them, after one of them, or in the middle.
        match round % 4 {
            0 => {}
            1 => one.notified().await,
            _ => sleep(Duration::from_micros(u64::from(round) * 50)).await,
        }
        engine.shutdown().await.unwrap();
        let content = async || {
            let mut content = Vec::new();
            for name in
                ["once:keyed_wait:k", "dedup:keyed_wait:k", "debounce:keyed_wait:k", "collect:keyed_sum:k"]
            {
                content.push(store.keyed_start(name).await.unwrap().map(|start| start.revision));
            }
            (content, store.runs(RunFilter::new()).await.unwrap().len())
        };
        let behind = content().await;
        for start in starts {
            match start.await.unwrap() {
                (_, Ok(())) => started += 1,
                (_, Err(StartError::ShutDown { .. })) => refused += 1,
                (kind, Err(error)) => panic!("round {round}, {kind}: {error}"),
            }
        }
        assert_eq!(content().await, behind, "round {round}");
    }
    assert!(started > 0 && refused > 0, "{started} {refused}");
}
