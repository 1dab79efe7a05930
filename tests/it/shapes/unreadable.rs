//! Recorded values that the code cannot read: the run stops and loses nothing, and its workflow sees no error.

use std::collections::BTreeMap;

use aether::engine::Limits;
use aether::error::{Fault, RunError};
use aether::prelude::*;
use aether::store::event::Event;

use super::{old, recorded};
use crate::seeds::histories::write_where_missing;
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, stores, until_waiting};

/// The recorded values of a journal that are no arguments, each with its command.
fn values(journal: &Journal) -> Vec<(usize, String)> {
    let holds = |event: &Event| match event {
        Event::ToolInvocationFinished(e) => e.result.is_some(),
        Event::TransactionFinished(e) => e.result.is_some(),
        // That of `start_child` is the child's id, and that of `compensate` a list: neither is the program's.
        Event::CommandCommitted(e) => {
            e.result.as_ref().is_some_and(|result| result.as_str().contains("cents"))
        }
        Event::PlanGenerated(_) | Event::CompensationRecorded(_) => true,
        Event::WaitCompleted(e) => e.value.is_some(),
        _ => false,
    };
    let named = journal.events.iter().enumerate().filter(|(_, event)| holds(event));
    let named = named.map(|(at, event)| (at, event.command().unwrap().to_string()));
    // Nobody reads what a planner got once there is a plan, nor the results of steps that undo others.
    named.filter(|(_, command)| !command.contains(".p0.") && !command.contains("undo.")).collect()
}

/// The journal with another value in the event at `at`.
fn with_another(journal: &Journal, at: usize) -> Journal {
    let mut journal = journal.clone();
    let text = serde_json::to_string(&journal.events[at]).unwrap();
    let other = text.replace("\"cents\":", "\"dollars\":").replace("\"id\":", "\"number\":");
    assert_ne!(text, other);
    journal.events[at] = serde_json::from_str(&other).unwrap();
    journal
}

#[tokio::test]
async fn a_recorded_value_of_any_kind_that_cannot_be_read_stops_the_run_and_loses_nothing() {
    let recorded = recorded().await;
    let open = recorded.run.open();
    let values = values(&open);
    assert!(values.len() >= 10, "{values:?}");
    for (at, command) in values {
        let place = Place::sqlite();
        for child in &recorded.children {
            child.plant(&place.store, Rows::Follow).await;
        }
        let mut planted = with_another(&open, at);
        let undoes = matches!(planted.events[at], Event::CompensationRecorded(_));
        if undoes {
            // What was undone needs no arguments any more.
            planted = planted.through("wait_completed", "signal");
        }
        planted.plant(&place.store, Rows::Follow).await;
        let calls = Calls::default();
        let engine = builder(&place.store, &calls).provide(old::receipt(3)).start().await.unwrap();
        let run = engine.handle::<old::program::shape_order>("order").await.unwrap();
        let error = in_time(run.result()).await.unwrap_err();
        let RunError::Stopped { fault, .. } = &error else { panic!("{command}: {error}") };
        let Fault::Unreadable(unreadable) = &**fault else { panic!("{command}: {fault}") };
        let text = error.to_string();
        if undoes {
            assert!(unreadable.command.to_string().contains("shape_refund"), "{text}");
        } else {
            assert_eq!(unreadable.command.to_string(), command, "{text}");
            assert!(unreadable.recorded_site.is_some() || command.contains("plan"), "{text}");
        }
        assert!(text.contains("missing field") && text.contains("#[serde(default)]"), "{text}");
        assert_eq!(calls.all(), 0);
        let after = Journal::read(&place.store, "order").await;
        let added = &after.events[planted.events.len()..];
        // The workflow came as far as listing what is to be undone.
        let is_added = |event: &Event| match event {
            Event::RunRequeued(_) | Event::RunParked(_) | Event::CodeAdopted(_) => true,
            Event::NodeStarted(e) => undoes && e.command.name() == "compensate",
            _ => false,
        };
        assert!(added.iter().all(is_added), "{added:?}");
    }
}

#[tokio::test]
async fn the_result_of_a_child_that_ended_under_another_build_stops_its_parent_which_records_nothing() {
    let recorded = recorded().await;
    for (child, through) in [(0, "shape_parcel"), (1, "child_result")] {
        let place = Place::sqlite();
        for (at, journal) in recorded.children.iter().enumerate() {
            let events = journal.events.iter().map(|event| {
                let text = serde_json::to_string(event).unwrap();
                let text = if at == child { text.replace("\"cents\":", "\"dollars\":") } else { text };
                serde_json::from_str(&text).unwrap()
            });
            let run = journal.run.clone();
            Journal { run, events: events.collect() }.plant(&place.store, Rows::Follow).await;
        }
        let link = if child == 0 { ("child_started", "shape_parcel") } else { ("node_started", through) };
        let open = recorded.run.through(link.0, link.1);
        open.plant(&place.store, Rows::Follow).await;
        let engine = builder(&place.store, &Calls::default()).provide(old::receipt(3)).start().await.unwrap();
        let run = engine.handle::<old::program::shape_order>("order").await.unwrap();
        let RunError::Stopped { fault, .. } = in_time(run.result()).await.unwrap_err() else { panic!() };
        assert!(matches!(&*fault, Fault::Unreadable(u) if u.command.name() == through), "{fault}");
        let after = Journal::read(&place.store, "order").await;
        let added = &after.events[open.events.len()..];
        let is_added = |event: &Event| {
            matches!(event, Event::RunRequeued(_) | Event::RunParked(_) | Event::CodeAdopted(_))
        };
        assert!(added.iter().all(is_added), "{added:?}");
    }
}

