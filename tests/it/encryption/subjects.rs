//! Keys of data subjects: what becomes of one person's runs when their key is destroyed, and of everybody else's.

use std::sync::Arc;
use std::time::Duration;

use aether::encryption::{CodecError, Encryption, SubjectKeyFolder};
use aether::engine::{EngineBuilder, Hold};
use aether::id::RunId;
use aether::prelude::*;
use aether::queue::Singleton;
use aether::retention::Retention;
use aether::store::{DueStarts, RunFilter, Store, StoreError};
use aether::view::Status;

use super::{key, ring, say};
use crate::seeds::kit::{Calls, builder, in_time, run_id, stores};

/// Bill an order, once in the store.
#[step(effect = "tool", irreversible, scope = "store", key = |order| order)]
async fn subject_bill(cx: &mut StepCx, order: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("billed {order}"))
}

/// Bill, and wait for a word.
#[workflow]
async fn subject_run(cx: &mut Cx, input: String) -> Result<String> {
    let billed = match subject_bill(cx, "order 1".to_owned()).await {
        Ok(billed) => billed,
        Err(error) => format!("{error:?}").split('(').next().unwrap_or_default().to_owned(),
    };
    let large = "z".repeat(if input.len() > 10 { 70_000 } else { 1 });
    let word: String = cx.signal("word").await?;
    Ok(format!("{input} {billed} {word} {}", large.len()))
}

/// Wait for a word.
#[workflow]
async fn subject_waits(cx: &mut Cx, _input: String) -> Result<String> {
    Ok(cx.signal("word").await?)
}

