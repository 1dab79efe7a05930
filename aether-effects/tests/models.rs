//! Models through a real engine: fallbacks, repair, limits that all runs share, costs, attachments, and the protocol's words
//! for all of them.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::engine::{Engine, RunError};
use aether_core::failure::Failure;
use aether_core::journal::event::Event;
use aether_core::outcome::{Classify as _, FailureClass};
use aether_core::store::memory::MemoryStore;
use aether_effects::llm::{
    Attachment, ChatMessage, ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, Models, OpenAiClient,
    Price, PriceTable, Usage,
};
use futures_util::future::BoxFuture;
use kit::{Script, builder, events, says, verify};
use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A client that gives one answer or error after the other, and remembers what it was asked.
#[derive(Clone, Debug)]
struct Moody(Arc<Mutex<Mood>>);

#[derive(Debug)]
struct Mood {
    answers: VecDeque<Result<ChatResponse, ModelError>>,
    asked: Vec<ChatRequest>,
}

impl Moody {
    fn new(answers: impl IntoIterator<Item = Result<ChatResponse, ModelError>>) -> Self {
        Self(Arc::new(Mutex::new(Mood { answers: answers.into_iter().collect(), asked: Vec::new() })))
    }

    /// The models that were asked, in order.
    fn models(&self) -> Vec<Option<String>> {
        self.0.lock().unwrap().asked.iter().map(|asked| asked.model.clone()).collect()
    }
}

impl ModelClient for Moody {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let mut moody = self.0.lock().unwrap();
        moody.asked.push(request);
        let end = || Err(ModelError::Setup("the script is at its end".into()));
        Box::pin(std::future::ready(moody.answers.pop_front().unwrap_or_else(end)))
    }
}

fn down() -> Result<ChatResponse, ModelError> {
    Err(ModelError::BadRequest { status: 404, message: "no such model".into() })
}

workflow!(OneOfThree(cx, question: String) -> (String, u64) {
    let answer = cx.llm("plan").model("large").or("small").or("local").user(question).send().await?;
    Ok((answer.content.unwrap_or_default(), cx.random().await))
});

workflow!(Plan(cx, _input: ()) -> Vec<u8> {
    Ok(cx.llm("plan").user("two numbers").repair(2).json().await?)
});

workflow!(Ask(cx, model: String) -> String {
    Ok(cx.llm("ask").model(model).user("hello").text().await?)
});

async fn engine(store: &MemoryStore, models: Models) -> Engine {
    let poll = Duration::from_millis(5);
    builder(store).provide(models).poll_interval(poll).start().await.unwrap()
}

/// The commands that began, in order.
async fn commands(store: &MemoryStore, run: &aether_core::id::RunId) -> Vec<String> {
    let started = |event: Event| match event {
        Event::NodeStarted(e) => Some(e.command.to_string()),
        _ => None,
    };
    events(store, run).await.into_iter().filter_map(started).collect()
}

#[tokio::test]
async fn a_model_that_gives_no_answer_is_followed_by_the_next_and_each_is_recorded() {
    let (store, client) = (MemoryStore::new(), Moody::new([down(), down(), Ok(says("from the cellar"))]));
    let engine = engine(&store, Models::new(client.clone())).await;
    let run = engine.start::<OneOfThree>("why?".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap().0, "from the cellar");
    assert_eq!(client.models(), ["large", "small", "local"].map(|model| Some(model.to_owned())));
    assert_eq!(commands(&store, run.id()).await, ["0.0:llm.plan", "0.1:llm.plan", "0.2:llm.plan"]);
    verify(&engine, run.id()).await;
    assert_eq!(client.models().len(), 3, "a replay asks no model");
}

workflow!(TwoQuestions(cx, question: String) -> Vec<String> {
    let first = cx.llm("plan").model("large").or("small").user(question.clone()).text().await?;
    let second = cx.llm("plan").model("large").or("small").user(question).text().await?;
    Ok(vec![first, second])
});

/// The second question does not wait either, for what the first one was told.
#[tokio::test]
async fn a_model_that_asks_for_a_long_wait_is_followed_by_the_next_at_once() {
    let later = Some(Duration::from_secs(60 * 60));
    for busy in [
        ModelError::RateLimited { retry_after: later, message: "slow down".into() },
        ModelError::Overloaded { status: 503, retry_after: later, message: "busy".into() },
    ] {
        let client = Moody::new([Err(busy), Ok(says("one")), Ok(says("two"))]);
        let store = MemoryStore::new();
        let engine = engine(&store, Models::new(client.clone())).await;
        let run = engine.start::<TwoQuestions>("why?".into()).await.unwrap();
        let answers = tokio::time::timeout(Duration::from_secs(60), run.result()).await.unwrap().unwrap();
        assert_eq!(answers, ["one", "two"]);
        assert_eq!(client.models(), ["large", "small", "small"].map(|model| Some(model.to_owned())));
        let retried = |event: &Event| matches!(event, Event::StepRetried(_));
        assert!(!events(&store, run.id()).await.iter().any(retried));
        verify(&engine, run.id()).await;
    }
}

