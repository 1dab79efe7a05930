//! Child runs: ids of their own, started and not waited for, detached, cancelled and terminated with their parents.

use std::sync::Arc;
use std::time::Duration;

use aether::StepError;
use aether::engine::RunEnd;
use aether::error::StartError;
use aether::id::CommandId;
use aether::prelude::*;
use aether::store::Store;
use aether::store::event::{Event, RunCancelled, RunUnwinding};
use aether_testing::crash::{CrashPoint, CrashStore};

use crate::seeds::kit::{
    Calls, Journal, Rows, builder, in_time, resume, run_id, stores, stores_at, take_from_owner,
};

/// Pay.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = pay_back)]
async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_back(cx: &mut StepCx, cents: u32, paid: Option<u32>) -> Result<()> {
    let _ = (cents, paid);
    Calls::note(cx)
}

/// Pay, and end.
#[workflow]
async fn quick_child(cx: &mut Cx, cents: u32) -> Result<u32> {
    Ok(pay(cx, cents).await?)
}

/// Pay, and wait for a signal.
#[workflow]
async fn waiting_child(cx: &mut Cx, cents: u32) -> Result<u32> {
    let paid = pay(cx, cents).await?;
    let more: u32 = cx.signal("go").await?;
    Ok(paid + more)
}

/// Two children at once, then their results in the other order.
#[workflow]
async fn two_at_once(cx: &mut Cx) -> Result<(u32, u32)> {
    let one = cx.start_child::<quick_child>(1).id("one").await?;
    let two = cx.start_child::<quick_child>(2).await?;
    let second = two.result(cx).await?;
    Ok((one.result(cx).await?, second))
}

/// A child of each kind, and then a long wait, or the end.
#[workflow]
async fn parent(cx: &mut Cx, wait: bool) -> Result<()> {
    let _attached = cx.start_child::<waiting_child>(1).id("attached").await?;
    let _alone = cx.start_child::<waiting_child>(2).id("alone").detached().await?;
    let let_go = cx.start_child::<waiting_child>(3).id("let-go").await?;
    let_go.detach(cx).await;
    if wait {
        cx.child::<waiting_child>(4).id("awaited").await?;
    }
    Ok(())
}

/// Sleep for longer than a run that waits stays in memory.
#[workflow]
async fn nap(cx: &mut Cx) -> Result<()> {
    cx.sleep(Duration::from_millis(600)).await;
    Ok(())
}

/// Wait for a nap.
#[workflow]
async fn waits_for_a_nap(cx: &mut Cx) -> Result<()> {
    Ok(cx.child::<nap>(()).await?)
}

/// A child of a given id, with what the step error says.
#[workflow]
async fn claims(cx: &mut Cx, id: String, cents: u32) -> Result<String> {
    match cx.child::<quick_child>(cents).id(id).await {
        Ok(paid) => Ok(format!("paid {paid}")),
        Err(StepError::Rejected(reason)) => Ok(format!("rejected: {reason}")),
        Err(other) => Err(other.into()),
    }
}

/// One child id for two commands.
#[workflow]
async fn twice(cx: &mut Cx) -> Result<String> {
    cx.child::<quick_child>(1).id("same").await?;
    match cx.child::<quick_child>(1).id("same").await {
        Err(StepError::Rejected(reason)) => Ok(reason.to_string()),
        other => Err(Failure::permanent(format!("{other:?}"))),
    }
}

/// A child that `parent` started and that has ended.
async fn child_of(parent: &str, id: &str, cents: u32) -> Journal {
    let mut child = Journal::record::<quick_child>(id, cents).await;
    if let Event::RunCreated(created) = &mut child.events[0] {
        created.parent = Some(run_id(parent));
    }
    child
}

