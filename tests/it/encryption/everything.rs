//! A program that has something to hide in every place in which a payload can stand.
//!
//! A place that is new joins by a marker in [`MARKERS`] and by code that puts it there: the control, which runs without
//! encryption, fails for a marker that it does not find.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::id::RunId;
use aether::prelude::*;
use aether::view::Status;
use aether_effects::http::CxHttp;
use aether_effects::llm::{ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, Models};
use futures::future::BoxFuture;
use tokio::sync::Notify;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::seeds::kit::in_time;

/// What is searched for, by the name of its place.
pub(super) fn mark(place: &str) -> String {
    format!("zq7.{place}.7qz")
}

/// Every place that a payload can come from.
pub(super) const MARKERS: &[&str] = &[
    "answer",
    "answer-refused",
    "actor",
    "approval",
    "argument",
    "business-key",
    "callback",
    "carried-input",
    "cancel-reason",
    "child-input",
    "child-result",
    "chunk",
    "collected",
    "compensation",
    "debounced",
    "details",
    "http-request",
    "http-response",
    "input",
    "large-argument",
    "large-result",
    "model-answer",
    "panic",
    "progress",
    "prompt",
    "question",
    "queued",
    "read-result",
    "resource",
    "resource-version",
    "result",
    "run-error",
    "schedule",
    "signal",
    "signal-unread",
    "source",
    "step-error",
    "step-error-once",
    "store-wide-key",
    "system",
    "terminated",
    "tool-result",
    "transaction",
    "verdict",
    "workflow-panic",
];

/// What bodies share with the test.
#[derive(Clone, Default)]
pub(super) struct Desk {
    pub(super) tokens: Arc<Mutex<Vec<String>>>,
    pub(super) is_slow: Arc<Notify>,
    pub(super) go_on: Arc<Notify>,
}

/// Look something up; fails the first time.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn enc_look(cx: &mut StepCx, what: String) -> Result<String> {
    cx.stream("reply").send(&mark("chunk"));
    match cx.attempt() {
        0 => Err(Failure::retryable(mark("step-error-once"))),
        _ => Ok(format!("{} {}", mark("read-result"), what.len())),
    }
}

/// Undo an order.
#[step(effect = "tool")]
async fn enc_recall(cx: &mut StepCx, order: String, receipt: Option<String>) -> Result<()> {
    let _both = (cx, order, receipt);
    Ok(())
}

/// Order something.
#[step(effect = "tool", compensate = enc_recall)]
async fn enc_order(cx: &mut StepCx, order: String) -> Result<String> {
    cx.changed("note", &mark("resource"), "write").version(mark("resource-version")).etag("1");
    Ok(format!("{}{}", mark("tool-result"), &order[..0]))
}

/// Bill somebody, once.
#[step(effect = "tool", irreversible, key = |who| who)]
async fn enc_bill(cx: &mut StepCx, who: String) -> Result<u32> {
    let _who = (cx, who);
    Ok(1)
}

/// Bill an order, once in the whole store.
#[step(effect = "tool", irreversible, scope = "store", key = |order| order)]
async fn enc_bill_order(cx: &mut StepCx, order: String) -> Result<u32> {
    let _order = (cx, order);
    Ok(2)
}

/// Much.
#[step(effect = "tool")]
async fn enc_much(cx: &mut StepCx, much: String) -> Result<String> {
    let _cx = cx;
    Ok(format!("{}{}", mark("large-result"), "y".repeat(much.len())))
}

/// Fails for good.
#[step(effect = "tool")]
async fn enc_fail(cx: &mut StepCx) -> Result<u32> {
    let _cx = cx;
    let source = std::io::Error::other(mark("source"));
    Err(Failure::from(source).context(mark("step-error")))
}

/// Panics.
#[step(effect = "read", retry(max_retries = 0))]
async fn enc_panic(cx: &mut StepCx) -> Result<u32> {
    let _cx = cx;
    panic!("{}", mark("panic"))
}

/// In the transaction of the store.
#[step(effect = "transaction")]
async fn enc_transact(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Ok(mark("transaction"))
}

/// Somebody else does it.
#[step(effect = "tool")]
async fn enc_elsewhere(cx: &mut StepCx) -> Result<String> {
    let callback = cx.callback()?;
    cx.dep::<Desk>()?.tokens.lock().unwrap().push(callback.token().to_owned());
    Err(callback.pending().into())
}

