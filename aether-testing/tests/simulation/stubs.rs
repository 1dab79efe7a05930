//! Stubs: by arguments, in order, for probes, compensations, models and servers; and what is said where one is missing.

use aether::definition::Probe;
use aether::llm::{
    ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, Models, Price, PriceTable, Usage,
};
use aether::prelude::*;
use aether::recording::Masking;
use aether_testing::sim::HttpCall;
use aether_testing::{Sim, SimError, call_named, call_tool, delayed, say};
use futures_util::future::BoxFuture;
use serde_json::json;

use super::{DAY, not_stubbed};
use std::time::Duration;

/// Look a word up.
#[step(effect = "read", retry(max_retries = 3, delay = "1s"))]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<u32> {
    not_stubbed(word)
}

/// Send a letter.
#[step(effect = "tool", timeout = "30s")]
async fn send(_cx: &mut StepCx, to: &str, text: String) -> Result<String> {
    not_stubbed((to, text))
}

/// Look up two words and write about them.
#[workflow]
async fn letter(cx: &mut Cx) -> Result<String> {
    let first = look_up(cx, "first".into()).await?;
    let second = look_up(cx, "second".into()).await?;
    match send(cx, "ann", format!("{first} {second}")).await {
        Err(StepError::InDoubt(_)) => Ok("in doubt".into()),
        sent => Ok(sent?),
    }
}

fn letters() -> Sim<letter> {
    Sim::new::<letter>().stub::<send>(|(to, text)| Ok(format!("{to}: {text}")))
}

#[tokio::test]
async fn the_first_answer_that_fits_and_is_not_used_up_counts() {
    let sim = letters()
        .when::<look_up>(|word| word == "first")
        .fail_times(2, Failure::retryable("busy"))
        .when::<look_up>(|word| word == "first")
        .stub(|_| Ok(1))
        .when::<look_up>(|word| word.starts_with('f'))
        .stub(|_| Ok(7))
        .stub::<look_up>(|word| Ok(word.len() as u32));
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "ann: 1 6");
    report.assert_called_with::<look_up>(&["first".into(), "first".into(), "first".into(), "second".into()]);
    // A crash takes no answer out of its order.
    let crashed = sim.crash_at_every_append(()).await;
    assert!(!crashed.in_doubt.is_empty(), "{crashed:?}");
}

#[tokio::test]
async fn a_call_that_nothing_fits_is_told_with_the_matchers_and_a_line_to_paste() {
    let sim = letters()
        .when::<look_up>(|word| word == "first")
        .stub_seq(vec![Ok(1)])
        .when::<look_up>(|word| word == "third")
        .stub(|_| Ok(3));
    let error = sim.try_run(()).await.unwrap_err();
    assert!(matches!(&error, SimError::NoMatch { matchers, .. } if matchers.len() == 2), "{error}");
    let error = error.to_string();
    for part in [
        "look_up` was called with arguments that no `.when` answers",
        r#"arguments {"word":"second"}"#,
        "tests/simulation/stubs.rs:",
        "for other arguments",
        ".stub::<look_up>(|word| unimplemented!",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let sim = letters().when::<look_up>(|_| true).stub_seq(vec![Ok(1)]);
    let error = sim.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains("used up after 1 answers"), "{error}");
}

#[tokio::test]
async fn a_missing_stub_is_told_with_a_line_to_paste() {
    let sim = Sim::new::<letter>().stub::<look_up>(|_| Ok(1));
    let error = sim.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains(r#"arguments {"to":"ann","text":"1 1"}"#), "{error}");
    assert!(error.contains("stubs: simulation::stubs::look_up"), "{error}");
    assert!(error.contains(".stub::<send>(|(to, text)| unimplemented!(\"its answer\"))"), "{error}");
}

#[tokio::test]
async fn a_matcher_that_panics_ends_the_simulation() {
    let sim = letters().when::<look_up>(|word| word.len() > 5 || panic!("no")).stub(|_| Ok(1));
    let error = sim.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains("stubs.rs:") && error.contains("panicked"), "{error}");
}

