//! Callbacks: a body hands its completion to somebody outside. Row 100; and row 88, wake-ups without polling.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::effect::EffectClass;
use aether::engine::{Environment, RunEnd, SystemEnvironment};
use aether::id::{CommandId, RunId};
use aether::people::{Approvals, DecideError, WaitFilter, Waiting};
use aether::prelude::*;
use aether::store::{Message, Sent};
use aether::view::{Status, Trigger};
use aether_testing::{CrashPoint, Live, Sim};
use jiff::Timestamp;
use tokio::sync::watch;

use super::human::{pending, suspended};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, json, stores};

/// What bodies gave away.
#[derive(Clone, Debug, Default)]
struct Tokens(Arc<Mutex<Vec<String>>>);

impl Tokens {
    fn give(&self, token: &str) {
        self.0.lock().unwrap().push(token.to_owned());
    }

    async fn newest(&self, count: usize) -> String {
        in_time(async {
            loop {
                let tokens = self.0.lock().unwrap().clone();
                if tokens.len() >= count {
                    return tokens[count - 1].clone();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await
    }
}

/// Have something rendered elsewhere.
#[step(effect = "tool", retry(max_retries = 2, delay = "1ms"), idempotent)]
async fn render(cx: &mut StepCx, limit_ms: Option<u64>) -> Result<u32> {
    Calls::note(cx)?;
    let mut callback = cx.callback()?;
    cx.dep::<Tokens>()?.give(callback.token());
    if let Some(limit) = limit_ms {
        callback = callback.expires(Duration::from_millis(limit));
    }
    // Any error will do.
    Err(Failure::permanent(format!("wrapped: {}", callback.pending())))
}

/// Have something rendered elsewhere; in doubt is a question.
#[step(effect = "tool", on_unknown = "ask")]
async fn render_or_ask(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let callback = cx.callback()?.expires(Duration::from_millis(1));
    cx.dep::<Tokens>()?.give(callback.token());
    Err(callback.pending().into())
}

/// Have something rendered elsewhere; what is not reported is sent again.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn render_again(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let mut callback = cx.callback()?;
    if cx.dep::<Tokens>()?.0.lock().unwrap().is_empty() {
        callback = callback.expires(Duration::from_millis(5));
    }
    cx.dep::<Tokens>()?.give(callback.token());
    Err(callback.pending().into())
}

/// Gets no callback, because it changes nothing.
#[step(effect = "read")]
async fn look_for_callback(cx: &mut StepCx) -> Result<()> {
    let _callback = cx.callback()?;
    Ok(())
}

fn told(result: std::result::Result<u32, StepError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(StepError::App(why) | StepError::Exhausted(why)) => format!("failed: {why}"),
        Err(StepError::InDoubt(why)) => format!("in doubt: {why}"),
        Err(other) => format!("other: {other}"),
    }
}

/// Render.
#[workflow]
async fn seed_render(cx: &mut Cx, limit_ms: Option<u64>) -> Result<String> {
    Ok(told(render(cx, limit_ms).await))
}

/// Render.
#[workflow]
async fn seed_render_again(cx: &mut Cx) -> Result<String> {
    Ok(told(render_again(cx).await))
}

/// Render.
#[workflow]
async fn seed_render_or_ask(cx: &mut Cx) -> Result<String> {
    Ok(told(render_or_ask(cx).await))
}

/// Look.
#[workflow]
async fn seed_look_for_callback(cx: &mut Cx) -> Result<()> {
    Ok(look_for_callback(cx).await?)
}

async fn engine(place: &Place, calls: &Calls, tokens: &Tokens) -> Engine {
    let grace = Duration::from_millis(1);
    let builder = builder(&place.store, calls).provide(tokens.clone()).eviction_grace(grace);
    builder.start().await.unwrap()
}

const CALLED_BACK: [&str; 8] = [
    "node_started",
    "tool_invocation_started",
    "callback_awaited",
    "callback_received",
    "tool_invocation_finished",
    "command_committed",
    "node_finished",
    "step_committed",
];

#[tokio::test]
async fn s100_a_body_that_hands_its_completion_over_waits() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let engine = engine(&place, &calls, &tokens).await;
        let run = engine.start::<seed_render>(None).id("render").await.unwrap();
        let token = tokens.newest(1).await;
        let waits = pending(&engine, run.id()).await;
        suspended(&engine, run.id()).await;
        assert_eq!((waits.waiting, waits.until), (Waiting::Callback, None));
        assert_eq!(engine.view(run.id()).await.unwrap().steps[0].status, Status::Waiting);

        let misfit = engine.complete_callback(&token, "text").await.unwrap_err();
        assert!(matches!(&misfit, DecideError::Misfit { .. }), "{misfit}");
        let misfit = engine.fail_callback(&token, &7).await.unwrap_err();
        assert!(matches!(&misfit, DecideError::Misfit { .. }), "{misfit}");
        for wrong in ["", "cb1.61.62.0.00", &token[..token.len() - 1], &token.replace(".0.", ".1.")] {
            let error = engine.complete_callback(wrong, &7).await.unwrap_err();
            assert!(matches!(error, DecideError::UnknownToken { .. }), "{wrong}: {error}");
        }
        assert_eq!(pending(&engine, run.id()).await.refused.len(), 0, "the wait goes on");

        assert_eq!(engine.complete_callback(&token, &7).await, Ok(Sent::Delivered));
        assert_eq!(in_time(run.result()).await.unwrap(), "7");
        assert_eq!(engine.complete_callback(&token, &8).await, Ok(Sent::Duplicate));
        assert_eq!(calls.of("render"), 1);
        assert_eq!(Journal::read(&place.store, "render").await.kinds_of("render"), CALLED_BACK);
        let view = engine.view(run.id()).await.unwrap();
        let moves: Vec<_> =
            view.executions[0].lifecycle.transitions.iter().map(|moved| moved.trigger).collect();
        assert_eq!(moves, [Trigger::Start, Trigger::Suspend, Trigger::Resume, Trigger::Succeed]);
        assert_eq!((view.steps[0].status, view.illegal.len()), (Status::Completed, 0), "{:?}", view.illegal);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s100_a_reported_failure_is_as_good_as_the_bodys_own() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let engine = engine(&place, &calls, &tokens).await;
        let run = engine.start::<seed_render>(None).id("render").await.unwrap();
        let first = tokens.newest(1).await;
        engine.fail_callback(&first, &Failure::retryable("out of paper")).await.unwrap();
        let second = tokens.newest(2).await;
        assert_ne!(first, second, "a new attempt has a new token");
        let late = engine.complete_callback(&first, &1).await;
        assert!(matches!(late, Err(DecideError::NotWaiting { .. })), "{late:?}");
        engine.fail_callback(&second, &Failure::permanent("on fire")).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "failed: on fire");
        assert_eq!(calls.keys("render"), ["aether:render:0:render:0", "aether:render:0:render:1"]);
        let statuses: Vec<_> =
            engine.ledger(run.id()).await.unwrap().iter().map(|row| row.status.as_str()).collect();
        assert_eq!(statuses, ["failed", "failed"]);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s100_many_reports_at_once_complete_it_once() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let engine = engine(&place, &calls, &tokens).await;
        let run = engine.start::<seed_render>(None).id("render").await.unwrap();
        let token = tokens.newest(1).await;
        let mut reports = Vec::new();
        for number in 0..8 {
            let (engine, token) = (engine.clone(), token.clone());
            reports
                .push(tokio::spawn(async move { (number, engine.complete_callback(&token, &number).await) }));
        }
        let mut taken = Vec::new();
        for report in reports {
            match report.await.unwrap() {
                (number, Ok(Sent::Delivered)) => taken.push(number.to_string()),
                (_, Ok(Sent::Duplicate)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(taken, [in_time(run.result()).await.unwrap()]);
    }
}

/// The process dies between the body and its record; the report came meanwhile, and counts before any policy.
#[tokio::test]
async fn s100_a_report_survives_a_crash_at_every_event_and_may_come_early() {
    let (place, tokens) = (Place::memory(), Tokens::default());
    let first = engine(&place, &Calls::default(), &tokens).await;
    let run = first.start::<seed_render>(None).id("render").await.unwrap();
    let token = tokens.newest(1).await;
    first.complete_callback(&token, &7).await.unwrap();
    in_time(run.result()).await.unwrap();
    let whole = Journal::read(&place.store, "render").await;
    for kind in
        ["run_created", "node_started", "tool_invocation_started", "callback_awaited", "callback_received"]
    {
        for place in stores() {
            let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
            let left = whole.through(kind, "render");
            let started = left.count("tool_invocation_started", "render");
            let hand = left.hold(&place.store, Rows::Follow).await;
            let engine = engine(&place, &calls, &tokens).await;
            if started == 1 {
                engine.complete_callback(&token, &9).await.unwrap();
                hand.let_go().await;
            } else {
                hand.let_go().await;
                assert_eq!(tokens.newest(1).await, token, "the same attempt has the same token");
                in_time(async {
                    while engine.complete_callback(&token, &9).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                })
                .await;
            }
            let run = engine.handle::<seed_render>("render").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), "9", "{kind}");
            assert_eq!(calls.of("render"), 1 - started, "{kind}");
            engine.verify(run.id()).await.unwrap();
        }
    }
}

