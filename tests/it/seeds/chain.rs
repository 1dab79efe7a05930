//! A workflow with a step of every class that is recorded as a step, and the checks that all of them pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use aether::definition::{Step, Workflow};
use aether::effect::Payload;
use aether::error::{Fault, RunError};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{AppendError, Store, StoreError};
use aether::view::RunView;
use aether_testing::FailingStore;

use super::kit::{Calls, Journal, Rows, builder, in_time, json, resume, run_id, stores};

/// Texts that a decoder and an encoder between them would change.
fn answer(n: u32) -> Payload {
    json(&format!(r#"{{"b": 1.50,  "a":[1e3, "\u00e9", {n}]}}"#))
}

/// Look at the world.
#[step(effect = "read")]
pub(crate) async fn look(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(answer(n))
}

/// Ask a model.
#[step(effect = "llm")]
pub(crate) async fn think(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(answer(n))
}

/// Use a tool, which sees how far its own run is recorded.
#[step(effect = "tool")]
pub(crate) async fn act(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    let store = cx.dep::<Arc<dyn Store>>()?;
    let (record, last) = (store.run(cx.run_id()).await?, store.last_frame(cx.run_id()).await?);
    let seen = last.map(|frame| frame.events()).transpose()?.unwrap_or_default();
    let kinds: Vec<_> = seen.iter().map(Event::kind).collect();
    cx.dep::<Calls>()?.add("act saw", &format!("{kinds:?} {}", record.map_or(0, |record| record.next)));
    Ok(answer(n))
}

/// Ask another system to do something.
#[step(effect = "external")]
pub(crate) async fn call_out(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(answer(n))
}

/// Post something.
#[step(effect = "http")]
pub(crate) async fn post(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(answer(n))
}

/// Look, in a child run.
#[step(effect = "read")]
pub(crate) async fn look_inside(cx: &mut StepCx, n: u32) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(answer(n))
}

/// The child run.
#[workflow]
pub(crate) async fn seed_child(cx: &mut Cx, n: u32) -> Result<Payload> {
    Ok(look_inside(cx, n).await?)
}

/// A step of each class, one after the other.
#[workflow]
pub(crate) async fn seed_chain(cx: &mut Cx, n: u32) -> Result<Vec<Payload>> {
    Ok(vec![
        look(cx, n).await?,
        act(cx, n).await?,
        think(cx, n).await?,
        call_out(cx, n).await?,
        cx.child::<seed_child>(n).await?,
        post(cx, n).await?,
    ])
}

/// One step of the chain, and the name under which the calls of its body are counted.
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) body: &'static str,
}

/// The chain's steps, in order.
pub(crate) fn links() -> [Link; 6] {
    let own = |name| Link { name, body: name };
    let child = Link { name: seed_child::DEF.name, body: look_inside::DEF.name };
    [
        own(look::DEF.name),
        own(act::DEF.name),
        own(think::DEF.name),
        own(call_out::DEF.name),
        child,
        own(post::DEF.name),
    ]
}

/// The chain, recorded once as run `chain`.
pub(crate) async fn recorded() -> Journal {
    Journal::record::<seed_chain>("chain", 7).await
}

/// What the recorded chain resulted in.
pub(crate) fn result_of(journal: &Journal) -> Vec<Payload> {
    match journal.events.last() {
        Some(Event::RunCompleted(e)) => e.result.decode().unwrap(),
        other => panic!("the chain completes, but: {other:?}"),
    }
}

/// What a fold of the journal calls complete, by name.
pub(crate) fn completed(journal: &Journal) -> BTreeSet<String> {
    let view = RunView::fold(run_id(&journal.run), journal.events.iter().cloned());
    view.completed().iter().map(|command| command.name().to_owned()).collect()
}

