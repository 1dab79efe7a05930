//! HTTP through a real engine and real sockets: recorded once, replayed without the network, secrets kept out, and
//! lost answers told apart from requests that were never sent.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::RunError;
use aether_core::failure::{Failure, StepError};
use aether_core::journal::event::Event;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::StepCx;
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_core::workflow::Workflow;
use aether_effects::http::{Body, CxHttp, HttpClient, HttpResponse, StepHttp};
use aether_effects::secret::Secret;
use kit::{Manner, builder, events, nobody, peer, recorded_text, verify};
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// How long a peer that hangs is waited for: longer than a slow machine takes to be answered by one that does not.
const SHORT: Duration = Duration::from_millis(1_500);

workflow!(GetAndPost(cx, base: String) -> (Value, u16) {
    let key = Secret::from("very-secret-key");
    let got = cx
        .http()
        .get(format!("{base}/item"))
        .query(&[("q", "a b"), ("api_key", "very-secret-parameter")])
        .bearer(&key)
        .header("x-api-key", "very-secret-header")
        .send()
        .await?
        .error_for_status()?;
    let item: Value = got.json()?;
    let posted = cx.http().post(format!("{base}/orders")).bearer(&key).json(&item).send().await?;
    Ok((item, posted.status))
});

async fn shop() -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200)
        .insert_header("etag", "\"7\"")
        .insert_header("set-cookie", "session=very-secret-cookie")
        .set_body_json(json!({ "id": 7 }));
    Mock::given(method("GET"))
        .and(path("/item"))
        .and(query_param("q", "a b"))
        .and(query_param("api_key", "very-secret-parameter"))
        .and(header("authorization", "Bearer very-secret-key"))
        .respond_with(answer)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path("/orders"))
        .respond_with(ResponseTemplate::new(201))
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn an_exchange_is_recorded_once_and_replayed_without_the_network() {
    let (server, store) = (shop().await, MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<GetAndPost>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (json!({ "id": 7 }), 201));
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 2);

    verify(&engine, run.id()).await;
    assert_eq!(server.received_requests().await.unwrap().len(), 2, "a replay must not touch the network");

    let exchanges: Vec<_> = events(&store, run.id())
        .await
        .into_iter()
        .filter_map(|event| if let Event::HttpRecorded(e) = event { Some(e) } else { None })
        .collect();
    assert_eq!(exchanges.len(), 2);
    let response: HttpResponse = exchanges[0].response.decode().unwrap();
    assert_eq!((response.status, response.header("ETag")), (200, Some("\"7\"")));
    assert_eq!(response.body, Body::Text(r#"{"id":7}"#.into()));
    let text = recorded_text(&store, run.id()).await;
    assert_eq!(text.matches(r#"\"id\":7"#).count(), 2, "one response, one request body: {text}");
}

#[tokio::test]
async fn a_post_carries_the_ledgers_idempotency_key_and_its_intent_comes_first() {
    let (server, store) = (shop().await, MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<GetAndPost>(server.uri()).await.unwrap();
    run.result().await.unwrap();

    let entries = store.entries(run.id()).await.unwrap();
    assert_eq!(entries.len(), 1, "a GET needs no ledger row");
    let requests = server.received_requests().await.unwrap();
    let sent = requests[1].headers.get("idempotency-key").unwrap().to_str().unwrap();
    assert_eq!(sent, entries[0].key.to_string());
    assert!(requests[0].headers.get("idempotency-key").is_none());
    let kinds: Vec<_> = events(&store, run.id()).await.iter().map(Event::kind).collect();
    let at = |kind: &str| kinds.iter().rposition(|k| k == kind).unwrap();
    assert!(at("tool_invocation_started") < at("http_recorded"));
}

#[tokio::test]
async fn secrets_never_reach_the_journal() {
    let (server, store) = (shop().await, MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<GetAndPost>(server.uri()).await.unwrap();
    run.result().await.unwrap();
    let text = recorded_text(&store, run.id()).await;
    assert!(!text.contains("very-secret"), "{text}");
    assert!(text.contains("api_key=***"), "{text}");
}

workflow!(Post(cx, url: String) -> u16 {
    Ok(cx.http().post(url).timeout(SHORT).json(&1).send().await?.status)
});

async fn post(url: String) -> (Failure, MemoryStore) {
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<Post>(url).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    verify(&engine, run.id()).await;
    (failure, store)
}

#[tokio::test]
async fn a_post_whose_answer_is_lost_is_in_doubt_and_sent_once() {
    for manner in [
        Manner::Hangs,
        Manner::Closes,
        Manner::Says("\u{0}\u{1} this is not HTTP\r\n\r\n"),
        Manner::Says("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf"),
    ] {
        let (url, requests) = peer(manner).await;
        let (failure, _) = post(url).await;
        assert_eq!(failure.class(), FailureClass::Unknown, "{manner:?}: {failure}");
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{manner:?}");
    }
}

#[tokio::test]
async fn a_post_that_was_not_sent_definitely_failed() {
    // The name is longer than one may be: whether there is a network or not, it is not found.
    for url in [nobody().await, format!("http://{}.invalid/", "no-such-host".repeat(6))] {
        let (failure, _) = post(url).await;
        assert_eq!(failure.class(), FailureClass::Retryable, "{failure}");
    }
    for url in ["not a url?token=hidden", "ftp://host/file"] {
        let (failure, _) = post(url.into()).await;
        assert_eq!(failure.class(), FailureClass::Permanent, "{failure}");
        assert!(!failure.to_string().contains("hidden"), "{failure}");
    }
}

workflow!(PostIdempotent(cx, url: String) -> u16 {
    Ok(cx.http().post(url).timeout(SHORT).json(&1).idempotent().send().await?.status)
});

#[tokio::test]
async fn an_idempotent_post_is_sent_again_under_the_same_key() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(SHORT * 4);
    Mock::given(method("POST")).respond_with(slow).up_to_n_times(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(202)).mount(&server).await;
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<PostIdempotent>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 202);
    let requests = server.received_requests().await.unwrap();
    let keys: Vec<_> = requests.iter().map(|request| request.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    verify(&engine, run.id()).await;
}

/// A server whose first answer is lost; then it has one of this status, and from then on 202.
async fn loses_an_answer(then: u16, times: u64) -> MockServer {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(SHORT * 4);
    Mock::given(method("POST")).respond_with(slow).up_to_n_times(1).mount(&server).await;
    let turned_away = ResponseTemplate::new(then);
    Mock::given(method("POST")).respond_with(turned_away).up_to_n_times(times).mount(&server).await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(202)).mount(&server).await;
    server
}

#[tokio::test]
async fn an_idempotent_post_that_is_turned_away_when_it_is_sent_again_keeps_its_key() {
    for (then, times, status, sent) in [(503, 2, Some(202), 4), (429, 9, None, 5), (404, 1, Some(404), 2)] {
        let server = loses_an_answer(then, times).await;
        let engine = builder(&MemoryStore::new()).start().await.unwrap();
        let run = engine.start::<PostIdempotent>(server.uri()).await.unwrap();
        let ended = run.result().await;
        assert_eq!(ended.as_ref().ok().copied(), status, "{then}: {ended:?}");
        if let Err(RunError::Failed(failure)) = ended {
            assert_eq!(failure.class(), FailureClass::Unknown, "{failure}");
        }
        let requests = server.received_requests().await.unwrap();
        let keys: Vec<_> = requests.iter().map(|request| &request.headers["idempotency-key"]).collect();
        assert_eq!(keys, vec![keys[0]; sent], "{then}");
        verify(&engine, run.id()).await;
    }
}

workflow!(Get(cx, url: String) -> HttpResponse {
    Ok(cx.http().get(url).timeout(Duration::from_secs(60)).send().await?)
});

#[tokio::test]
async fn a_get_is_tried_again_and_then_exhausted() {
    let (url, requests) = peer(Manner::Closes).await;
    let engine = builder(&MemoryStore::new()).read_retry(Retry::times(3)).start().await.unwrap();
    let run = engine.start::<Get>(url).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("no attempt left") && error.contains("the connection broke"), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 4);
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_clear_error_and_binary_bodies_survive() {
    let server = MockServer::start().await;
    let binary = ResponseTemplate::new(200).set_body_bytes(vec![0xff, 0, 1]);
    Mock::given(path("/binary")).respond_with(binary).mount(&server).await;
    let big = ResponseTemplate::new(200).set_body_string("x".repeat(2000));
    Mock::given(path("/big")).respond_with(big).mount(&server).await;
    let client = HttpClient::builder().max_body(1000).build().unwrap();
    let engine = builder(&MemoryStore::new()).provide(client).start().await.unwrap();

    let run = engine.start::<Get>(format!("{}/big", server.uri())).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("over the limit of 1000 bytes"), "{error}");
    let run = engine.start::<Get>(format!("{}/binary", server.uri())).await.unwrap();
    let response = run.result().await.unwrap();
    assert_eq!((response.bytes(), response.body), (vec![0xff, 0, 1], Body::Base64("/wAB".into())));
}

#[tokio::test]
async fn a_status_becomes_an_error_only_when_asked_and_with_the_right_class() {
    let response = |method: &str, status| HttpResponse {
        method: method.into(),
        url: "https://h/".into(),
        redirected_to: None,
        status,
        headers: [("retry-after".to_owned(), "7".to_owned())].into(),
        body: Body::Text("no".into()),
    };
    let class =
        |method, status| Failure::from(response(method, status).error_for_status().unwrap_err()).class();
    for status in [425, 429] {
        assert_eq!(class("POST", status), FailureClass::Retryable, "{status}");
    }
    for status in [408, 500, 502, 503, 504] {
        assert_eq!(class("GET", status), FailureClass::Retryable, "{status}");
        assert_eq!(class("POST", status), FailureClass::Unknown, "{status}");
    }
    assert_eq!(class("POST", 404), FailureClass::Permanent);
    assert_eq!(response("GET", 429).retry_after(), Some(Duration::from_secs(7)));
    assert!(response("GET", 302).error_for_status().is_ok());
    #[derive(Debug, thiserror::Error)]
    #[error("mail")]
    struct Mail(#[source] aether_effects::http::HttpError);
    let error = Mail(response("POST", 500).error_for_status().unwrap_err());
    assert_eq!(Failure::from(error).class(), FailureClass::Unknown, "a source keeps its class");
}

step!(two_posts(cx, base: String) -> u16, StepOptions::of(EffectClass::Tool), {
    post_once(&cx, &base).await?;
    post_once(&cx, &base).await
});

async fn post_once(cx: &StepCx, base: &str) -> Result<u16, Failure> {
    let token = Secret::from("very-secret-key");
    let sent = cx.http().post(base).bearer(&token).json(&json!({ "n": 1 })).send().await?;
    Ok(sent.error_for_status()?.status)
}

workflow!(CallStep(cx, base: String) -> u16 {
    let args = <two_posts as aether_core::step::Step>::encode(&base);
    Ok(aether_core::workflow::call_step::<two_posts>(cx, args).await?)
});

#[tokio::test]
async fn a_steps_exchanges_are_noted_without_large_bodies_and_have_keys_of_their_own() {
    let server = MockServer::start().await;
    let big = ResponseTemplate::new(200).set_body_string("y".repeat(5000));
    Mock::given(method("POST")).respond_with(big).mount(&server).await;
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<CallStep>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 200);

    let key = store.entries(run.id()).await.unwrap()[0].key.to_string();
    let requests = server.received_requests().await.unwrap();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.headers["idempotency-key"].to_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys[0], key);
    assert!(keys[1].starts_with(&format!("{key}:")) && keys[1].ends_with(":1"), "{keys:?}");
    let text = recorded_text(&store, run.id()).await;
    assert_eq!(text.matches("http_recorded").count(), 2);
    assert!(
        text.contains(r#""body_bytes":5000"#) && !text.contains("yyyy") && !text.contains("very-secret"),
        "{text}"
    );
    verify(&engine, run.id()).await;
    assert_eq!(server.received_requests().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_step_whose_post_is_lost_is_in_doubt() {
    let (url, requests) = peer(Manner::Closes).await;
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<CallStep>(url).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    assert_eq!(failure.class(), FailureClass::Unknown);
    assert!(
        failure.to_string().starts_with(&StepError::<Failure>::InDoubt(Failure::new("")).to_string()),
        "{failure}"
    );
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

step!(echo(cx, base: String) -> HttpResponse, StepOptions::of(EffectClass::Read), {
    let first = cx.http().get(format!("{base}/1")).send().await?;
    cx.http().get(format!("{base}/2")).send().await?;
    Ok(first)
});

workflow!(Echo(cx, base: String) -> u16 {
    let args = <echo as aether_core::step::Step>::encode(&base);
    Ok(aether_core::workflow::call_step::<echo>(cx, args).await?.status)
});

#[tokio::test]
async fn a_step_that_returns_an_earlier_exchange_is_replayed_with_that_one() {
    let server = MockServer::start().await;
    Mock::given(path("/1")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    Mock::given(path("/2")).respond_with(ResponseTemplate::new(201)).mount(&server).await;
    let engine = builder(&MemoryStore::new()).start().await.unwrap();
    let run = engine.start::<Echo>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 200);
    verify(&engine, run.id()).await;
}

#[tokio::test]
async fn provided_credentials_are_sent_to_their_host_only() {
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Bearer very-secret-key"))
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let client =
        HttpClient::builder().bearer("127.0.0.1", "very-secret-key").bearer("other", "x").build().unwrap();
    let store = MemoryStore::new();
    let engine = builder(&store).provide(client).start().await.unwrap();
    let run = engine.start::<Get>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap().status, 200);
    assert!(!recorded_text(&store, run.id()).await.contains("very-secret"));
    assert!(HttpClient::builder().bearer("h", "line\nbreak").build().is_err());
}

#[tokio::test]
async fn redirects_take_no_secret_to_another_host_and_no_post_anywhere() {
    let (there, here) = (MockServer::start().await, MockServer::start().await);
    Mock::given(path("/end")).respond_with(ResponseTemplate::new(200)).mount(&there).await;
    Mock::given(path("/end")).respond_with(ResponseTemplate::new(200)).mount(&here).await;
    let to = |url: String| ResponseTemplate::new(307).insert_header("location", &*url);
    Mock::given(path("/away")).respond_with(to(format!("{}/end", there.uri()))).mount(&here).await;
    Mock::given(path("/stay")).respond_with(to("/end".into())).mount(&here).await;
    Mock::given(path("/round")).respond_with(to("/round".into())).mount(&here).await;
    let get = async |client: Option<HttpClient>, path: &str| {
        let builder = builder(&MemoryStore::new());
        let builder = if let Some(client) = client { builder.provide(client) } else { builder };
        let engine = builder.start().await.unwrap();
        let run = engine.start::<Get>(format!("{}{path}", here.uri())).await.unwrap();
        run.result().await.map(|response| response.status).map_err(|error| error.to_string())
    };
    let keyed = || HttpClient::builder().credential("127.0.0.1", "x-key", "very-secret").build().ok();
    assert_eq!(get(keyed(), "/stay").await, Ok(200));
    assert_eq!(get(keyed(), "/away").await, Ok(307));
    assert_eq!(there.received_requests().await.unwrap().len(), 0);
    assert_eq!(get(None, "/away").await, Ok(200));
    assert!(get(None, "/round").await.unwrap_err().contains("too many redirects"));
    assert!(get(keyed(), "/round").await.unwrap_err().contains("too many redirects"));

    let engine = builder(&MemoryStore::new()).start().await.unwrap();
    let run = engine.start::<Post>(format!("{}/stay", here.uri())).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 307);
}

workflow!(Send(cx, asked: (String, String)) -> HttpResponse {
    let (method, url) = asked;
    let http = cx.http();
    let request = match &*method {
        "GET" => http.get(url).query(&[("api_key", "very-secret"), ("q", "1")]),
        "HEAD" => http.head(url),
        "OPTIONS" => http.options(url),
        "POST" => http.post(url).json(&1),
        "PUT" => http.put(url).json(&1),
        "PATCH" => http.patch(url).json(&1),
        _ => http.delete(url),
    };
    Ok(request.send().await?)
});

#[tokio::test]
async fn each_redirect_is_followed_by_what_changes_nothing_and_recorded_with_where_it_led() {
    let (there, here) = (MockServer::start().await, MockServer::start().await);
    Mock::given(path("/end")).respond_with(ResponseTemplate::new(200)).mount(&there).await;
    let end = format!("{}/end?token=very-secret", there.uri());
    for status in [301, 302, 303, 307, 308] {
        let redirect = ResponseTemplate::new(status).insert_header("location", &*end);
        Mock::given(path(format!("/{status}"))).respond_with(redirect).mount(&here).await;
    }
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    for status in [301, 302, 303, 307, 308] {
        for (method, follows) in [
            ("GET", true),
            ("HEAD", true),
            ("OPTIONS", true),
            ("POST", false),
            ("PUT", false),
            ("PATCH", false),
            ("DELETE", false),
        ] {
            let url = format!("{}/{status}", here.uri());
            let before = there.received_requests().await.unwrap().len();
            let run = engine.start::<Send>((method.into(), url.clone())).await.unwrap();
            let response = run.result().await.unwrap();
            let led = format!("{}/end?token=***", there.uri());
            let requests = there.received_requests().await.unwrap();
            assert_eq!(requests.len() - before, usize::from(follows), "{method} {status}");
            assert!(response.url.starts_with(&url), "the URL stays that of the request");
            if follows {
                assert_eq!((response.status, response.redirected_to), (200, Some(led)), "{method} {status}");
                let last = requests.last().unwrap();
                // Where a server says "see other", what is there is fetched.
                let fetches = status == 303 && method == "OPTIONS";
                assert_eq!(last.method.as_str(), if fetches { "GET" } else { method }, "{status}");
                assert!(last.headers.get("referer").is_none(), "it would tell the query of the first URL");
            } else {
                assert_eq!((response.status, &response.redirected_to), (status, &None), "{method} {status}");
                assert_eq!(response.header("location"), Some(&*led));
            }
            let text = recorded_text(&store, run.id()).await;
            assert_eq!(text.contains("redirected_to"), follows, "{text}");
            assert!(!text.contains("very-secret"), "{text}");
            verify(&engine, run.id()).await;
        }
    }
}

/// Starts a POST at a peer that never answers, stops the engine, and starts another one on the same store.
async fn interrupted<W>(manner: Manner) -> (Result<u16, RunError<Failure>>, usize, usize)
where
    W: Workflow<Input = String, Output = u16, Error = Failure>,
{
    let (url, requests) = peer(manner).await;
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    engine.start::<W>(url).id("run").await.unwrap();
    while requests.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    let before = requests.load(Ordering::SeqCst);
    let engine =
        builder(&store).register::<W>().poll_interval(Duration::from_millis(5)).start().await.unwrap();
    let result = engine.handle::<W>("run").await.unwrap().result().await;
    (result, before, requests.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_post_that_was_in_flight_when_the_process_died_is_not_sent_again_unless_it_may_be() {
    let (result, before, after) = interrupted::<Post>(Manner::Hangs).await;
    let Err(RunError::Failed(failure)) = result else { panic!("the run must fail: {result:?}") };
    assert_eq!((failure.class(), before, after), (FailureClass::Unknown, 1, 1));

    let (result, before, after) = interrupted::<PostIdempotent>(Manner::Hangs).await;
    assert!(result.is_err(), "the peer never answers");
    assert!(before == 1 && after > 1, "{before} {after}");
}

/// A server that answers a `POST` with these statuses and bodies, one after the other.
async fn answers(all: &[(u16, &str)]) -> MockServer {
    let server = MockServer::start().await;
    for (status, body) in all {
        let answer = ResponseTemplate::new(*status).set_body_string(*body);
        Mock::given(method("POST")).respond_with(answer).up_to_n_times(1).mount(&server).await;
    }
    server
}

#[tokio::test]
async fn a_server_that_knows_the_key_is_understood() {
    let busy = r#"{"title":"A request is outstanding for this Idempotency-Key"}"#;
    let other = r#"{"title":"Idempotency-Key is already used"}"#;
    let post = async |all: &[(u16, &str)]| {
        let server = answers(all).await;
        let engine = builder(&MemoryStore::new()).start().await.unwrap();
        let run = engine.start::<PostIdempotent>(server.uri()).await.unwrap();
        let result = run.result().await;
        let keys: std::collections::BTreeSet<_> = server
            .received_requests()
            .await
            .unwrap()
            .iter()
            .map(|request| request.headers["idempotency-key"].to_str().unwrap().to_owned())
            .collect();
        (result, keys.len(), server.received_requests().await.unwrap().len())
    };
    // Still in progress: asked again under the same key, until it is done.
    let (result, keys, requests) = post(&[(409, busy), (409, busy), (201, "done")]).await;
    assert_eq!((result.unwrap(), keys, requests), (201, 1, 3));
    // What is not about the key is a value as ever.
    for status in [409, 422] {
        let (result, _, requests) = post(&[(status, "no such address"), (201, "done")]).await;
        assert_eq!((result.unwrap(), requests), (status, 1));
    }
    // One that is not idempotent is not sent again: it is in doubt.
    for (status, body) in [(409, busy), (422, other)] {
        let server = answers(&[(status, body), (201, "done")]).await;
        let engine = builder(&MemoryStore::new()).start().await.unwrap();
        let result = engine.start::<Post>(server.uri()).await.unwrap().result().await;
        let Err(RunError::Failed(failure)) = result else { panic!("{result:?}") };
        assert_eq!(failure.class(), FailureClass::Unknown);
        assert_eq!(server.received_requests().await.unwrap().len(), 1);
    }
}

/// The first sending is done and its answer is lost; the next build writes another body under the same key.
#[tokio::test]
async fn a_key_that_the_server_knows_from_another_request_leaves_the_outcome_unknown() {
    let other = r#"{"title":"Idempotency-Key is already used"}"#;
    let server = answers(&[(422, other); 8]).await;
    let engine = builder(&MemoryStore::new()).start().await.unwrap();
    let result = engine.start::<PostIdempotent>(server.uri()).await.unwrap().result().await;
    let Err(RunError::Failed(failure)) = result else { panic!("{result:?}") };
    assert_eq!(failure.class(), FailureClass::Unknown, "{failure}");
    let requests = server.received_requests().await.unwrap();
    let keys: std::collections::BTreeSet<_> =
        requests.iter().map(|request| request.headers["idempotency-key"].to_str().unwrap()).collect();
    assert_eq!(keys.len(), 1, "never under another key");
}