/// Process deaths at every write, with a report once an hour: it completes the attempt, or nobody knows.
#[tokio::test]
async fn s100_a_report_survives_a_crash_at_every_write() {
    let tokens = Tokens::default();
    let reported = tokens.clone();
    let report = move |live: Live| {
        let tokens = reported.clone();
        async move {
            loop {
                let newest = tokens.0.lock().unwrap().last().cloned();
                if let Some(token) = newest {
                    let _too_late = live.engine().complete_callback(&token, &7).await;
                }
                live.sleep(Duration::from_secs(60)).await;
            }
        }
    };
    let sim = Sim::new::<seed_render>().real::<render>().provide(Calls::default()).provide(tokens);
    let sim = sim.meanwhile(report);
    let whole = sim.run(None).await;
    assert_eq!(whole.assert_completed(), "7");
    let mut reported = 0;
    for write in 1..=whole.writes {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let crashed = sim.clone().crash(point).run(None).await;
            let said = crashed.assert_completed();
            assert!(said == "7" || said.starts_with("in doubt"), "{point}: {said}");
            reported += usize::from(said == "7");
            assert!(
                crashed.calls::<render>().len() <= 1 || write <= 2,
                "{point}: sent again after its intent"
            );
            assert!(crashed.view.illegal.is_empty(), "{point}: {:?}", crashed.view.illegal);
            crashed.verified.unwrap().unwrap();
        }
    }
    // All but the window between the intent and the word that a callback is awaited.
    assert!(reported as u64 >= 2 * whole.writes - 2, "{reported} of {} writes", whole.writes);
}