/// S4: the outcome is committed, and nothing after it was written.
pub(crate) async fn committed_but_not_finished(link: &Link) {
    let whole = recorded().await;
    let cut = whole.through("command_committed", link.name);
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        cut.plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        assert_eq!(calls.of(link.body), 0, "{}", link.name);
        assert_eq!(result.unwrap(), result_of(&whole), "{}", link.name);
        let after = Journal::read(&place.store, "chain").await;
        assert_eq!(after.count("node_finished", link.name), 1, "{}", link.name);
        assert_eq!(after.kinds_of(link.name), whole.kinds_of(link.name));
        assert_eq!(after.facts().len(), whole.facts().len(), "{:?}", after.kinds());
    }
}

/// S5: the step is over.
pub(crate) async fn already_finished(link: &Link) {
    let whole = recorded().await;
    let cut = whole.through("step_committed", link.name);
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        cut.plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        assert_eq!(calls.of(link.body), 0, "{}", link.name);
        assert_eq!(result.unwrap(), result_of(&whole));
        let after = Journal::read(&place.store, "chain").await;
        assert_eq!(after.of(link.name), whole.of(link.name), "no new event of {}", link.name);
        assert_eq!(after.first(cut.events.len()), cut);
    }
}

/// S7: the order of a step's events.
pub(crate) async fn in_order(link: &Link) {
    let expected: &[&str] = match link.name {
        "look" => &["node_started", "command_committed", "node_finished", "step_committed"],
        "think" => {
            &["node_started", "command_emitted", "command_committed", "node_finished", "step_committed"]
        }
        "seed_child" => {
            &["node_started", "child_started", "command_committed", "node_finished", "step_committed"]
        }
        _ => &[
            "node_started",
            "tool_invocation_started",
            "tool_invocation_finished",
            "command_committed",
            "node_finished",
            "step_committed",
        ],
    };
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_chain>(7).id("chain").await.unwrap();
        in_time(run.result()).await.unwrap();
        let journal = Journal::read(&place.store, "chain").await;
        assert_eq!(journal.kinds_of(link.name), expected, "{}", link.name);
        let record = place.store.run(run.id()).await.unwrap().unwrap();
        assert_eq!(record.next, journal.events.len() as u64, "the cursor is behind the last event");
    }
}

/// S8 and S9: the append that holds outcome and end of the step fails.
pub(crate) async fn the_commit_fails(link: &Link) {
    let whole = recorded().await;
    let begun = link.name == seed_child::DEF.name;
    // Everything before this step is there; a child's link as well, and the child itself, so that the next append but
    // the takeover's is the commit.
    let former =
        whole.events.iter().position(|e| e.command().is_some_and(|c| c.name() == link.name)).unwrap();
    let cut = whole.first(if begun { former + 2 } else { former });
    let started = |name: &str| matches!(name, "act" | "call_out" | "post" | "think");
    let commit = if started(link.name) { 3 } else { 2 };
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        if begun {
            let mut child = Journal::record::<seed_child>("chain/4:seed_child", 7).await;
            if let Event::RunCreated(created) = &mut child.events[0] {
                created.parent = Some(run_id("chain"));
            }
            child.plant(&place.store, Rows::Follow).await;
        }
        cut.plant(&place.store, Rows::Follow).await;
        let full = StoreError::Full { store: "test".into(), reason: "no space left".into() };
        let failing: Arc<dyn Store> =
            Arc::new(FailingStore::new(place.store.clone()).appends_fail_from(commit, full.clone()));
        let (engine, result) = resume::<seed_chain>(&failing, "chain", &calls).await;
        let Err(RunError::Stopped { run, fault }) = result else { panic!("{}: {result:?}", link.name) };
        assert_eq!((run.as_str(), *fault), ("chain", Fault::Append(AppendError::Store(full))));
        let after = Journal::read(&place.store, "chain").await;
        for kind in ["command_committed", "node_finished", "step_committed"] {
            assert_eq!(after.count(kind, link.name), 0, "{kind} of {}", link.name);
        }
        let written = cut.events.len() as u64 + if started(link.name) { 3 } else { 1 };
        let record = place.store.run(&run_id("chain")).await.unwrap().unwrap();
        assert_eq!(record.next, written, "the cursor has not moved past what is durable: {}", link.name);
        drop(engine);
    }
}