/// Says how far it is, and waits.
#[step(effect = "read", heartbeat = "5m", timeout = "none")]
async fn enc_slow(cx: &mut StepCx) -> Result<u32> {
    cx.heartbeat(mark("progress"));
    let desk = cx.dep::<Desk>()?;
    desk.is_slow.notify_one();
    desk.go_on.notified().await;
    Ok(3)
}

/// A child.
#[workflow]
async fn enc_child(cx: &mut Cx, input: String) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Ok(format!("{} {}", mark("child-result"), input.len()))
}

/// Many inputs in one.
#[workflow]
async fn enc_many(cx: &mut Cx, inputs: Vec<String>) -> Result<usize> {
    let _cx = cx;
    Ok(inputs.len())
}

/// Every kind of contact with the world.
#[workflow]
pub(super) async fn enc_everything(cx: &mut Cx, input: (String, String, bool)) -> Result<String> {
    let (secret, base, transacts) = input;
    let mut seen = vec![secret];
    seen.push(cx.now().await.to_string());
    seen.push(cx.uuid().await.to_string());
    seen.push(enc_look(cx, mark("argument")).await?);
    seen.push(enc_order(cx, "order".to_owned()).await?);
    seen.push(enc_bill(cx, mark("business-key")).await?.to_string());
    seen.push(enc_bill_order(cx, mark("store-wide-key")).await?.to_string());
    let much = enc_much(cx, format!("{}{}", mark("large-argument"), "x".repeat(100_000))).await?;
    seen.push(much.len().to_string());
    seen.push(enc_fail(cx).await.unwrap_err().to_string());
    seen.push(enc_panic(cx).await.unwrap_err().to_string());
    if transacts {
        seen.push(enc_transact(cx).await?);
    }
    seen.push(cx.llm("plan").model("m-1").system(mark("system")).user(mark("prompt")).text().await?);
    let posted = cx.http().post(format!("{base}/orders")).json(&mark("http-request")).send().await?;
    seen.push(posted.text().to_string());
    seen.push(cx.child::<enc_child>(mark("child-input")).await?);
    seen.push(enc_elsewhere(cx).await?);
    seen.push(cx.signal::<String>("word").await?);
    let asked: String = cx.ask(mark("question")).await?;
    seen.push(asked);
    let decided = cx.approval(mark("approval")).details(&mark("details")).await?;
    seen.push(format!("{decided:?}"));
    seen.push(enc_slow(cx).await?.to_string());
    cx.continue_as_new::<enc_renewed>((mark("carried-input"), seen.join("\n"))).await
}

/// The generation after that.
#[workflow]
async fn enc_renewed(cx: &mut Cx, parts: (String, String)) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Ok(format!("{}\n{}", mark("result"), parts.1))
}

/// Orders, fails, and takes the order back.
#[workflow]
async fn enc_fails(cx: &mut Cx) -> Result<u32> {
    enc_order(cx, mark("compensation")).await?;
    Err(Failure::permanent(mark("run-error")))
}

/// Panics.
#[workflow]
async fn enc_panics(cx: &mut Cx) -> Result<u32> {
    let _cx = cx;
    panic!("{}", mark("workflow-panic"))
}

/// Waits for ever.
#[workflow]
pub(super) async fn enc_waits(cx: &mut Cx, input: String) -> Result<String> {
    let word: String = cx.signal("never").await?;
    Ok(input + &word)
}

/// A model with one answer.
#[derive(Debug)]
struct Model;

impl ModelClient for Model {
    fn chat(&self, _: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        let content = Some(mark("model-answer"));
        Box::pin(std::future::ready(Ok(ChatResponse {
            model: "m-1".into(),
            content,
            ..ChatResponse::default()
        })))
    }
}

/// What a builder needs for this program.
pub(super) fn provided(builder: EngineBuilder, desk: &Desk) -> EngineBuilder {
    builder.provide(desk.clone()).provide(Models::new(Model)).poll_interval(Duration::from_millis(20))
}

