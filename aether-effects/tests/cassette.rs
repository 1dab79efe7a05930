//! Cassettes against a real server on this machine, which is then shut down.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod kit;

use std::path::Path;
use std::sync::Arc;

use aether_core::failure::Failure;
use aether_core::recording::Masking;
use aether_core::store::memory::MemoryStore;
use aether_effects::cassette::{Cassette, CassetteError, Mode};
use aether_effects::http::{CxHttp, HttpClient, HttpResponse};
use aether_effects::llm::{ChatMessage, ChatRequest, ModelClient, ModelError, OpenAiClient};
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use kit::builder;

workflow!(Errand(cx, base: String) -> Vec<String> {
    let weather = cx.http().get(format!("{base}/weather")).query(&[("city", "Vienna"), ("api_key", "k-very-secret")]).send().await?;
    let order = json!({ "table": 2, "when": { "hour": 20, "day": "Friday" } });
    let booked = cx.http().post(format!("{base}/tables")).bearer(&"t-very-secret".into()).json(&order).send().await?;
    let again = cx.http().get(format!("{base}/weather")).query(&[("city", "Vienna"), ("api_key", "k-very-secret")]).send().await?;
    let said = |response: HttpResponse| format!("{} {}", response.status, response.text());
    Ok(vec![said(weather), said(booked), said(again)])
});

workflow!(Other(cx, base: String) -> u16 {
    let found = cx.http().get(format!("{base}/weather")).query(&[("city", "Graz")]).send().await?;
    Ok(found.status)
});

async fn server() -> MockServer {
    let server = MockServer::start().await;
    let rain = ResponseTemplate::new(200).set_body_string("rain");
    Mock::given(method("GET")).and(path("/weather")).respond_with(rain).up_to_n_times(1).mount(&server).await;
    let sun = ResponseTemplate::new(200).set_body_string("sun");
    Mock::given(method("GET")).and(path("/weather")).respond_with(sun).mount(&server).await;
    let booked = json!({ "receipt": 7, "session_token": "s-very-secret" });
    let booked = ResponseTemplate::new(201).set_body_json(booked);
    Mock::given(method("POST")).and(path("/tables")).respond_with(booked).mount(&server).await;
    let answer = json!({ "choices": [{ "message": { "content": "a plan" } }], "model": "m" });
    let answer = ResponseTemplate::new(200).set_body_json(answer);
    Mock::given(method("POST")).and(path("/v1/chat/completions")).respond_with(answer).mount(&server).await;
    server
}

async fn run_errand(base: &str, cassette: &Cassette) -> Result<Vec<String>, Failure> {
    let http = HttpClient::builder().cassette(cassette).build().unwrap();
    let engine = builder(&MemoryStore::new()).provide(http).register::<Errand>().start().await.unwrap();
    let run = engine.start::<Errand>(base.to_owned()).id("errand").await.unwrap();
    run.result().await.map_err(|error| Failure::new(error.to_string()))
}

fn open(path: &Path, mode: Mode) -> Cassette {
    Cassette::open(path, mode).unwrap()
}