/// A run that ends while an outcome is waited for says so in its journal.
#[tokio::test]
async fn s100_cancelling_a_run_leaves_the_attempt_in_doubt() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let hour = Duration::from_secs(3600);
        let builder = builder(&place.store, &calls).provide(tokens.clone()).eviction_grace(hour);
        let engine = builder.start().await.unwrap();
        let run = engine.start::<seed_render>(None).id("render").await.unwrap();
        let token = tokens.newest(1).await;
        pending(&engine, run.id()).await;
        engine.cancel(run.id(), "not needed", "bob").await.unwrap();
        assert!(matches!(in_time(run.end()).await, Ok(RunEnd::Cancelled { .. })));
        assert_eq!(Journal::read(&place.store, "render").await.count("invocation_abandoned", "render"), 1);
        assert_eq!(engine.ledger(run.id()).await.unwrap()[0].status.as_str(), "in_doubt");
        let late = engine.complete_callback(&token, &7).await;
        assert!(matches!(late, Err(DecideError::RunEnded { .. })), "{late:?}");
    }
}

#[tokio::test]
async fn s100_without_a_report_in_time_nobody_knows() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let engine = engine(&place, &calls, &tokens).await;
        let run = engine.start::<seed_render>(Some(5)).id("render").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert!(said.starts_with("in doubt: ") && said.contains("did not come in time"), "{said}");
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].status, view.illegal.len()), (Status::Failed, 0), "{:?}", view.illegal);
        let late = engine.complete_callback(&tokens.newest(1).await, &1).await;
        assert!(matches!(late, Err(DecideError::RunEnded { .. })), "{late:?}");
        engine.verify(run.id()).await.unwrap();

        // Where an operator is asked, a late report is as good as the operator's word.
        let run = engine.start::<seed_render_or_ask>(()).id("ask").await.unwrap();
        in_time(async {
            while pending(&engine, run.id()).await.waiting != Waiting::Resolution {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        suspended(&engine, run.id()).await;
        engine.complete_callback(&tokens.newest(2).await, &5).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "5");
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].status, view.illegal.len()), (Status::Completed, 0), "{:?}", view.illegal);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s100_an_attempt_that_is_sent_again_is_reported_under_the_same_token() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let engine = engine(&place, &calls, &tokens).await;
        let run = engine.start::<seed_render_again>(()).id("again").await.unwrap();
        let (first, second) = (tokens.newest(1).await, tokens.newest(2).await);
        assert_eq!(first, second);
        in_time(async {
            while Journal::read(&place.store, "again").await.count("callback_awaited", "render_again") < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        suspended(&engine, run.id()).await;
        assert_eq!(engine.complete_callback(&second, &6).await, Ok(Sent::Delivered));
        assert_eq!(in_time(run.result()).await.unwrap(), "6");
        assert_eq!(calls.keys("render_again"), ["aether:again:0:render_again:0"; 2]);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s100_only_a_step_that_changes_the_world_gets_a_callback() {
    let (place, calls, tokens) = (Place::memory(), Calls::default(), Tokens::default());
    let engine = engine(&place, &calls, &tokens).await;
    let run = engine.start::<seed_look_for_callback>(()).await.unwrap();
    let error = in_time(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("effect class `read`") && error.contains("0:look_for_callback"), "{error}");
}

/// Wait for a word of each kind.
#[workflow]
pub(super) async fn seed_words(cx: &mut Cx) -> Result<String> {
    let number: u32 = cx.signal("number").await?;
    let more: u32 = cx.ask("More?").await?;
    let by = cx.approval("go on").await?.granted()?;
    let rendered = render(cx, None).await?;
    Ok(format!("{number} {more} {by} {rendered}"))
}

/// Have a person decide about a call, an answer, and a report from outside.
pub(super) async fn people(place: &Place) -> String {
    let (calls, tokens) = (Calls::default(), Tokens::default());
    let approvals = Approvals::new().step("render").expires(Duration::from_secs(3600));
    let builder = builder(&place.store, &calls).provide(tokens.clone()).approvals(approvals);
    let engine = builder.start().await.unwrap();
    let run = engine.start::<seed_words>(()).id("people").await.unwrap();
    engine.signal(run.id(), "number", "n", &1).await.unwrap();
    let question = waits_for(&engine, run.id(), "ask").await;
    engine.answer(run.id(), &question, &"a few", "eve").await.unwrap();
    in_time(async {
        while engine.answer(run.id(), &question, &2, "ann").await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    engine.approve(run.id(), &waits_for(&engine, run.id(), "approval").await, "bob").await.unwrap();
    let render = waits_for(&engine, run.id(), "render").await;
    let edited = serde_json::json!({"limit_ms": 3_600_000});
    engine.approve_with(run.id(), &render, &edited, "bob").await.unwrap();
    let token = tokens.newest(1).await;
    engine.complete_callback(&token, &3).await.unwrap();
    in_time(run.result()).await.unwrap()
}

/// The command of this name, once a person is asked about it.
async fn waits_for(engine: &Engine, run: &RunId, name: &str) -> CommandId {
    in_time(async {
        loop {
            let waits = pending(engine, run).await;
            if waits.waiting != Waiting::Callback && waits.command.name() == name {
                return waits.command;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// The engine looks for work once an hour: only a wake-up can be in time. In memory and suspended.
#[tokio::test]
async fn s088_in_one_process_a_message_wakes_the_run_without_polling() {
    for place in stores() {
        for grace in [Duration::from_millis(1), Duration::from_secs(3600)] {
            let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
            let hour = Duration::from_secs(3600);
            let engine = builder(&place.store, &calls)
                .provide(tokens.clone())
                .approvals(Approvals::new().class(EffectClass::Tool))
                .eviction_grace(grace)
                .poll_interval(hour);
            let engine = engine.start().await.unwrap();
            let run = engine.start::<seed_words>(()).id("words").await.unwrap();
            let id = run.id().clone();
            let ready = async || {
                if grace < hour {
                    suspended(&engine, &id).await;
                }
            };
            ready().await;
            engine.signal(&id, "number", "n", &1).await.unwrap();
            let question = pending(&engine, &id).await.command;
            ready().await;
            engine.answer(&id, &question, &2, "ann").await.unwrap();
            for name in ["approval", "render"] {
                let command = waits_for(&engine, &id, name).await;
                ready().await;
                engine.approve(&id, &command, "bob").await.unwrap();
            }
            let token = tokens.newest(1).await;
            engine.complete_callback(&token, &3).await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), "1 2 bob 3");
            assert!(engine.all_pending(WaitFilter::default()).await.unwrap().waits.is_empty());
        }
    }
}

/// A clock that moves when it is told to.
#[derive(Clone, Debug)]
struct ManualEnvironment(Arc<watch::Sender<Timestamp>>);

impl ManualEnvironment {
    fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }
}

impl Environment for ManualEnvironment {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut time = self.0.subscribe();
        Box::pin(async move {
            let _reached = time.wait_for(|now| *now >= until).await;
        })
    }
}

/// With the default settings, what another process sends is found when 250 ms have passed on the engine's clock; in
/// memory and suspended.
#[tokio::test]
async fn s088_across_processes_a_message_is_found_within_250_ms() {
    for place in stores() {
        for in_memory in [true, false] {
            let (place, calls) = (place(), Calls::default());
            let world = ManualEnvironment(Arc::new(watch::Sender::new(Timestamp::now())));
            let engine = Engine::builder().environment(Arc::new(world.clone())).store(place.store.clone());
            let engine = engine.provide(calls).start().await.unwrap();
            let run = engine.start::<seed_words>(()).id("words").await.unwrap();
            in_time(async {
                while Journal::read(&place.store, "words").await.count("wait_started", "signal") == 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                while !in_memory && run.status().await.unwrap() != Status::Waiting {
                    world.advance(Duration::from_secs(1));
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            // As another process sends it: this engine is not told.
            let (topic, id, payload) = ("signal:number".into(), "signal:n".into(), json("1"));
            let message = Message { seq: 0, id, topic, payload, at: world.now() };
            place.store.send(run.id(), message).await.unwrap();
            world.advance(Duration::from_millis(250));
            in_time(async {
                while Journal::read(&place.store, "words")
                    .await
                    .kinds()
                    .iter()
                    .all(|k| k != "signal_received")
                {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
        }
    }
}

/// Where the second call of a body waits to be let go.
#[derive(Clone, Debug)]
struct SecondCall(Arc<tokio::sync::Semaphore>);

/// Have something rendered elsewhere; what is not reported in time is sent again, when it is let go.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn render_slowly_again(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let is_first = cx.dep::<Calls>()?.of("render_slowly_again") == 1;
    let mut callback = cx.callback()?;
    cx.dep::<Tokens>()?.give(callback.token());
    if is_first {
        callback = callback.expires(Duration::from_millis(5));
    } else {
        cx.dep::<SecondCall>()?.0.acquire().await?.forget();
    }
    Err(callback.pending().into())
}

/// Render.
#[workflow]
async fn seed_render_slowly_again(cx: &mut Cx) -> Result<String> {
    Ok(told(render_slowly_again(cx).await))
}

#[tokio::test]
async fn a_report_that_comes_while_the_body_is_called_again_is_for_the_wait_that_follows() {
    for place in stores() {
        let (place, calls, tokens) = (place(), Calls::default(), Tokens::default());
        let second = SecondCall(Arc::new(tokio::sync::Semaphore::new(0)));
        let builder = builder(&place.store, &calls).provide(tokens.clone()).provide(second.clone());
        let engine = builder.start().await.unwrap();
        let run = engine.start::<seed_render_slowly_again>(()).id("again").await.unwrap();
        // The limit of the first wait has passed, and the body is there for the second time.
        let token = tokens.newest(2).await;
        assert_eq!(engine.complete_callback(&token, &7_u32).await.unwrap(), Sent::Delivered);
        assert_eq!(engine.complete_callback(&token, &8_u32).await.unwrap(), Sent::Duplicate);
        second.0.add_permits(1);
        assert_eq!(in_time(run.result()).await.unwrap(), "7");
        assert_eq!(calls.of("render_slowly_again"), 2);
        engine.verify(run.id()).await.unwrap();
    }
}