async fn until(engine: &Engine, run: &RunId, status: Status) {
    in_time(async {
        while engine.find(run.as_str()).await.unwrap().status().await.unwrap() != status {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn wait_named(engine: &Engine, run: &RunId, name: &str) -> aether::people::Pending {
    in_time(async {
        loop {
            let found = engine.pending(run).await.unwrap().into_iter().find(|wait| wait.name == name);
            if let Some(found) = found {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Runs all of it. Calls `look` while every wait is open in its turn, and at the end. Returns the result.
pub(super) async fn run(
    engine: &Engine,
    desk: &Desk,
    transacts: bool,
    mut look: impl AsyncFnMut(&str),
) -> String {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(201).set_body_string(mark("http-response"));
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;

    let started = engine.start::<enc_everything>((mark("input"), server.uri(), transacts)).id("all");
    let all = started.label("customer", "c-1").await.unwrap();
    let id = all.id().clone();
    let token = in_time(async {
        loop {
            if let Some(token) = desk.tokens.lock().unwrap().pop() {
                return token;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    wait_named(engine, &id, "enc_elsewhere").await;
    look("callback").await;
    in_time(async {
        // The body may not have come back yet.
        while engine.complete_callback(&token, &mark("callback")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    wait_named(engine, &id, "word").await;
    engine.signal(&id, "never read", "m", &mark("signal-unread")).await.unwrap();
    engine.signal(&id, "word", "m2", &mark("signal")).await.unwrap();
    let question = wait_named(engine, &id, &mark("question")).await;
    look("question").await;
    // Found by its name in the list of all waits, whatever the store keeps of the name.
    let filter = aether::people::WaitFilter::default().name(mark("question"));
    let page = engine.all_pending(filter).await.unwrap();
    assert_eq!(page.waits.iter().map(|wait| &wait.command).collect::<Vec<_>>(), [&question.command]);
    engine.answer(&id, &question.command, &mark("answer"), &mark("actor")).await.unwrap();
    let approval = wait_named(engine, &id, &mark("approval")).await;
    look("approval").await;
    engine.reject(&id, &approval.command, &mark("verdict"), &mark("actor")).await.unwrap();
    in_time(desk.is_slow.notified()).await;
    // Progress is saved behind the back of the body.
    tokio::time::sleep(Duration::from_millis(300)).await;
    look("progress").await;
    desk.go_on.notify_one();
    let result = in_time(all.result()).await.unwrap();
    assert_eq!(engine.view(&id).await.unwrap().status, Status::Completed);

    let failed = engine.start::<enc_fails>(()).id("fails").await.unwrap();
    assert!(in_time(failed.result()).await.unwrap_err().to_string().contains(&mark("run-error")));
    let panicked = engine.start::<enc_panics>(()).id("panics").await.unwrap();
    assert!(in_time(panicked.result()).await.unwrap_err().to_string().contains(&mark("workflow-panic")));
    for (id, terminates) in [("cancelled", false), ("terminated", true)] {
        let waits = engine.start::<enc_waits>("some".to_owned()).id(id).await.unwrap();
        until(engine, waits.id(), Status::Waiting).await;
        match terminates {
            true => waits.terminate(&mark("terminated"), "ann").await.unwrap(),
            false => waits.cancel(&mark("cancel-reason"), "ann").await.unwrap(),
        };
        until(engine, waits.id(), Status::Cancelled).await;
    }
    let refused = engine.start::<enc_asks_number>(()).id("refused").await.unwrap();
    let wait = wait_named(engine, refused.id(), "number").await;
    let no_number = engine.answer(refused.id(), &wait.command, &mark("answer-refused"), "ann").await;
    look(&format!("refused {}", no_number.is_ok())).await;

    let hour = Duration::from_secs(3_600);
    let queued = engine.start::<enc_child>(mark("queued")).id("queued").queue("q");
    drop(queued.at(jiff_in(hour)).await.unwrap());
    drop(engine.start::<enc_child>(mark("debounced")).debounce("k", hour, hour).await.unwrap());
    drop(engine.start::<enc_many>(vec![mark("collected")]).collect("k", 10, hour).await.unwrap());
    engine.schedule::<enc_child>("0 0 1 1 *", "UTC").name("yearly").input(mark("schedule")).await.unwrap();
    look("end").await;
    result
}

fn jiff_in(later: Duration) -> aether::jiff::Timestamp {
    aether::jiff::Timestamp::now() + later
}

/// Asks for a number.
#[workflow]
async fn enc_asks_number(cx: &mut Cx) -> Result<u32> {
    let number: u32 = cx.ask("How many?").named("number").await?;
    Ok(number)
}