#[tokio::test]
async fn a_call_may_time_out_or_stay_in_doubt_by_its_arguments() {
    let sim = letters().stub::<look_up>(|_| Ok(1));
    let report = sim.clone().when::<send>(|(to, _)| to == "ann").times_out().run(()).await;
    assert_eq!(report.assert_completed(), "in doubt");
    report.assert_in_doubt::<send>(1);
    assert!(report.slept >= Duration::from_secs(30), "{:?}", report.slept);
    let report = sim.when::<send>(|(to, _)| to == "bob").in_doubt().run(()).await;
    assert_eq!(report.assert_completed(), "ann: 1 1");
    report.assert_in_doubt::<send>(0);
}

#[tokio::test]
#[should_panic(expected = "step `look_up` has no timeout")]
async fn a_step_without_a_timeout_cannot_time_out() {
    let _never = letters().times_out::<look_up>();
}

/// Look whether it was paid: the real world, which a simulation does not ask.
async fn was_paid(_cx: &mut StepCx, cents: u32) -> Result<Probe<u32>> {
    Err(Failure::permanent(format_args!("the real probe of {cents}")))
}

/// Pay.
#[step(effect = "tool", timeout = "10s", probe = was_paid)]
async fn pay(_cx: &mut StepCx, cents: u32) -> Result<u32> {
    not_stubbed(cents)
}

