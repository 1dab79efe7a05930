//! Of several words about one call one counts: reports from outside, an operator's, the time limit's, and the policy's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::definition::Workflow;
use aether::engine::RunEnd;
use aether::people::{DecideError, Resolution, Waiting};
use aether::prelude::*;
use aether::store::{Message, Sent};
use tokio::sync::Semaphore;

use super::human::pending;
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, json, past, run_id, stores};

/// The newest token that a body passed on.
#[derive(Clone, Debug, Default)]
struct Token(Arc<Mutex<Option<String>>>);

impl Token {
    async fn get(&self) -> String {
        in_time(async {
            loop {
                let token = self.0.lock().unwrap().clone();
                if let Some(token) = token {
                    return token;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await
    }
}

/// What the requests of bodies wait for before their connections break.
#[derive(Clone, Debug)]
struct Line(Arc<Semaphore>);

/// Passes the token on in a request whose answer is lost.
async fn lose_the_answer(cx: &StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let token = cx.callback()?.token().to_owned();
    *cx.dep::<Token>()?.0.lock().unwrap() = Some(token);
    cx.dep::<Line>()?.0.acquire().await?.forget();
    Err(Failure::unknown("the line broke"))
}

/// Have something printed elsewhere.
#[step(effect = "tool")]
async fn print(cx: &mut StepCx) -> Result<u32> {
    lose_the_answer(cx).await
}

/// Have something printed elsewhere; what is lost is sent again.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn print_again(cx: &mut StepCx) -> Result<u32> {
    lose_the_answer(cx).await
}

/// Have something printed elsewhere; what is lost is a question.
#[step(effect = "tool", on_unknown = "ask")]
async fn print_or_ask(cx: &mut StepCx) -> Result<u32> {
    lose_the_answer(cx).await
}

/// Have something printed elsewhere, within this time; then it is a question.
#[step(effect = "tool", on_unknown = "ask")]
async fn print_in_time(cx: &mut StepCx, limit_ms: u64) -> Result<u32> {
    Calls::note(cx)?;
    let callback = cx.callback()?.expires(Duration::from_millis(limit_ms));
    *cx.dep::<Token>()?.0.lock().unwrap() = Some(callback.token().to_owned());
    Err(callback.pending().into())
}

/// Print.
#[workflow]
async fn seed_print(cx: &mut Cx) -> Result<u32> {
    Ok(print(cx).await?)
}

/// Print.
#[workflow]
async fn seed_print_again(cx: &mut Cx) -> Result<u32> {
    Ok(print_again(cx).await?)
}

/// Print.
#[workflow]
async fn seed_print_or_ask(cx: &mut Cx) -> Result<u32> {
    Ok(print_or_ask(cx).await?)
}

/// Print.
#[workflow]
async fn seed_print_in_time(cx: &mut Cx, limit_ms: u64) -> Result<u32> {
    Ok(print_in_time(cx, limit_ms).await?)
}

/// An engine, what its bodies call and pass on, and what they wait for.
struct Press {
    engine: Engine,
    calls: Calls,
    token: Token,
    line: Line,
}

impl Press {
    async fn on(place: &Place) -> Self {
        let (calls, token) = (Calls::default(), Token::default());
        let line = Line(Arc::new(Semaphore::new(0)));
        let builder = builder(&place.store, &calls).provide(token.clone()).provide(line.clone());
        Self { engine: builder.start().await.unwrap(), calls, token, line }
    }
}

async fn reported_and_lost<W: Workflow<Input = (), Output = u32>>() {
    for place in stores() {
        let place = place();
        let press = Press::on(&place).await;
        let run = press.engine.start::<W>(()).id("print").await.unwrap();
        let token = press.token.get().await;
        assert_eq!(press.engine.complete_callback(&token, &7).await, Ok(Sent::Delivered));
        assert_eq!(press.engine.complete_callback(&token, &8).await, Ok(Sent::Duplicate));
        press.line.0.add_permits(1);
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        assert_eq!(press.calls.all(), 1);
        press.engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_report_counts_also_where_the_body_does_not_know_what_it_did() {
    reported_and_lost::<seed_print>().await;
    reported_and_lost::<seed_print_again>().await;
    reported_and_lost::<seed_print_or_ask>().await;
}

/// The journal of a run, and its token, once the step `name` waits so.
async fn left_waiting<W: Workflow>(input: W::Input, waiting: Option<Waiting>) -> (Journal, String) {
    let place = Place::memory();
    let press = Press::on(&place).await;
    let run = press.engine.start::<W>(input).id("print").await.unwrap();
    let token = press.token.get().await;
    if let Some(waiting) = waiting {
        press.line.0.add_permits(1);
        in_time(async {
            while pending(&press.engine, run.id()).await.waiting != waiting {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
    (Journal::read(&place.store, "print").await, token)
}

/// What another process sends when it takes no more reports of the first attempt at `step`.
async fn close(place: &Place, step: &str, actor: &str) {
    let topic = format!("callback:0:{step}#0");
    let payload = json(&format!("{{\"reply\":\"expired\",\"actor\":\"{actor}\"}}"));
    let message = Message { seq: 0, id: format!("{topic}#0"), topic, payload, at: past() };
    assert_eq!(place.store.send(&run_id("print"), message).await, Ok(Sent::Delivered));
}

#[tokio::test]
async fn a_first_report_that_comes_too_late_is_no_repeat() {
    let (waits, token) = left_waiting::<seed_print_in_time>(3_600_000, Some(Waiting::Callback)).await;
    let (begun, lost) = left_waiting::<seed_print>((), None).await;
    for place in stores() {
        let place = place();
        let _hand = waits.hold(&place.store, Rows::Follow).await;
        let press = Press::on(&place).await;
        close(&place, "print_in_time", "time limit").await;
        let late = press.engine.complete_callback(&token, &7).await;
        assert!(matches!(late, Err(DecideError::Expired { .. })), "{late:?}");
    }
    for place in stores() {
        let place = place();
        let _hand = begun.hold(&place.store, Rows::Follow).await;
        let press = Press::on(&place).await;
        close(&place, "print", "policy: fail").await;
        let late = press.engine.complete_callback(&lost, &7).await;
        let is_named = |by: &str| by == "policy: fail";
        assert!(matches!(&late, Err(DecideError::AlreadyDecided { by, .. }) if is_named(by)), "{late:?}");
    }
}

#[tokio::test]
async fn of_a_report_and_an_operators_word_one_is_accepted() {
    let recorded = [
        left_waiting::<seed_print_in_time>(1, Some(Waiting::Resolution)).await,
        left_waiting::<seed_print_or_ask>((), Some(Waiting::Resolution)).await,
    ];
    for (journal, token) in &recorded {
        for place in stores() {
            let place = place();
            let hand = journal.hold(&place.store, Rows::Follow).await;
            let press = Press::on(&place).await;
            let run = run_id("print");
            let invocation = pending(&press.engine, &run).await.invocation.unwrap();
            assert_eq!(press.engine.complete_callback(token, &7).await, Ok(Sent::Delivered));
            let late = press.engine.resolve(&run, &invocation, Resolution::DidNotHappen, "ann").await;
            assert!(
                matches!(&late, Err(DecideError::AlreadyDecided { by, .. }) if by == "callback"),
                "{late:?}"
            );
            assert_eq!(press.engine.complete_callback(token, &8).await, Ok(Sent::Duplicate));
            hand.let_go().await;
            assert_eq!(ends(&press.engine).await, "7");
            assert_eq!(press.calls.all(), 0);
        }
        for place in stores() {
            let place = place();
            let hand = journal.hold(&place.store, Rows::Follow).await;
            let press = Press::on(&place).await;
            let run = run_id("print");
            let invocation = pending(&press.engine, &run).await.invocation.unwrap();
            let happened = Resolution::Happened(json("3"));
            press.engine.resolve(&run, &invocation, happened, "ann").await.unwrap();
            let late = press.engine.complete_callback(token, &7).await;
            assert!(matches!(&late, Err(DecideError::AlreadyDecided { by, .. }) if by == "ann"), "{late:?}");
            hand.let_go().await;
            assert_eq!(ends(&press.engine).await, "3");
            assert_eq!(press.calls.all(), 0);
        }
    }
}

/// The value with which the run completes.
async fn ends(engine: &Engine) -> String {
    match in_time(engine.find("print").await.unwrap().end()).await.unwrap() {
        RunEnd::Completed(value) => value.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}