#[tokio::test]
async fn children_run_side_by_side_and_are_found_again_at_every_event() {
    let whole = Journal::record::<two_at_once>("both", ()).await;
    let children = [child_of("both", "one", 1).await, child_of("both", "both/1:quick_child", 2).await];
    let committed = |journal: &Journal| journal.count("command_committed", "quick_child");
    for cut in 1..whole.events.len() {
        for place in stores_at(cut) {
            let (place, calls) = (place(), Calls::default());
            for child in children.iter().take(committed(&whole.first(cut))) {
                child.plant(&place.store, Rows::Follow).await;
            }
            whole.first(cut).plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<two_at_once>(&place.store, "both", &calls).await;
            assert_eq!(result.unwrap(), (1, 2), "cut at {cut}");
            assert_eq!(calls.of("pay"), 2 - committed(&whole.first(cut)), "cut at {cut}");
            engine.verify(&run_id("both")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_crash_at_every_write_starts_each_child_once() {
    let place = crate::seeds::kit::Place::memory();
    let counted = Arc::new(CrashStore::new(place.store.clone(), None));
    let store: Arc<dyn Store> = counted.clone();
    let engine = builder(&store, &Calls::default()).start().await.unwrap();
    in_time(engine.start::<two_at_once>(()).id("both").await.unwrap().end()).await.unwrap();
    for write in 1..=counted.writes() {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let (place, calls) = (crate::seeds::kit::Place::memory(), Calls::default());
            let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
            let store: Arc<dyn Store> = crashing.clone();
            let engine = builder(&store, &calls).lease(Duration::from_millis(100)).start().await.unwrap();
            let starting = tokio::spawn(async move {
                let _never_answered = engine.start::<two_at_once>(()).id("both").await;
                std::future::pending::<()>().await;
            });
            in_time(crashing.crashed()).await;
            starting.abort();
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let run = engine.start::<two_at_once>(()).id("both").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), (1, 2), "{point}");
            let mut keys = calls.keys("pay");
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), 2, "{point}: {keys:?}");
            let runs = engine.runs(Default::default()).await.unwrap();
            assert_eq!(runs.len(), 3, "{point}");
        }
    }
}

async fn waiting(store: &Arc<dyn Store>, names: &[&str]) {
    in_time(async {
        for name in names {
            loop {
                if Journal::read(store, name).await.kinds().contains(&"wait_started".to_owned()) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    })
    .await;
}

async fn ends(engine: &Engine, names: &[&str]) -> Vec<String> {
    let mut ends = Vec::new();
    for name in names {
        let end = in_time(engine.find(*name).await.unwrap().end()).await.unwrap();
        ends.push(match end {
            RunEnd::Cancelled { reason, actor, .. } => format!("cancelled: {reason}, {actor}"),
            RunEnd::Terminated { reason, actor } => format!("terminated: {reason}, {actor}"),
            RunEnd::Completed(value) => format!("completed: {}", value.as_str()),
            other => format!("{other:?}"),
        });
    }
    ends
}

#[tokio::test]
async fn a_cancelled_parent_cancels_its_attached_children_and_no_others() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<parent>(true).id("parent").await.unwrap();
        waiting(&place.store, &["attached", "alone", "let-go", "awaited"]).await;
        engine.cancel(run.id(), "enough", "ann").await.unwrap();
        let cancelled = "cancelled: enough, ann";
        assert_eq!(ends(&engine, &["parent", "attached", "awaited"]).await, [cancelled; 3]);
        assert_eq!(calls.of("pay_back"), 2, "what the cancelled children did is undone");
        for alone in ["alone", "let-go"] {
            engine.signal(&run_id(alone), "go", "1", &10).await.unwrap();
        }
        assert_eq!(ends(&engine, &["alone", "let-go"]).await, ["completed: 12", "completed: 13"]);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_terminated_parent_terminates_its_attached_children() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<parent>(true).id("parent").await.unwrap();
        waiting(&place.store, &["attached", "awaited"]).await;
        engine.terminate(run.id(), "now", "bob").await.unwrap();
        assert_eq!(ends(&engine, &["parent", "attached", "awaited"]).await, ["terminated: now, bob"; 3]);
        assert_eq!(calls.of("pay_back"), 0);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_parent_that_ends_takes_its_attached_children_with_it() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<parent>(false).id("parent").await.unwrap();
        in_time(run.result()).await.unwrap();
        assert_eq!(ends(&engine, &["attached"]).await, ["cancelled: its parent `parent` has ended, engine"]);
        engine.signal(&run_id("alone"), "go", "1", &10).await.unwrap();
        assert_eq!(ends(&engine, &["alone"]).await, ["completed: 12"]);
    }
}