#[tokio::test]
async fn a_short_wait_is_granted_also_where_another_model_follows() {
    let wait = Some(Duration::from_millis(20));
    let busy = || Err(ModelError::RateLimited { retry_after: wait, message: "slow down".into() });
    let client = Moody::new([busy(), Ok(says("waited for"))]);
    let engine = engine(&MemoryStore::new(), Models::new(client.clone())).await;
    let run = engine.start::<OneOfThree>("why?".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap().0, "waited for");
    assert_eq!(client.models(), ["large", "large"].map(|model| Some(model.to_owned())));
}

#[tokio::test]
async fn the_last_models_error_is_the_callers_and_the_first_answer_ends_it() {
    let store = MemoryStore::new();
    let client = Moody::new([down(), down(), down(), Ok(says("never asked for"))]);
    let fails = engine(&store, Models::new(client.clone())).await;
    let run = fails.start::<OneOfThree>("why?".into()).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    assert!(failure.to_string().contains("no such model"), "{failure}");
    assert_eq!(client.models().len(), 3);
    verify(&fails, run.id()).await;

    let store = MemoryStore::new();
    let client = Moody::new([Ok(says("at once"))]);
    let answers = engine(&store, Models::new(client.clone())).await;
    let run = answers.start::<OneOfThree>("why?".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap().0, "at once");
    assert_eq!(client.models().len(), 1);
}