async fn waits(engine: &Engine, run: &RunId) {
    in_time(async {
        while engine.find(run.as_str()).await.unwrap().status().await.unwrap() != Status::Waiting {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn ends(engine: &Engine, run: &RunId) {
    in_time(async {
        while engine.find(run.as_str()).await.unwrap().status().await.unwrap() != Status::Cancelled {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn to_destroy_a_key_erases_one_person_and_leaves_runs_that_can_be_listed_ended_and_purged() {
    for make in stores() {
        let (place, calls, home) = (make(), Calls::default(), tempfile::tempdir().unwrap());
        let folder = SubjectKeyFolder::open(home.path(), key(100)).unwrap();
        let start = async |store: &Arc<dyn Store>| {
            let keys =
                ring(1).key_for(folder.clone(), |place| place.labels?.get("customer").map(str::to_owned));
            builder(store, &calls).payload_codec(Encryption::new(keys)).start().await.unwrap()
        };
        let engine = start(&place.store).await;
        // Large inputs are stored before their run is there.
        let large = format!("{}{}", "ann's data ", "a".repeat(100_000));
        for (id, customer, input) in [
            ("ann 1", "ann", large.clone()),
            ("ann 2", "ann", "ann's data".into()),
            ("bob 1", "bob", "bob's".into()),
        ] {
            let run = engine.start::<subject_run>(input).id(id).label("customer", customer).await.unwrap();
            waits(&engine, run.id()).await;
        }
        say(&engine, &run_id("ann 2"), "unread", &"said to ann").await.unwrap();
        engine.shutdown().await.unwrap();
        folder.destroy("ann").unwrap();

        let store = place.again();
        let engine = start(&store).await;
        let destroyed = CodecError::DestroyedKey { key: "subject:ann".into() };
        for id in ["ann 1", "ann 2"] {
            let id = run_id(id);
            for error in [
                engine.view(&id).await.map(drop),
                engine.trace(&id).await.map(drop),
                engine.pending(&id).await.map(drop),
            ] {
                match error {
                    Err(StoreError::Codec { run: Some(run), error, .. }) => {
                        assert_eq!((run, error), (id.clone(), destroyed.clone()));
                    }
                    other => panic!("{id}: {other:?}"),
                }
            }
        }
        // Listed by label, as before; the list of what is waited for says that they cannot be read.
        let listed = engine.runs(RunFilter::new().label("customer", "ann")).await.unwrap();
        assert_eq!(listed.len(), 2);
        let page = engine.all_pending(Default::default()).await.unwrap();
        assert_eq!(page.waits.iter().map(|wait| wait.run.as_str()).collect::<Vec<_>>(), ["bob 1"]);
        let mut unreadable: Vec<_> = page.unreadable.iter().map(|wait| wait.run.as_str()).collect();
        unreadable.sort_unstable();
        assert_eq!(unreadable, ["ann 1", "ann 2"]);
        // Nothing new is said to an erased person.
        assert!(say(&engine, &run_id("ann 1"), "word", &"x").await.is_err());
        // Both ways to end a run, although nothing of it can be read.
        engine.cancel(&run_id("ann 1"), "asked to be forgotten", "desk").await.unwrap();
        engine.terminate(&run_id("ann 2"), "asked to be forgotten", "desk").await.unwrap();
        for id in ["ann 1", "ann 2"] {
            ends(&engine, &run_id(id)).await;
        }
        let ended = in_time(engine.handle::<subject_run>("ann 1").await.unwrap().result())
            .await
            .unwrap_err()
            .to_string();
        assert!(ended.contains("asked to be forgotten"), "{ended}");
        // What another person asks for: the key of the order is still taken, by whom nobody can read any more.
        say(&engine, &run_id("bob 1"), "word", &"hello").await.unwrap();
        let bob = in_time(engine.handle::<subject_run>("bob 1").await.unwrap().result()).await.unwrap();
        assert_eq!(bob, "bob's Taken hello 1");
        let second = engine
            .start::<subject_run>("bob again".into())
            .id("bob 2")
            .label("customer", "bob")
            .await
            .unwrap();
        waits(&engine, second.id()).await;
        assert_eq!(calls.of("subject_bill"), 1);
        let report = engine.purge(&Retention::new().cancelled(Duration::ZERO)).await.unwrap();
        assert_eq!(report.deleted, 2);
        // Also when its rows are gone.
        let third = engine
            .start::<subject_run>("bob once more".into())
            .id("bob 3")
            .label("customer", "bob")
            .await
            .unwrap();
        waits(&engine, third.id()).await;
        assert_eq!(calls.of("subject_bill"), 1);
        // A person who is erased gets no new runs under that name.
        let again = engine.start::<subject_run>("back".into()).id("ann 3").label("customer", "ann").await;
        assert!(again.unwrap_err().to_string().contains("was destroyed"));
        // Who has no key of their own gets the ring's.
        let nobody = engine.start::<subject_run>("nobody's".into()).id("nobody").await.unwrap();
        waits(&engine, nobody.id()).await;
        engine.shutdown().await.unwrap();
    }
}

/// An engine whose runs are encrypted with the key of the customer that their label names.
fn of_customers(store: &Arc<dyn Store>, calls: &Calls, folder: &SubjectKeyFolder) -> EngineBuilder {
    let keys = ring(1).key_for(folder.clone(), |place| place.labels?.get("customer").map(str::to_owned));
    builder(store, calls).payload_codec(Encryption::new(keys))
}

#[tokio::test]
async fn a_run_that_was_asked_to_end_before_its_key_was_destroyed_ends() {
    for make in stores() {
        let (place, calls, home) = (make(), Calls::default(), tempfile::tempdir().unwrap());
        let folder = SubjectKeyFolder::open(home.path(), key(100)).unwrap();
        let engine = of_customers(&place.store, &calls, &folder).start().await.unwrap();
        for id in ["ann 1", "ann 2"] {
            let run = engine.start::<subject_run>("x".into()).id(id).label("customer", "ann").await.unwrap();
            waits(&engine, run.id()).await;
        }
        engine.shutdown().await.unwrap();

        // No worker is there to obey.
        let store = place.again();
        let desk = of_customers(&store, &calls, &folder).client().start().await.unwrap();
        for id in ["ann 1", "ann 2"] {
            desk.cancel(&run_id(id), "asked with the key", "desk").await.unwrap();
        }
        folder.destroy("ann").unwrap();
        desk.terminate(&run_id("ann 2"), "asked without it", "desk").await.unwrap();
        desk.shutdown().await.unwrap();

        let store = place.again();
        let engine = of_customers(&store, &calls, &folder).start().await.unwrap();
        for (id, reason) in [("ann 1", "no reason that can be read"), ("ann 2", "asked without it")] {
            ends(&engine, &run_id(id)).await;
            let handle = engine.handle::<subject_run>(id).await.unwrap();
            let ended = in_time(handle.result()).await.unwrap_err().to_string();
            assert!(ended.contains(reason), "{id}: {ended}");
        }
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_start_key_of_an_erased_run_is_free() {
    for make in stores() {
        let (place, calls, home) = (make(), Calls::default(), tempfile::tempdir().unwrap());
        let folder = SubjectKeyFolder::open(home.path(), key(100)).unwrap();
        let engine = of_customers(&place.store, &calls, &folder).start().await.unwrap();
        let start = async |engine: &Engine, id: &str, customer: &str| {
            let start = engine.start::<subject_waits>("x".into()).id(id).label("customer", customer);
            start.once_per("desk", Singleton::Reject).await.map(|run| run.id().clone())
        };
        waits(&engine, &start(&engine, "ann 1", "ann").await.unwrap()).await;
        assert!(start(&engine, "bob 1", "bob").await.is_err(), "the key is taken");
        engine.shutdown().await.unwrap();
        folder.destroy("ann").unwrap();

        let store = place.again();
        let engine = of_customers(&store, &calls, &folder).start().await.unwrap();
        let bob = start(&engine, "bob 1", "bob").await.unwrap();
        waits(&engine, &bob).await;
        assert!(start(&engine, "bob 2", "bob").await.is_err(), "the key is taken again");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn keyed_starts_of_an_erased_subject_go_when_they_are_due_and_schedules_can_be_steered() {
    for make in stores() {
        let (place, calls, home) = (make(), Calls::default(), tempfile::tempdir().unwrap());
        let folder = SubjectKeyFolder::open(home.path(), key(100)).unwrap();
        let engine = of_customers(&place.store, &calls, &folder).start().await.unwrap();
        let start = engine.start::<subject_waits>("x".into()).id("ann 1").label("customer", "ann");
        start.dedup("k", Duration::from_secs(1)).await.unwrap();
        let weekly = engine.schedule::<subject_waits>("@weekly", "UTC").input("x".into());
        weekly.name("weekly-ann").label("customer", "ann").await.unwrap();
        engine.shutdown().await.unwrap();
        folder.destroy("ann").unwrap();

        let store = place.again();
        let engine = of_customers(&store, &calls, &folder).start().await.unwrap();
        let workflows = ["subject_waits".to_owned()].into();
        let due = DueStarts { now: jiff::Timestamp::MAX, workflows, after: None, limit: 9 };
        in_time(async {
            while !store.due_starts(due.clone()).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let weekly = engine.find_schedule("weekly-ann").await.unwrap();
        weekly.pause().await.unwrap();
        assert!(weekly.record().await.unwrap().paused);
        weekly.resume().await.unwrap();
        assert!(weekly.trigger().await.is_err(), "nobody can read what it would start");
        assert!(weekly.remove().await.unwrap());
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_parked_run_whose_key_was_destroyed_keeps_no_other_run_off_a_list() {
    for make in stores() {
        let (place, calls, home) = (make(), Calls::default(), tempfile::tempdir().unwrap());
        let folder = SubjectKeyFolder::open(home.path(), key(100)).unwrap();
        let with = |store: &Arc<dyn Store>| {
            let keys =
                ring(1).key_for(folder.clone(), |place| place.labels?.get("customer").map(str::to_owned));
            builder(store, &calls).payload_codec(Encryption::new(keys))
        };
        let engine = with(&place.store).start().await.unwrap();
        for customer in ["ann", "bob"] {
            let start = engine.start::<subject_waits>("x".into()).id(customer).label("customer", customer);
            let run = start.await.unwrap();
            waits(&engine, run.id()).await;
        }
        engine.shutdown().await.unwrap();
        let engine = with(&place.again()).without_workflow::<subject_waits>().start().await.unwrap();
        in_time(async {
            while engine.parked(RunFilter::new()).await.unwrap().runs.len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        folder.destroy("ann").unwrap();
        let parked = engine.parked(RunFilter::new()).await.unwrap().runs;
        let why: Vec<_> = parked.iter().map(|parked| (parked.run.as_str(), parked.why.as_str())).collect();
        let of = |run: &str| why.iter().find(|(id, _)| *id == run).unwrap().1;
        assert!(of("ann").contains("was destroyed") && !of("bob").contains("destroyed"), "{why:?}");
        let holds = engine.holds(RunFilter::new()).await.unwrap();
        assert!(holds.iter().all(|(_, hold)| matches!(hold, Hold::Parked { .. })), "{holds:?}");
        engine.cancel(&run_id("ann"), "asked to be forgotten", "desk").await.unwrap();
        engine.shutdown().await.unwrap();
    }
}