/// The parent was cancelled, and its process died before, while and after its children were told.
#[tokio::test]
async fn children_are_told_again_after_a_crash() {
    for write in 0..4 {
        let (place, calls) = (crate::seeds::kit::Place::memory(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<parent>(true).id("parent").await.unwrap();
        waiting(&place.store, &["attached", "awaited"]).await;
        let run_id = run.id().clone();
        engine.shutdown().await.unwrap();

        let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(CrashPoint::Before(write + 1))));
        let store: Arc<dyn Store> = crashing.clone();
        let engine = builder(&store, &calls).start().await.unwrap();
        let _asked = engine.cancel(&run_id, "enough", "ann").await.unwrap();
        in_time(crashing.crashed()).await;
        let engine = builder(&place.store, &calls).lease(Duration::from_millis(100)).start().await.unwrap();
        // Takes the runs over as if their holder's process had died.
        for held in engine.runs(Default::default()).await.unwrap() {
            take_from_owner(&place.store, &held, jiff::Timestamp::now()).await;
        }
        let cancelled = "cancelled: enough, ann";
        assert_eq!(ends(&engine, &["parent", "attached", "awaited"]).await, [cancelled; 3], "{write}");
    }
}

/// Claims a run for a worker that never lets it go.
async fn hold_for_ever(store: &Arc<dyn Store>, run: &str) {
    let worker = aether::id::WorkerId::from("elsewhere".to_owned());
    store.renew(&worker, Duration::MAX, Vec::new()).await.unwrap();
    let request = aether::store::ClaimRequest {
        worker,
        now: jiff::Timestamp::now(),
        silent: Vec::new(),
        limit: 1,
        codes: Vec::new(),
        only: None,
        adopt: vec![run_id(run)],
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    };
    assert_eq!(store.claim(request).await.unwrap()[0].run.epoch, 2);
}

/// One child, and how it lives.
#[workflow]
async fn starts_a_child(cx: &mut Cx, detached: bool) -> Result<()> {
    let child = cx.start_child::<quick_child>(1).id("late");
    if detached {
        child.detached().await?;
    } else {
        child.await?.result(cx).await?;
    }
    Ok(())
}

/// Its creator had lost the parent, and was gone before it could look at it once more. The parent was cancelled, or was about to
/// undo what it had done, when its child was not there yet.
#[tokio::test]
async fn a_child_that_comes_after_its_parents_end_does_not_begin() {
    for (detached, at_once, cut) in
        [(false, false, false), (false, true, false), (false, false, true), (true, false, false)]
    {
        let whole = Journal::record::<starts_a_child>("a", detached).await;
        let linked = whole.through("child_started", "quick_child");
        let late = child_of("a", "late", 1).await.first(1);
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            if cut {
                // Decided, and cut off before the end.
                let mut unwinding = linked.clone();
                let (reason, actor, uncompensated) = ("enough".into(), "ann".into(), Vec::new());
                let end = Box::new(RunCancelled { reason, actor, uncompensated, expired_at: None }.into());
                unwinding.events.push(RunUnwinding { end }.into());
                unwinding.plant(&place.store, Rows::Follow).await;
                hold_for_ever(&place.store, "a").await;
            } else {
                linked.plant(&place.store, Rows::Follow).await;
                let client = builder(&place.again(), &calls).client().start().await.unwrap();
                match at_once {
                    true => client.terminate(&run_id("a"), "enough", "ann").await.unwrap(),
                    false => client.cancel(&run_id("a"), "enough", "ann").await.unwrap(),
                };
                let engine = builder(&place.again(), &calls).start().await.unwrap();
                let end = in_time(engine.find("a").await.unwrap().end()).await.unwrap();
                assert!(matches!(end, RunEnd::Cancelled { .. } | RunEnd::Terminated { .. }), "{end:?}");
                engine.shutdown().await.unwrap();
                client.shutdown().await.unwrap();
            }
            late.plant(&place.store, Rows::Follow).await;
            let engine = builder(&place.again(), &calls).start().await.unwrap();
            let expected = match (detached, at_once) {
                (true, _) => "completed: 1",
                (false, true) => "terminated: enough, ann",
                (false, false) => "cancelled: enough, ann",
            };
            assert_eq!(ends(&engine, &["late"]).await, [expected], "cut: {cut}");
            assert_eq!(calls.of("pay"), usize::from(detached));
            engine.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_id_of_another_run_or_input_is_refused() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        // A run of the user's own that has the child's id, and even the child's workflow and input.
        in_time(engine.start::<quick_child>(1).id("mine").await.unwrap().result()).await.unwrap();
        let run = engine.start::<claims>(("mine".into(), 1)).id("a").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert!(said.contains("child id `mine` is taken by a run without a parent"), "{said}");
        engine.verify(run.id()).await.unwrap();
        // The same under the id that a child would have by itself.
        in_time(engine.start::<quick_child>(1).id("b/0:quick_child").await.unwrap().result()).await.unwrap();
        let run = engine.start::<claims>(("b/0:quick_child".into(), 1)).id("b").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().contains("taken by a run without a parent"));
        // A child of another run.
        let run = engine.start::<claims>(("theirs".into(), 1)).id("c").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "paid 1");
        let run = engine.start::<claims>(("theirs".into(), 1)).id("d").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().contains("taken by a child of run `c`"));
        // A child of another command.
        let run = engine.start::<twice>(()).id("e").await.unwrap();
        assert!(
            in_time(run.result()).await.unwrap().contains("taken by the child of command `0:quick_child`")
        );
        engine.verify(run.id()).await.unwrap();
        // A child is not started as if it were a run of the caller's own.
        let refused = engine.start::<quick_child>(1).id("theirs").await.unwrap_err();
        assert!(matches!(&refused, StartError::IdTaken { difference, .. } if difference.contains("child")));
        assert_eq!(calls.of("pay"), 4);
    }
}