/// Pay and tell what came of it.
#[workflow]
async fn paying(cx: &mut Cx) -> Result<String> {
    Ok(match pay(cx, 5).await {
        Ok(number) => number.to_string(),
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn a_probe_finds_what_the_stub_did_or_what_it_is_told() {
    let sim = Sim::new::<paying>().stub::<pay>(|cents| Ok(cents + 1));
    let crashed = sim.crash_at_every_append(()).await;
    assert!(!crashed.in_doubt.is_empty(), "{crashed:?}");

    let told = async |sim: Sim<paying>| sim.run(()).await.assert_completed().clone();
    let doubtful = Sim::new::<paying>().in_doubt::<pay>();
    assert!(told(doubtful.clone()).await.contains("its probe cannot tell"));
    assert_eq!(told(doubtful.clone().stub_probe::<pay>(|cents| Probe::Happened(cents * 10))).await, "50");
    assert!(told(doubtful.clone().real_probe::<pay>()).await.contains("the real probe of 5"));
    let denied = doubtful.when::<pay>(|_| true).stub_seq(vec![Ok(8)]);
    assert_eq!(told(denied).await, "8");
    let denied = Sim::new::<paying>().when::<pay>(|_| true).stub_seq(vec![]).in_doubt::<pay>();
    assert!(told(denied.stub_probe::<pay>(|_| Probe::DidNotHappen)).await.contains("did not happen"));
}

#[tokio::test]
async fn a_stub_in_place_of_a_real_body_is_looked_for_in_the_simulated_world() {
    let told = async |sim: Sim<paying>| sim.run(()).await.assert_completed().clone();
    let stubbed = Sim::new::<paying>().real::<pay>().in_doubt::<pay>();
    assert!(told(stubbed).await.contains("its probe cannot tell"));
    let crashed = Sim::new::<paying>().real::<pay>().stub::<pay>(|cents| Ok(cents + 1));
    assert!(!crashed.crash_at_every_append(()).await.in_doubt.is_empty());
    let some = Sim::new::<paying>().in_doubt::<pay>().when::<pay>(|cents| *cents > 9).real();
    assert!(told(some).await.contains("its probe cannot tell"));
    let asked = Sim::new::<paying>().real::<pay>().in_doubt::<pay>().real_probe::<pay>();
    assert!(told(asked).await.contains("the real probe of 5"));
}

/// Take back.
#[step(effect = "tool", idempotent)]
async fn take_back(_cx: &mut StepCx, item: u32, _booked: Option<u32>) -> Result<()> {
    not_stubbed(item)
}

/// Book.
#[step(effect = "tool", compensate = take_back)]
async fn book(_cx: &mut StepCx, item: u32) -> Result<u32> {
    not_stubbed(item)
}

/// Book two and fail.
#[workflow]
async fn booking(cx: &mut Cx) -> Result<u32> {
    book(cx, 1).await?;
    book(cx, 2).await?;
    Err(Failure::permanent("too expensive"))
}

#[tokio::test]
async fn compensations_are_stubbed_by_the_step_they_are() {
    let sim = Sim::new::<booking>().stub::<book>(|item| Ok(item * 100));
    let report = sim.clone().stub::<take_back>(|_| Ok(())).run(()).await;
    assert!(report.assert_failed().to_string().contains("too expensive"));
    report.assert_called_with::<take_back>(&[(2, Some(200)), (1, Some(100))]);
    let error = sim.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains("take_back` was called and has no stub"), "{error}");
}

/// Let a model look up and write.
#[workflow]
async fn helped(cx: &mut Cx, questions: Vec<String>) -> Result<Vec<String>> {
    let answers = cx
        .each(questions, async |cx: &mut Cx, question| {
            Ok(cx.agent("helper").tools((look_up::tool(), send::tool())).run(question).await?.answer)
        })
        .await;
    answers.into_iter().collect()
}

#[tokio::test]
async fn a_conversation_is_had_by_everybody_who_has_it() {
    let sim = Sim::new::<helped>()
        .conversation(
            "helper",
            [
                call_tool::<look_up>("bell".into()).and::<look_up>("ring".into()).costing(10, 2),
                call_named("open_window", "{}"),
                call_tool::<send>(("ann".into(), "it is found".into())),
                say("done"),
            ],
        )
        .stub::<look_up>(|word| Ok(word.len() as u32))
        .stub::<send>(|_| Ok("sent".into()));
    let report = sim.run(vec!["a".into(), "b".into()]).await;
    assert_eq!(report.assert_completed(), &["done", "done"]);
    report.assert_calls::<look_up>(4);
    report.assert_calls::<send>(2);
    let asked = report.model_requests("helper");
    let last = &asked.last().unwrap().messages;
    let unknown = |message: &ChatMessage| matches!(message, ChatMessage::Tool { content, .. } if content.contains("there is no tool `open_window`"));
    assert!(last.iter().any(unknown), "{last:?}");
    sim.crash_at_every_append(vec!["a".into()]).await;

    let over = Sim::new::<helped>().conversation("helper", [call_named("nothing", "{}")]);
    let error = over.try_run(vec!["a".into()]).await.unwrap_err();
    assert!(matches!(&error, SimError::ConversationOver { replies: 1, .. }), "{error}");
    assert!(error.to_string().contains("there is no tool"), "{error}");
}

/// Ask a model twice.
#[workflow]
async fn asked(cx: &mut Cx) -> Result<String> {
    let plan = cx.llm("plan").user("What about trains?").text().await?;
    let text = cx.llm("write").user(&plan).text().await?;
    Ok(text)
}

#[tokio::test]
async fn models_answer_by_what_is_in_the_prompt() {
    let about = |text: &'static str| move |request: &aether::llm::ChatRequest| matches!(request.messages.last(), Some(ChatMessage::User { content, .. }) if content.contains(text));
    let sim =
        Sim::new::<asked>().model_when(about("trains"), |_| "They run.").model_for("write", |_| "Late.");
    assert_eq!(sim.run(()).await.assert_completed(), "Late.");
    let sim = sim.model_when(about("run"), |_| Err::<String, _>(ModelError::Setup("no key".into())));
    assert!(sim.run(()).await.assert_failed().to_string().contains("no key"));
    let sim = Sim::new::<asked>().model_when(about("planes"), |_| "They fly.");
    let error = sim.try_run(()).await.unwrap_err();
    assert!(matches!(&error, SimError::NoModelAnswer { .. }), "{error}");
    assert!(
        error.to_string().contains("What about trains?") && error.to_string().contains(".model_for(\"plan\"")
    );
}

const SHOP: &str = "https://shop.example/v1";

/// Order over HTTP.
#[workflow]
async fn ordering(cx: &mut Cx) -> Result<String> {
    let stock = cx.http().get(format!("{SHOP}/items/7/stock")).send().await?;
    let stock: u32 = stock.error_for_status()?.json()?;
    let order = cx.http().post(format!("{SHOP}/orders")).json(&stock).idempotent().send().await?;
    Ok(format!("{} of {stock}", order.status))
}

#[tokio::test]
async fn servers_fail_answer_in_order_and_take_their_time() {
    let sim = Sim::new::<ordering>()
        .http("get", &format!("{SHOP}/items/*/stock"), |_| delayed(Duration::from_secs(5), (200, json!(3))))
        .http_seq("GET", "*", [Err::<u16, _>(Failure::retryable("reset")), Err(Failure::retryable("reset"))])
        .http("*", "*/orders", |call| if call.body.is_some() { 201 } else { 400 });
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "201 of 3");
    assert_eq!(report.effect_calls("http.get"), 3, "{}", report.journal());
    assert!(report.slept >= Duration::from_secs(5), "{:?}", report.slept);
    sim.crash_at_every_append(()).await;

    let slow = Sim::new::<ordering>().http("*", "*", |_| delayed(DAY, (200, json!(3))));
    slow.run(()).await.assert_took(2 * DAY);
    let lost = |_: &HttpCall| delayed(DAY, Err::<u16, _>(Failure::unknown("no answer in time")));
    let report = slow.http("POST", "*", lost).run(()).await;
    assert!(report.assert_failed().to_string().contains("several times"), "{:?}", report.result);

    let once = Sim::new::<ordering>().http_seq("*", "*", [(200, json!(3))]);
    let error = once.try_run(()).await.unwrap_err().to_string();
    assert!(error.contains("`http.post` was called once more than its stub has answers (1)"), "{error}");
    let error = Sim::new::<ordering>().try_run(()).await.unwrap_err().to_string();
    assert!(error.contains(&format!(".http(\"GET\", \"{SHOP}/items/7/stock\", |call|")), "{error}");
}

/// Count words.
#[step(effect = "pure")]
async fn total(words: std::collections::HashMap<String, u32>) -> Result<u32> {
    Ok(words.get("bell").copied().unwrap_or(0))
}

/// Look a word up.
#[step(effect = "read")]
async fn count(_cx: &mut StepCx, word: &str) -> Result<u32> {
    not_stubbed(word)
}

#[workflow]
async fn counting(cx: &mut Cx) -> Result<u32> {
    let (one, two) = cx
        .join((async |cx: &mut Cx| count(cx, "bell").await, async |cx: &mut Cx| count(cx, "sea").await))
        .await;
    let words = [("bell", one?), ("sea", two?), ("key", 1), ("net", 1)];
    Ok(total(cx, words.map(|(word, count)| (word.to_owned(), count)).into()).await?)
}

#[tokio::test]
async fn the_order_of_a_map_in_an_argument_is_no_order_of_the_run() {
    let sim = Sim::new::<counting>().stub::<count>(|word| Ok(u32::try_from(word.len())?));
    // Each map has an order of its own: with four entries, two runs rarely agree.
    for _ in 0..4 {
        assert!(sim.every_interleaving(10, ()).await.exhaustive);
    }
}

/// Order, and tell what came of it.
#[workflow]
async fn orders(cx: &mut Cx) -> Result<String> {
    Ok(match cx.http().post(format!("{SHOP}/orders")).send().await {
        Ok(answer) => answer.status.to_string(),
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn an_answer_about_the_key_leaves_the_outcome_unknown_as_it_does_outside() {
    for (status, body, told) in [
        (409, "the Idempotency-Key is in use", "in progress"),
        (422, "idempotency key with another body", "key"),
    ] {
        let report = Sim::new::<orders>().http("POST", "*", move |_| (status, body)).run(()).await;
        let said = report.assert_completed();
        assert!(said.contains(told) && *said != status.to_string(), "{said}");
    }
    let other = Sim::new::<orders>().http("POST", "*", |_| (409, "sold out")).run(()).await;
    assert_eq!(other.assert_completed(), "409");
}

/// Order once, under one key.
#[workflow]
async fn orders_once(cx: &mut Cx) -> Result<u16> {
    Ok(cx.http().post(format!("{SHOP}/orders")).idempotent().send().await?.status)
}

#[tokio::test]
async fn a_request_that_is_sent_again_and_turned_away_is_sent_once_more_as_it_is_outside() {
    let lost = || Err::<u16, _>(Failure::unknown("no answer in time"));
    let sim = Sim::new::<orders_once>().http_seq("POST", "*", [lost(), Ok(503), Ok(201)]);
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), &201);
    assert_eq!(report.effect_calls("http.post"), 3, "{}", report.journal());
    // Nothing is unknown about the first sending.
    let first = Sim::new::<orders_once>().http("POST", "*", |_| 503).run(()).await;
    assert_eq!(first.assert_completed(), &503);
}

/// Download something, which may be kept as it comes, or not.
#[workflow]
async fn fetched(cx: &mut Cx, unredacted: bool) -> Result<String> {
    let asked = cx.http().get("https://files.example/archive.tar");
    let asked = if unredacted { asked.unredacted() } else { asked };
    Ok(match asked.download().await {
        Ok(download) => download.bytes.to_string(),
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn a_download_is_refused_where_values_are_redacted_as_it_is_outside() {
    let sim = Sim::new::<fetched>().http("GET", "*", |_| (200, "body"));
    assert_eq!(sim.run(false).await.assert_completed(), "4");
    let redacting = sim.redact(Masking::standard());
    let refused = redacting.run(false).await;
    assert!(refused.assert_completed().contains("say so with `.unredacted()`"), "{:?}", refused.result);
    assert_eq!(redacting.run(true).await.assert_completed(), "4");
}

/// A client that no simulation asks.
#[derive(Debug)]
struct Real;

impl ModelClient for Real {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        panic!("a real model was asked: {request:?}")
    }

    fn model(&self) -> Option<&str> {
        Some("small")
    }
}

/// Ask within a budget of money.
#[workflow]
async fn paid(cx: &mut Cx) -> Result<String> {
    Ok(cx.agent("planner").budget(Budget::new().cost_cents(20, "EUR")).run("What now?").await?.answer)
}

#[tokio::test]
async fn a_scripted_model_has_the_prices_of_the_provided_one() {
    let answer = |_: &ChatRequest| ChatResponse {
        model: "scripted".into(),
        content: Some("Go home.".into()),
        usage: Usage::of(10, 1),
        ..ChatResponse::default()
    };
    let sim = Sim::new::<paid>().model_for("planner", answer);
    let refused = sim.run(()).await;
    assert!(refused.assert_failed().to_string().contains("no table of prices"), "{:?}", refused.result);

    let prices = PriceTable::new("EUR", jiff::civil::date(2026, 11, 1));
    let prices = prices.model("small", Price::per_million(1_000_000, 1_000_000));
    let report = sim.provide(Models::new(Real).prices(prices)).run(()).await;
    assert_eq!(report.assert_completed(), "Go home.");
    assert_eq!(report.view.budgets()[0].spent.cost_nanos, 11_000);
}