/// Take in what the writer cannot read itself.
#[workflow]
async fn shape_nan(cx: &mut Cx) -> Result<String> {
    let failed = shape_no_number(cx).await.unwrap_err();
    let signal = cx.signal::<u32>("number").await.unwrap_err();
    cx.now().await;
    Ok(format!("{failed}; {signal}"))
}

/// Measure nothing.
#[step(effect = "tool")]
async fn shape_no_number(cx: &mut StepCx) -> Result<f64> {
    Calls::note(cx)?;
    Ok(f64::NAN)
}

#[tokio::test]
async fn what_could_not_be_read_when_it_was_new_is_the_same_error_on_every_replay() {
    let recorded = Place::memory();
    let engine = builder(&recorded.store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<shape_nan>(()).id("nan").await.unwrap();
    engine.signal(run.id(), "number", "letter", &"seven").await.unwrap();
    let expected = in_time(run.result()).await.unwrap();
    assert!(expected.contains("does not round-trip") && expected.contains("expected u32"), "{expected}");
    assert!(!expected.contains("seven"), "{expected}");
    let whole = Journal::read(&recorded.store, "nan").await;
    assert_eq!(whole.count("result_unreadable", "shape_no_number"), 1);
    assert_eq!(whole.count("result_unreadable", "signal"), 1);
    write_where_missing("unreadable", "nan", &recorded).await;
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        whole.open().plant(&place.store, Rows::Follow).await;
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.handle::<shape_nan>("nan").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), expected);
        assert_eq!(calls.all(), 0);
        engine.verify(&run_id("nan")).await.unwrap();
    }
}

/// Measure nothing, without the world.
#[step(effect = "pure")]
async fn shape_no_ratio(of: f64) -> Result<f64> {
    Ok((-of).sqrt())
}

/// Go on after everything that was refused because it cannot be recorded.
#[workflow]
async fn shape_refused(cx: &mut Cx, padding: usize) -> Result<Vec<String>> {
    // JSON has no such members.
    let pairs: BTreeMap<(u8, u8), u8> = BTreeMap::from([((1, 2), 3)]);
    let mut said = vec![shape_no_ratio(cx, 2.0).await.unwrap_err().to_string()];
    cx.now().await;
    said.push(cx.ask::<u32>(&pairs).await.unwrap_err().to_string());
    said.push(cx.ask::<u32>("x".repeat(padding)).await.unwrap_err().to_string());
    cx.now().await;
    said.push(cx.approval("pairs").details(&pairs).await.unwrap_err().to_string());
    cx.now().await;
    let planner = async |cx: &mut Cx| {
        cx.random().await;
        Ok::<_, Failure>(f64::NAN)
    };
    said.push(cx.plan("ratio", planner).await.unwrap_err().to_string());
    let long = "y".repeat(padding);
    let planner = async |_: &mut Cx| Ok::<_, Failure>(long.clone());
    said.push(cx.plan("long", planner).await.unwrap_err().to_string());
    cx.now().await;
    let number: u32 = cx.signal("go").await?;
    said.push(number.to_string());
    Ok(said)
}

#[tokio::test]
async fn what_was_refused_and_is_not_recorded_is_refused_at_the_same_place_on_every_replay() {
    for place in stores() {
        let place = place();
        let limits = || Limits { payload: 4096, ..Limits::default() };
        let engine = || builder(&place.store, &Calls::default()).limits(limits());
        let first = engine().start().await.unwrap();
        let run = first.start::<shape_refused>(5000_usize).id("refused").await.unwrap();
        in_time(until_waiting(&run)).await;
        first.shutdown().await.unwrap();
        let whole = Journal::read(&place.store, "refused").await;
        let second = engine().start().await.unwrap();
        second.verify(&run_id("refused")).await.unwrap();
        second.signal(&run_id("refused"), "go", "once", &7_u32).await.unwrap();
        let run = second.handle::<shape_refused>("refused").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert_eq!(said.len(), 7);
        assert!(
            said[..6].iter().all(|said| said.contains("record") || said.contains("round-trip")),
            "{said:?}"
        );
        assert_eq!(whole.count("approval_requested", "ask"), 0);
        let added = &Journal::read(&place.store, "refused").await.events[whole.events.len()..];
        assert!(added.iter().any(|event| matches!(event, Event::RunCompleted(_))), "{added:?}");
    }
}

#[tokio::test]
async fn a_lower_limit_does_not_refuse_what_is_recorded() {
    for place in stores() {
        let place = place();
        let with = |limit| {
            builder(&place.store, &Calls::default()).limits(Limits { payload: limit, ..Limits::default() })
        };
        let first = with(8192).start().await.unwrap();
        let run = first.start::<shape_long>(5000_usize).id("long").await.unwrap();
        in_time(until_waiting(&run)).await;
        first.shutdown().await.unwrap();
        let second = with(4096).start().await.unwrap();
        second.answer(&run_id("long"), "1:ask", &3_u32, "ada").await.unwrap();
        let run = second.handle::<shape_long>("long").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 5003);
    }
}

/// Pass on a long text, and ask about it.
#[workflow]
async fn shape_long(cx: &mut Cx, padding: usize) -> Result<usize> {
    let text = "x".repeat(padding);
    let length = shape_length(cx, &text).await?;
    let more: u32 = cx.ask(&text).named("more").await?;
    Ok(length + usize::try_from(more)?)
}

/// Measure a text.
#[step(effect = "read")]
async fn shape_length(_cx: &mut StepCx, text: &str) -> Result<usize> {
    Ok(text.len())
}