/// The parent died between the link and the child; meanwhile somebody took the id with another input.
#[tokio::test]
async fn a_child_with_another_input_is_not_taken_for_ours() {
    let whole = Journal::record::<claims>("a", ("child".into(), 5)).await;
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        child_of("a", "child", 6).await.plant(&place.store, Rows::Follow).await;
        whole.through("child_started", "quick_child").plant(&place.store, Rows::Follow).await;
        let (_, result) = resume::<claims>(&place.store, "a", &calls).await;
        assert!(result.unwrap().contains("taken by a child with another input"));
    }
}

#[tokio::test]
async fn a_child_that_is_asked_for_under_another_id_is_a_divergence() {
    let whole = Journal::record::<two_at_once>("both", ()).await;
    let mut cut = whole.through("child_started", "quick_child");
    for event in &mut cut.events {
        if let Event::ChildStarted(started) = event {
            started.child = run_id("another");
        }
    }
    for place in stores() {
        let place = place();
        cut.plant(&place.store, Rows::Follow).await;
        let (_, result) = resume::<two_at_once>(&place.store, "both", &Calls::default()).await;
        let said = result.unwrap_err().to_string();
        assert!(said.contains("diverged") && said.contains("as run another"), "{said}");
    }
}

#[tokio::test]
async fn the_handle_of_a_child_names_it() {
    let place = crate::seeds::kit::Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    in_time(engine.start::<two_at_once>(()).id("both").await.unwrap().result()).await.unwrap();
    let view = engine.view(&run_id("both")).await.unwrap();
    let started = view.step(&CommandId::from("0:quick_child".to_owned())).unwrap();
    assert_eq!(started.result.as_ref().unwrap().as_ref().unwrap().as_str(), "\"one\"");
}

/// Fail.
#[workflow]
async fn failing_child(_cx: &mut Cx, order: u32) -> Result<u32> {
    Err(Failure::permanent(format!("{order} failed")))
}

/// Say how the child ended.
#[workflow]
async fn forgiving(cx: &mut Cx) -> Result<String> {
    Ok(match cx.child::<failing_child>(7).await {
        Ok(order) => format!("{order} is done"),
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn a_child_of_a_run_that_had_the_id_before_is_not_taken_for_ours() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let order = async || {
            let run = engine.start::<forgiving>(()).id("order-7").await.unwrap();
            in_time(run.result()).await.unwrap()
        };
        let purge = async |run: &str| drop(place.store.purge(&run_id(run), None).await.unwrap());
        assert_eq!(order().await, "7 failed");
        purge("order-7").await;
        // Its child is kept for longer.
        assert!(order().await.contains("taken by a child of an earlier run `order-7`"));
        purge("order-7").await;
        purge("order-7/0:failing_child").await;
        assert_eq!(order().await, "7 failed");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_parent_leaves_its_place_to_its_child_however_often_the_engine_looks() {
    let folder = tempfile::tempdir().unwrap();
    // The parent looks several times before it may leave, and a look asks another thread.
    let (poll, grace) = (Duration::from_millis(20), Duration::from_millis(300));
    let builder = Engine::builder().sqlite(folder.path().join("agent.db")).max_active(1);
    let engine = builder.poll_interval(poll).eviction_grace(grace).start().await.unwrap();
    let run = engine.start::<waits_for_a_nap>(()).await.unwrap();
    in_time(run.result()).await.unwrap();
    engine.shutdown().await.unwrap();
}