#[tokio::test]
async fn a_fallback_continues_where_a_crash_left_it() {
    let (store, client) = (MemoryStore::new(), Moody::new([down(), Ok(says("small talk"))]));
    let first = engine(&store, Models::new(client)).await;
    let run = first.start::<OneOfThree>("why?".into()).id("run").await.unwrap();
    run.result().await.unwrap();
    let half = MemoryStore::new();
    kit::copy_before(&half, &store, run.id(), "0.1:llm.plan").await;
    let client = Moody::new([Ok(says("after the crash"))]);
    let again = kit::successor(&half)
        .register::<OneOfThree>()
        .provide(Models::new(client.clone()))
        .start()
        .await
        .unwrap();
    let result = again.handle::<OneOfThree>("run").await.unwrap().result().await.unwrap();
    assert_eq!(result.0, "after the crash");
    assert_eq!(client.models(), [Some("small".to_owned())], "the first model is not asked again");
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_sent_back_with_what_is_wrong() {
    let cut = ChatResponse { finish_reason: Some("length".into()), ..says("[1,") };
    let (store, script) = (MemoryStore::new(), Script::new([says("1 and 2"), cut, says("[1,2]")]));
    let engine = engine(&store, Models::new(script.clone())).await;
    let run = engine.start::<Plan>(()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2]);
    assert_eq!(commands(&store, run.id()).await, ["0.0:llm.plan", "0.1:llm.plan", "0.2:llm.plan"]);
    let asked = script.asked();
    assert_eq!(asked[1].messages[1], ChatMessage::assistant("1 and 2"));
    let ChatMessage::User { content, .. } = &asked[2].messages[4] else { panic!("{:?}", asked[2].messages) };
    assert!(content.contains("EOF") && content.contains("cut off"), "{content}");
    assert!(asked.iter().all(|asked| asked.response_schema.is_some()));
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn rounds_of_repair_are_bounded_and_the_error_is_final() {
    let script = Script::new((0..9).map(|_| says("no")));
    let engine = engine(&MemoryStore::new(), Models::new(script.clone())).await;
    let run = engine.start::<Plan>(()).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    assert_eq!(failure.class(), FailureClass::Permanent, "{failure}");
    assert_eq!(script.asked().len(), 3, "one question and two rounds");
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn what_one_run_is_told_to_wait_holds_for_all_runs_that_ask_this_model() {
    let wait = Duration::from_secs(3_600);
    let limited = Err(ModelError::RateLimited { retry_after: Some(wait), message: "quota".into() });
    let client = Moody::new([limited, Ok(says("another model"))]);
    let models = Models::new(client.clone());
    let ask = |model: &str| {
        models.ask(ChatRequest { call: "ask".into(), model: Some(model.into()), ..ChatRequest::default() })
    };
    assert_eq!(ask("large").await.unwrap_err().retry_after(), Some(wait));
    let held =
        models.clone().ask(ChatRequest { model: Some("large".into()), ..ChatRequest::default() }).await;
    let held = held.unwrap_err();
    assert!(held.to_string().contains("quota") && held.to_string().contains("not sent"), "{held}");
    assert!(held.retry_after().is_some_and(|left| left > wait / 2), "{held:?}");
    assert_eq!(client.models().len(), 1);
    assert_eq!(ask("small").await.unwrap().content.as_deref(), Some("another model"));

    // Through engines: the second run's wait is recorded, and nothing is sent for it.
    let store = MemoryStore::new();
    let engine = builder(&store).model_retry(Retry::NONE).provide(models).start().await.unwrap();
    let run = engine.start::<Ask>("large".into()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("not sent"), "{error}");
    assert_eq!(client.models().len(), 2, "the held call reached no client");
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn after_the_wait_the_model_is_asked_again() {
    let short = Duration::from_millis(200);
    let limited =
        Err(ModelError::Overloaded { status: 529, retry_after: Some(short), message: "busy".into() });
    let client = Moody::new([limited, Ok(says("one")), Ok(says("two"))]);
    let store = MemoryStore::new();
    let engine = engine(&store, Models::new(client.clone())).await;
    let first = engine.start::<Ask>("large".into()).await.unwrap();
    let second = engine.start::<Ask>("large".into()).await.unwrap();
    let mut said = [first.result().await.unwrap(), second.result().await.unwrap()];
    said.sort();
    assert_eq!(said, ["one", "two"]);
    assert_eq!(client.models().len(), 3);
}

fn client(server: &MockServer) -> OpenAiClient {
    OpenAiClient::new(format!("{}/v1", server.uri()), "very-secret-key", "small")
        .timeout(Duration::from_secs(60))
}

#[tokio::test]
async fn usage_ids_and_costs_are_read_and_recorded() {
    let server = MockServer::start().await;
    let answer = json!({
        "id": "answer-1", "model": "small-2026-10-02",
        "choices": [{ "finish_reason": "stop", "message": { "content": "hello" } }],
        "usage": {
            "prompt_tokens": 100, "completion_tokens": 50,
            "prompt_tokens_details": { "cached_tokens": 60, "audio_tokens": null },
            "completion_tokens_details": { "reasoning_tokens": 40 },
        },
    });
    let answer = ResponseTemplate::new(200).set_body_json(answer).insert_header("x-request-id", "req-7");
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    let prices = PriceTable::new("USD", jiff::civil::date(2026, 11, 1))
        .model("small", Price::per_million(1_000_000, 2_000_000).cached(500_000));
    let store = MemoryStore::new();
    let engine = engine(&store, Models::new(client(&server)).prices(prices)).await;
    let run = engine.start::<Ask>("small".into()).await.unwrap();
    run.result().await.unwrap();
    let recorded = events(&store, run.id()).await.into_iter().find_map(|event| match event {
        Event::CommandCommitted(e) => Some(e.result.unwrap().decode::<ChatResponse>().unwrap()),
        _ => None,
    });
    let recorded = recorded.unwrap();
    let usage = Usage { cached_tokens: 60, reasoning_tokens: 40, ..Usage::of(100, 50) };
    assert_eq!((recorded.usage, recorded.request_id.as_deref()), (usage, Some("req-7")));
    let cost = recorded.cost.unwrap();
    // 40 * 1.0 + 60 * 0.5 + 50 * 2.0 millionths.
    assert_eq!(
        (cost.nanos, &*cost.currency, cost.prices_of),
        (170_000, "USD", jiff::civil::date(2026, 11, 1))
    );
}

#[test]
fn answers_and_questions_of_older_journals_are_read() {
    let answer = r#"{"model":"m","content":"hi","usage":{"input_tokens":3,"output_tokens":4}}"#;
    let read: ChatResponse = serde_json::from_str(answer).unwrap();
    assert_eq!((read.usage, read.request_id.clone(), read.cost.clone()), (Usage::of(3, 4), None, None));
    assert_eq!(serde_json::to_string(&read).unwrap(), answer, "and written as before");
    let question = r#"{"call":"plan","messages":[{"role":"user","content":"u"}]}"#;
    let read: ChatRequest = serde_json::from_str(question).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), question, "so its digest is the same");
}

async fn retry_after(status: u16, header: &str) -> Option<Duration> {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status)
        .insert_header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
        .insert_header("retry-after", header);
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    let error = client(&server).chat(ChatRequest::default()).await.unwrap_err();
    assert_eq!(Failure::from(error.clone()).class(), FailureClass::Retryable, "{error}");
    assert!(!matches!(error, ModelError::Network { .. }), "it is not the server's answer: {error}");
    error.retry_after()
}

