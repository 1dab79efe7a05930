//! Replay sandbox: rows 65 to 73 of the seeds.

use std::path::Path;

use aether::effect::EffectClass;
use aether::engine::{Fit, Mode};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::journal::StoredFrame;
use aether::view::RunView;

use super::chain::{recorded, result_of, seed_chain};
use super::everything::{Outside, seed_everything};
use super::kit::{Calls, Journal, Rows, builder, in_time, resume, run_id, stores};

fn classes(journal: &Journal) -> Vec<(String, EffectClass)> {
    let started = journal.events.iter().filter_map(|event| match event {
        Event::NodeStarted(e) => Some((e.command.name().to_owned(), e.class)),
        _ => None,
    });
    started.collect()
}

#[tokio::test]
async fn s065_tools_models_and_child_runs_are_effects_and_every_class_is_supported() {
    let whole = recorded().await;
    use EffectClass::{External, Http, Llm, Pure, Read, Tool, Workflow};
    let expected = [
        ("look", Read),
        ("act", Tool),
        ("think", Llm),
        ("call_out", External),
        ("seed_child", Workflow),
        ("post", Http),
    ];
    assert_eq!(classes(&whole), expected.map(|(name, class)| (name.to_owned(), class)));
    let changes: Vec<_> =
        expected.iter().filter(|(_, class)| class.changes_world()).map(|(n, _)| *n).collect();
    assert_eq!(changes, ["act", "call_out", "post"]);
    assert!(!Pure.changes_world());
    // None of them is done again, whatever it is.
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        whole.open().plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        assert_eq!((result.unwrap(), calls.all()), (result_of(&whole), 0));
    }
}

#[tokio::test]
async fn s066_verify_refuses_what_is_not_recorded_and_recover_executes_it() {
    let whole = recorded().await;
    for link in super::chain::links() {
        let at =
            whole.events.iter().position(|e| e.command().is_some_and(|c| c.name() == link.name)).unwrap();
        let cut = whole.first(at);
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            let hand = cut.hold(&place.store, Rows::Follow).await;
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let fit = engine.verify(&run_id("chain")).await.unwrap().fit;
            let Fit::SoFar { at: Some(requested) } = fit else { panic!("{}: {fit:?}", link.name) };
            assert_eq!(requested.command.name(), link.name);
            assert!(requested.site.as_ref().is_some_and(|site| site.contains("chain.rs:")), "{requested:?}");
            assert_eq!((calls.all(), Journal::read(&place.store, "chain").await), (0, cut.clone()));
            hand.let_go().await;
            let run = engine.handle::<seed_chain>("chain").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), result_of(&whole));
            assert_eq!(calls.of(link.body), 1, "{:?} goes on live", Mode::Recover);
        }
    }
}

#[tokio::test]
async fn s067_reading_a_trace_executes_nothing() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, _, journal) = outside.run(&place).await;
        let before = (outside.contacts().await, outside.world.counts().1);
        let one = engine.view(&run_id("all")).await.unwrap();
        let frames = place.store.load(&run_id("all"), 0).await.unwrap();
        let dated = |frame: StoredFrame| {
            let at = frame.at;
            frame.events().unwrap().into_iter().map(move |event| (at, event))
        };
        let mut folded = RunView::fold(run_id("all"), frames.into_iter().flat_map(dated));
        // Only an engine knows its limit.
        folded.history = one.history;
        assert_eq!(one, folded);
        assert_eq!(engine.trace(&run_id("all")).await.unwrap(), one.trace());
        assert_eq!((outside.contacts().await, outside.world.counts().1), before);
        assert_eq!(Journal::read(&place.store, "all").await, journal, "and writes nothing");
    }
}

#[tokio::test]
async fn s068_replayed_output_equals_the_original() {
    for place in stores() {
        let (first, again, outside) = (place(), place(), Outside::new().await);
        let (engine, original, journal) = outside.run(&first).await;
        engine.verify(&run_id("all")).await.unwrap();
        let before = outside.contacts().await;
        journal.open().plant(&again.store, Rows::Follow).await;
        let poll = std::time::Duration::from_millis(10);
        let engine = outside.builder(&again).poll_interval(poll).start().await.unwrap();
        let run = engine.handle::<seed_everything>("all").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), original);
        assert_eq!(outside.contacts().await, before);
    }
}