#[tokio::test]
async fn what_was_recorded_is_played_back_when_the_server_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/errand.json");
    let server = server().await;
    let base = server.uri();
    let recorded = run_errand(&base, &open(&file, Mode::Record)).await.unwrap();
    assert_eq!(recorded[0], "200 rain");
    assert_eq!(recorded[2], "200 sun");
    drop(server);

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("very-secret"), "{text}");
    assert_eq!(text.lines().count(), 5, "one interaction a line:\n{text}");
    let cassette = open(&file, Mode::Replay);
    assert_eq!((cassette.len(), cassette.unused()), (3, 3));
    let replayed = run_errand(&base, &cassette).await.unwrap();
    assert_eq!(cassette.unused(), 0);
    assert_eq!((&replayed[0], &replayed[2]), (&recorded[0], &recorded[2]));
    assert_eq!(replayed[1], recorded[1].replace("s-very-secret", "***"));

    // A fourth call is one more than there are answers.
    let error = run_errand(&base, &cassette).await.unwrap_err().to_string();
    assert!(error.contains("each answer was given"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_not_recorded_is_refused_and_told_what_is_near() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errand.json");
    let server = server().await;
    let base = server.uri();
    run_errand(&base, &open(&file, Mode::Record)).await.unwrap();
    let cassette = open(&file, Mode::Replay);
    let http = HttpClient::builder().cassette(&cassette).build().unwrap();
    let engine = builder(&MemoryStore::new()).provide(http).register::<Other>().start().await.unwrap();
    let run = engine.start::<Other>(base.clone()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    let nearest = error.lines().find(|line| line.contains("nearest recorded")).unwrap();
    assert!(nearest.contains("/weather?city=Vienna&api_key=***"), "{error}");
    assert!(error.contains("city=Graz") && error.contains("errand.json"), "{error}");
    // The server stands, and was not asked.
    let asked = server.received_requests().await.unwrap();
    assert!(!asked.iter().any(|request| request.url.query() == Some("city=Graz")));

    // `Auto` asks for what is missing, and for nothing else.
    let before = asked.len();
    let auto = open(&file, Mode::Auto);
    run_errand(&base, &auto).await.unwrap();
    let http = HttpClient::builder().cassette(&auto).build().unwrap();
    let engine = builder(&MemoryStore::new()).provide(http).register::<Other>().start().await.unwrap();
    assert_eq!(engine.start::<Other>(base).await.unwrap().result().await.unwrap(), 200);
    assert_eq!(server.received_requests().await.unwrap().len(), before + 1);
    assert_eq!(open(&file, Mode::Replay).len(), 4);
}

fn question(text: &str) -> ChatRequest {
    ChatRequest { call: "plan".into(), messages: vec![ChatMessage::user(text)], ..ChatRequest::default() }
}

#[tokio::test]
async fn models_are_recorded_and_played_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let server = server().await;
    let real = OpenAiClient::new(format!("{}/v1", server.uri()), "sk-very-secret", "m");
    let recorded = open(&file, Mode::Auto).model(real.clone()).chat(question("what now?")).await.unwrap();
    drop(server);
    let model = open(&file, Mode::Replay).model(real.clone());
    assert_eq!(model.chat(question("what now?")).await.unwrap(), recorded);
    assert_eq!(recorded.content.as_deref(), Some("a plan"));
    let error = model.chat(question("what then?")).await.unwrap_err();
    let ModelError::NotRecorded { refusal } = &error else { panic!("{error}") };
    assert!(refusal.contains("what then?") && refusal.contains("what now?"), "{refusal}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("very-secret"));

    // The client's own connections can be put behind a cassette as well.
    let wire = folder.path().join("wire.json");
    std::fs::copy(&file, &wire).unwrap();
    let http = HttpClient::builder().cassette(&open(&wire, Mode::Replay)).build().unwrap();
    let error = real.http(http).chat(question("what now?")).await.unwrap_err();
    assert!(matches!(error, ModelError::NotRecorded { .. }), "{error}");
}

/// Answers with the question.
#[derive(Debug)]
struct Echo;

impl ModelClient for Echo {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> futures_util::future::BoxFuture<'_, Result<aether_effects::llm::ChatResponse, ModelError>> {
        let content = match request.messages.first() {
            Some(ChatMessage::User { content, .. }) => Some(content.clone()),
            _ => None,
        };
        let answer = aether_effects::llm::ChatResponse { content, ..Default::default() };
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(answer)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_may_record_at_once_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.json");
    let model = Arc::new(open(&file, Mode::Record).model(Echo));
    let tasks = (0..64).map(|number| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { model.chat(question(&format!("question {number}"))).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    let cassette = open(&file, Mode::Replay);
    assert_eq!(cassette.len(), 64);
    let model = cassette.model(Echo);
    for number in (0..64).rev() {
        let text = format!("question {number}");
        assert_eq!(model.chat(question(&text)).await.unwrap().content, Some(text));
    }
    assert_eq!(cassette.unused(), 0);
    // Others that were opened on the same file add to it.
    let (one, two) = (open(&file, Mode::Auto).model(Echo), open(&file, Mode::Auto).model(Echo));
    one.chat(question("one late question")).await.unwrap();
    two.chat(question("another late question")).await.unwrap();
    assert_eq!(open(&file, Mode::Replay).len(), 66);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left beside it");
}

#[tokio::test]
async fn a_cassette_that_cannot_be_used_is_a_typed_error_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    let missing = Cassette::open(&file, Mode::Replay).unwrap_err();
    assert!(
        matches!(&missing, CassetteError::File { .. }) && missing.to_string().contains("record it first"),
        "{missing}"
    );
    open(&file, Mode::Record).model(Echo).chat(question("a")).await.unwrap();
    let good = std::fs::read_to_string(&file).unwrap();
    let newer = good.replace("\"version\":1", "\"version\":9");
    for (text, newer) in [("", false), ("{}", false), (&good[..good.len() - 4], false), (&newer, true)] {
        std::fs::write(&file, text).unwrap();
        for mode in [Mode::Record, Mode::Replay, Mode::Auto] {
            let error = Cassette::open(&file, mode).unwrap_err();
            let expected = if newer {
                matches!(error, CassetteError::NewerVersion { found: 9, .. })
            } else {
                matches!(error, CassetteError::Damaged { .. })
            };
            assert!(expected, "{mode:?} {text:?}: {error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    std::fs::write(&file, good).unwrap();
    // What a program calls secret is.
    let masking = Masking::standard().rule(|path, _| path.ends_with("content"));
    let masked = Cassette::open_masked(&file, Mode::Record, masking).unwrap();
    masked.model(Echo).chat(question("my diary")).await.unwrap();
    assert!(!std::fs::read_to_string(&file).unwrap().contains("diary"));
}

#[tokio::test]
async fn what_was_recorded_before_it_was_masked_is_still_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    let said = question("GET https://h/?access_key=s3cret-value");
    let open = Cassette::open_masked(&file, Mode::Record, Masking::off()).unwrap();
    open.model(Echo).chat(said.clone()).await.unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("s3cret-value"));
    Cassette::open(&file, Mode::Replay).unwrap().model(Echo).chat(said).await.unwrap();
}