#[tokio::test]
async fn a_date_to_wait_for_is_measured_by_the_servers_own_clock() {
    let minute = Some(Duration::from_secs(60));
    for status in [429, 503, 529] {
        assert_eq!(retry_after(status, "Sun, 06 Nov 1994 08:50:37 GMT").await, minute, "{status}");
        assert_eq!(retry_after(status, "60").await, minute, "{status}");
        assert_eq!(retry_after(status, "soon").await, None, "{status}");
    }
}

/// The messages that a server got for `attachment`.
async fn sent(attachment: Attachment) -> Result<Value, ModelError> {
    let server = MockServer::start().await;
    let answer = json!({ "choices": [{ "message": { "content": "seen" } }] });
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .mount(&server)
        .await;
    let messages = vec![ChatMessage::user_with("look", vec![attachment])];
    client(&server).chat(ChatRequest { messages, ..ChatRequest::default() }).await?;
    let body: Value = serde_json::from_slice(&server.received_requests().await.unwrap()[0].body).unwrap();
    Ok(body["messages"][0]["content"].clone())
}

#[tokio::test]
async fn images_and_files_are_sent_as_the_protocol_says() {
    let text = json!({ "type": "text", "text": "look" });
    let image = sent(Attachment::url("image/png", "https://h/1.png")).await.unwrap();
    assert_eq!(image, json!([text, { "type": "image_url", "image_url": { "url": "https://h/1.png" } }]));
    let inline = sent(Attachment::bytes("image/png", &[1, 2, 3])).await.unwrap();
    assert_eq!(inline[1]["image_url"]["url"], "data:image/png;base64,AQID");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pdf").to_str().unwrap().to_owned();
    std::fs::write(&path, "abc").unwrap();
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let file =
        Attachment::file("application/pdf", &path).named("bill.pdf").with_sha256(digest.to_uppercase());
    let expected = json!({ "filename": "bill.pdf", "file_data": "data:application/pdf;base64,YWJj" });
    assert_eq!(sent(file.clone()).await.unwrap()[1]["file"], expected);

    std::fs::write(&path, "abd").unwrap();
    let changed = sent(file).await.unwrap_err();
    assert!(
        matches!(&changed, ModelError::Attachment { reason, .. } if reason.contains("it was changed")),
        "{changed}"
    );
    let missing = sent(Attachment::file("image/png", "/no/such/file")).await.unwrap_err();
    assert!(missing.to_string().contains("/no/such/file"), "{missing}");
    let by_url = sent(Attachment::url("application/pdf", "https://h/a.pdf")).await.unwrap_err();
    assert_eq!(by_url.class(), FailureClass::Permanent, "{by_url}");
}

workflow!(Look(cx, path: String) -> String {
    let request = cx.llm("look").system("You see.").attach(Attachment::file("image/png", path));
    Ok(request.text().await?)
});

#[tokio::test]
async fn a_file_is_recorded_by_reference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png").to_str().unwrap().to_owned();
    std::fs::write(&path, "the whole picture").unwrap();
    let store = MemoryStore::new();
    let server = MockServer::start().await;
    let answer = json!({ "choices": [{ "message": { "content": "seen" } }] });
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .mount(&server)
        .await;
    let engine = engine(&store, Models::new(client(&server))).await;
    let run = engine.start::<Look>(path.clone()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "seen");
    let text = kit::recorded_text(&store, run.id()).await;
    assert!(text.contains(&path) && !text.contains("dGhlIHdob2xl"), "{text}");
    std::fs::remove_file(&path).unwrap();
    verify(&engine, run.id()).await;
}

/// The runtimes of two programs' halves, or of two tests: what one of them ends with takes nothing of the other along.
#[test]
fn a_runtime_that_ends_takes_no_exchange_of_another_one_with_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tokio::runtime::Runtime::new().unwrap();
    let server = home.block_on(async {
        let server = MockServer::start().await;
        let answer = json!({ "choices": [{ "message": { "content": "here" } }] });
        let answer = ResponseTemplate::new(200).set_body_json(answer);
        Mock::given(method("POST")).respond_with(answer).mount(&server).await;
        server
    });
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for round in 0..100 {
                    let said = runtime().block_on(client(&server).chat(ChatRequest::default()));
                    assert_eq!(said.map(|said| said.content), Ok(Some("here".to_owned())), "round {round}");
                }
            });
        }
    });
}