/// The cases themselves are compiled by the module `ui`.
#[test]
fn s069_direct_clock_random_uuid_and_http_do_not_compile() {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    for (case, code) in [
        ("AE0101/fail/clock", "[AE0101]"),
        ("AE0102/fail/random", "[AE0102]"),
        ("AE0103/fail/uuid", "[AE0103]"),
        ("AE0106/fail/socket", "[AE0106]"),
        ("gate/fail/raw_future", "is not a recorded effect"),
    ] {
        let message = std::fs::read_to_string(ui.join(case).with_extension("stderr")).unwrap();
        assert!(message.contains(code), "{case}: {message}");
        assert!(ui.join(case).with_extension("rs").exists());
    }
}

#[tokio::test]
async fn s070_a_strict_replay_stops_with_run_and_step_at_the_forbidden_call() {
    let whole = recorded().await.first(1);
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let _hand = whole.hold(&place.store, Rows::Follow).await;
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let stands = engine.verify(&run_id("chain")).await.unwrap().to_string();
        assert!(stands.contains("the run stands at `0:look`"), "{stands}");
        assert_eq!(calls.all(), 0);
    }
}

/// Read the clock and draw.
#[workflow]
async fn seed_draws(cx: &mut Cx) -> Result<(String, String, u64, [u8; 32])> {
    Ok((cx.now().await.to_string(), cx.uuid().await.to_string(), cx.random().await, cx.seed().await))
}

/// The values of a run of [`seed_draws`] on its first run and on its replay, and what is recorded.
async fn drawn(kind: &str) -> Vec<((String, String, u64, [u8; 32]), Event)> {
    let mut found = Vec::new();
    for place in stores() {
        let (first, again) = (place(), place());
        let engine = builder(&first.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<seed_draws>(()).id("draws").await.unwrap();
        let original = in_time(run.result()).await.unwrap();
        let journal = Journal::read(&first.store, "draws").await;
        journal.open().plant(&again.store, Rows::Follow).await;
        let (_engine, replayed) = resume::<seed_draws>(&again.store, "draws", &Calls::default()).await;
        assert_eq!(replayed.unwrap(), original);
        let event = journal.events.into_iter().find(|event| event.kind() == kind);
        found.push((original, event.unwrap()));
    }
    found
}

#[tokio::test]
async fn s071_now_is_recorded_and_the_same_on_replay() {
    for ((now, ..), event) in drawn("time_recorded").await {
        let Event::TimeRecorded(e) = event else { panic!("{event:?}") };
        assert_eq!((e.command.as_str(), e.value.to_string()), ("0:now", now));
    }
}

#[tokio::test]
async fn s072_uuid_is_recorded_and_the_same_on_replay() {
    for ((_, id, ..), event) in drawn("uuid_recorded").await {
        let Event::UuidRecorded(e) = event else { panic!("{event:?}") };
        assert_eq!((e.command.as_str(), e.value.to_string(), e.value.get_version_num()), ("1:uuid", id, 4));
    }
    for ((_, _, number, seed), event) in drawn("random_recorded").await {
        let Event::RandomRecorded(e) = event else { panic!("{event:?}") };
        assert_eq!(e.value.decode::<u64>().unwrap(), number);
        assert!(seed.iter().any(|byte| *byte != 0));
    }
}

#[tokio::test]
async fn s073_http_is_recorded_with_request_and_response_and_replayed_without_network() {
    for place in stores() {
        let (first, again, outside) = (place(), place(), Outside::new().await);
        let (engine, original, journal) = outside.run(&first).await;
        let exchanges: Vec<_> = journal
            .events
            .iter()
            .filter_map(|event| match event {
                Event::HttpRecorded(e) => Some(e),
                _ => None,
            })
            .collect();
        assert_eq!(exchanges.len(), 2);
        assert!(exchanges.iter().all(|e| e.request.as_str().contains(&outside.server.uri())));
        assert!(exchanges[0].response.as_str().contains("an item"), "{:?}", exchanges[0].response);
        assert!(exchanges[1].response.as_str().contains("201"), "{:?}", exchanges[1].response);
        assert_ne!(
            (&exchanges[0].command, exchanges[0].exchange),
            (&exchanges[1].command, exchanges[1].exchange),
            "an exchange has an id of its own"
        );
        engine.verify(&run_id("all")).await.unwrap();
        journal.open().plant(&again.store, Rows::Follow).await;
        let before = outside.contacts().await;
        let (_engine, result) = resume::<seed_everything>(&again.store, "all", &outside.calls).await;
        assert_eq!(outside.contacts().await, before);
        assert_eq!(result.unwrap(), original);
    }
}
