//! Models that stream: an answer is the same in pieces of any size, one that is cut off anywhere is asked for again, and the
//! stream of a run holds the text of the recorded answer and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod kit;

use std::sync::Mutex;
use std::time::Duration;

use aether_core::budget::Budget;
use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::RunHandle;
use aether_core::failure::Failure;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::{Tool, ToolSchema};
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_core::stream::StreamEvent;
use aether_effects::agent::CxAgent;
use aether_effects::http::HttpClient;
use aether_effects::llm::{
    ChatMessage, ChatRequest, ChatResponse, CxLlm, EngineModel, ModelClient, ModelError, OpenAiClient,
    ToolCall, Usage,
};
use kit::said::{Said, server};
use kit::{Script, builder, calls, recorded_text, says};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

fn delta(delta: &Value) -> String {
    data(&json!({ "id": "x-1", "model": "m-2026", "choices": [{ "index": 0, "delta": delta }] }))
}

fn end(reason: &str) -> String {
    data(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

const DONE: &str = "data: [DONE]\n\n";

/// An answer with everything in it.
fn rich() -> Vec<String> {
    vec![
        ": hello\n\n".into(),
        delta(&json!({ "role": "assistant", "content": "" })),
        delta(&json!({ "reasoning_content": "hm" })),
        delta(&json!({ "content": "Grüße, " })),
        delta(&json!({ "content": "🌍" })),
        delta(
            &json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "search", "arguments": "" } }] }),
        ),
        delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"q\":" } }] })),
        delta(
            &json!({ "tool_calls": [{ "index": 1, "id": "b", "function": { "name": "send", "arguments": "{}" } }] }),
        ),
        delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "2}" } }] })),
        end("tool_calls"),
        data(&json!({ "choices": [], "usage": { "prompt_tokens": 11, "completion_tokens": 7,
            "completion_tokens_details": { "reasoning_tokens": 3 } } })),
        DONE.into(),
    ]
}

fn rich_answer() -> ChatResponse {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    ChatResponse {
        model: "m-2026".into(),
        content: Some("Grüße, 🌍".into()),
        tool_calls: vec![call("a", "search", "{\"q\":2}"), call("b", "send", "{}")],
        finish_reason: Some("tool_calls".into()),
        usage: Usage { reasoning_tokens: 3, ..Usage::of(11, 7) },
        request_id: Some("req-7".into()),
        cost: None,
    }
}

fn question() -> ChatRequest {
    ChatRequest { call: "c".into(), messages: vec![ChatMessage::user("Hello")], ..ChatRequest::default() }
}

fn client(url: &str) -> OpenAiClient {
    OpenAiClient::new(url, "very-secret-key", "m").timeout(Duration::from_secs(20))
}

/// The answer, and its text as it was told.
async fn ask(client: &OpenAiClient) -> (Result<ChatResponse, ModelError>, Vec<String>) {
    let told = Mutex::new(Vec::new());
    let on_text = |text: &str| told.lock().unwrap().push(text.to_owned());
    let answer = client.chat_streamed(question(), &on_text).await;
    (answer, told.into_inner().unwrap())
}

async fn ask_about(said: Said) -> (Result<ChatResponse, ModelError>, Vec<String>) {
    let (url, _) = server(vec![said]).await;
    ask(&client(&url)).await
}

#[tokio::test]
async fn text_calls_reasoning_and_usage_are_assembled() {
    let (url, asked) = server(vec![Said::events(&rich())]).await;
    let (answer, told) = ask(&client(&url)).await;
    assert_eq!(answer, Ok(rich_answer()));
    assert_eq!(told.concat(), "Grüße, 🌍");
    assert!(told.len() > 1, "it came in pieces: {told:?}");
    let asked = asked.lock().unwrap();
    assert_eq!(
        (&asked[0].body["stream"], &asked[0].body["stream_options"]["include_usage"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn an_answer_that_is_cut_off_anywhere_is_one_that_can_be_asked_for_again() {
    let whole = Said::events(&rich());
    let finished = whole.pieces.len() - 2;
    for pieces in 0..whole.pieces.len() {
        let (answer, told) = ask_about(whole.cut(pieces)).await;
        let error = answer.unwrap_err();
        assert!(matches!(error, ModelError::Network { .. }), "cut behind {pieces}: {error}");
        assert_eq!(error.class(), FailureClass::Retryable);
        assert!("Grüße, 🌍".starts_with(&told.concat()), "{told:?}");
        // A server that says that this was all, but not that the answer is complete.
        let (answer, _) = ask_about(whole.short(pieces)).await;
        match answer {
            Ok(answer) => assert!(pieces >= finished, "{pieces}: {answer:?}"),
            Err(error) => {
                assert!(matches!(error, ModelError::Network { .. }) && pieces < finished, "{error}")
            }
        }
    }
}

#[tokio::test]
async fn an_answer_is_the_same_in_pieces_of_any_size() {
    for line_end in ["\n", "\r\n"] {
        let body = rich().concat().replace('\n', line_end).into_bytes();
        for at in (0..body.len()).step_by(7).chain(body.len() - 30..body.len()) {
            let pieces = vec![body[..at].to_vec(), body[at..].to_vec()];
            let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
            let (answer, told) = ask_about(Said { pieces, ..Said::events(&[]) }).await;
            assert_eq!(answer, Ok(rich_answer()), "split at {at}");
            assert_eq!(told.concat(), "Grüße, 🌍");
        }
    }
}

#[tokio::test]
async fn what_a_server_may_say_is_a_value_or_a_typed_error() {
    let begun = delta(&json!({ "content": "so" }));
    let said = async |events: &[&str]| {
        let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
        ask_about(Said::events(&events)).await.0
    };
    let error = |error: &str| format!("data: {{\"error\":{error}}}\n\n");
    let overloaded = said(&[&begun, &error(r#"{"code":502,"message":"bad gateway"}"#)]).await.unwrap_err();
    assert!(matches!(overloaded, ModelError::Overloaded { status: 502, .. }), "{overloaded}");
    let failing = said(&[&begun, &error(r#"{"type":"server_error","message":"no"}"#)]).await.unwrap_err();
    assert!(matches!(failing, ModelError::Overloaded { status: 500, .. }), "{failing}");
    let limited = said(&[&begun, &error(r#"{"code":"rate_limit_exceeded","message":"slow"}"#)]).await;
    assert!(matches!(limited, Err(ModelError::RateLimited { .. })), "{limited:?}");
    let long = said(&[&error(r#"{"type":"invalid_request_error","message":"too long"}"#)]).await;
    assert!(matches!(long, Err(ModelError::BadRequest { .. })), "{long:?}");
    for garbage in ["data: {\"choices\":\n\n", "data: <html>\n\n", "nonsense\n\n", "data: \u{7f}\n\n"] {
        let error = said(&[&begun, garbage]).await.unwrap_err();
        assert!(matches!(error, ModelError::NotJson { .. }), "{garbage}: {error}");
    }
    for odd in ["data: {\"choices\":7}\n\n", "data: [1]\n\n"] {
        let error = said(&[odd]).await.unwrap_err();
        assert!(matches!(error, ModelError::WrongShape { .. }), "{odd}: {error}");
    }
    let nameless = delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{}" } }] }));
    let nameless = said(&[&nameless, DONE]).await.unwrap_err();
    assert!(matches!(nameless, ModelError::WrongShape { .. }), "{nameless}");
    // No end is given for the answer, only for the events; another choice; a whole call at once; a refusal.
    let other = data(&json!({ "choices": [{ "index": 1, "delta": { "content": "other" } }] }));
    assert_eq!(said(&[&begun, &other, DONE]).await.unwrap().content.as_deref(), Some("so"));
    let whole = |id: &str| json!({ "tool_calls": [{ "id": id, "function": { "name": "f", "arguments": { "a": 1 } } }] });
    let two = said(&[&delta(&whole("a")), &delta(&whole("b")), DONE]).await.unwrap();
    let two: Vec<_> = two.tool_calls.iter().map(|call| (&*call.id, &*call.arguments)).collect();
    assert_eq!(two, [("a", "{\"a\":1}"), ("b", "{\"a\":1}")]);
    // Two calls in pieces, without ids and with one index.
    let piece = |name: &str, arguments: &str| {
        let function = match name {
            "" => json!({ "arguments": arguments }),
            name => json!({ "name": name, "arguments": arguments }),
        };
        delta(&json!({ "tool_calls": [{ "index": 0, "function": function }] }))
    };
    let pieces = [
        piece("f", ""),
        piece("", "{\"a\":"),
        piece("", "1}"),
        piece("g", "{\"b\""),
        piece("", ":2}"),
        DONE.into(),
    ];
    let two = said(&pieces.each_ref().map(String::as_str)).await.unwrap();
    let two: Vec<_> = two.tool_calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(two, [("f", "{\"a\":1}"), ("g", "{\"b\":2}")]);
    // A reason that says nothing is no end.
    let unended = said(&[&begun, &end("")]).await.unwrap_err();
    assert!(matches!(unended, ModelError::Network { .. }), "{unended}");
    let refused = said(&[&delta(&json!({ "refusal": "I will not." })), &end("stop")]).await.unwrap();
    assert_eq!(refused.content.as_deref(), Some("I will not."));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({ "model": "m", "choices": [{ "message": { "content": "all at once" } }] });
    let (answer, told) = ask_about(Said::json(200, &whole)).await;
    assert_eq!(
        (answer.unwrap().content.as_deref(), told),
        (Some("all at once"), vec!["all at once".to_owned()])
    );
    let (answer, _) =
        ask_about(Said::json(401, &json!({ "error": { "message": "no: very-secret-key" } }))).await;
    let error = answer.unwrap_err();
    assert!(
        matches!(error, ModelError::Unauthorized { .. }) && !error.to_string().contains("very"),
        "{error}"
    );
    // One that knows no `stream_options` is asked without.
    let refusal = json!({ "error": { "message": "stream_options: extra inputs are not permitted" } });
    let (url, asked) = server(vec![Said::json(422, &refusal), Said::events(&rich())]).await;
    assert_eq!(ask(&client(&url)).await.0, Ok(rich_answer()));
    assert_eq!(asked.lock().unwrap()[1].body.get("stream_options"), None);
}

#[tokio::test]
async fn a_flood_and_a_silence_have_limits() {
    let flood: Vec<String> = (0..200).map(|_| delta(&json!({ "content": "x".repeat(1000) }))).collect();
    let (url, _) = server(vec![Said::events(&flood)]).await;
    let http = HttpClient::builder().max_body(50_000).build().unwrap();
    let error = ask(&client(&url).http(http)).await.0.unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { .. }), "{error}");
    // The limit is for what is kept, and not for what is written around it; of an event that never ends, all is kept.
    let mut words: Vec<String> = (0..1_000).map(|_| delta(&json!({ "content": "word " }))).collect();
    words.push(DONE.into());
    assert!(words.concat().len() > 50_000);
    let http = HttpClient::builder().max_body(50_000).build().unwrap();
    let (url, _) = server(vec![Said::events(&words)]).await;
    let (answer, _) = ask(&client(&url).http(http.clone())).await;
    assert_eq!(answer.unwrap().content.map(|text| text.len()), Some(5_000));
    // What a call holds is kept as well, whatever it is.
    let call = |index: u64, function: &Value| {
        delta(&json!({ "tool_calls": [{ "index": index, "function": function }] }))
    };
    let arguments: Vec<_> = (0..100).map(|_| json!({ "a": "x".repeat(10) })).collect();
    let floods: [Vec<String>; 3] = [
        (0..100).map(|index| call(index, &json!({ "name": "x".repeat(1_000) }))).collect(),
        (0..100).map(|index| call(index, &json!({ "name": "f", "arguments": arguments }))).collect(),
        (0..2_000).map(|index| call(index, &json!({ "name": "f" }))).collect(),
    ];
    for mut flood in floods {
        flood.push(DONE.into());
        let (url, _) = server(vec![Said::events(&flood)]).await;
        let error = ask(&client(&url).http(http.clone())).await.0.unwrap_err();
        assert!(matches!(error, ModelError::TooLarge { .. }), "{error}");
    }
    let endless = vec!["x".repeat(1_000); 200];
    let (url, _) = server(vec![Said::events(&[&["data: ".to_owned()][..], &endless[..]].concat())]).await;
    let error = ask(&client(&url).http(http)).await.0.unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { .. }), "{error}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 8 << 10]).await.unwrap() > 0);
        let head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(format!("{head}{}", delta(&json!({ "content": "so" }))).as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let (answer, told) = ask(&client(&url).timeout(Duration::from_millis(300))).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ModelError::Timeout { .. }), "{error}");
    assert_eq!(told, ["so"]);
}

const AT_ONCE: Retry = Retry { delay: Duration::from_millis(1), ..Retry::times(4) };

workflow!(Told(cx, question: String) -> String {
    cx.llm("tell").user(question).retry(AT_ONCE).stream("reply").text().await.map_err(Failure::from)
});

workflow!(Once(cx, question: String) -> String {
    let asked = cx.llm("tell").user(question).max_tokens(50).retry(Retry { max_retries: 0, ..AT_ONCE });
    asked.stream("reply").text().await.map_err(Failure::from)
});

workflow!(InTurn(cx, question: String) -> String {
    let asked = cx.llm("tell").model("large").or("small").user(question).retry(Retry { max_retries: 0, ..AT_ONCE });
    asked.stream("reply").text().await.map_err(Failure::from)
});

workflow!(Repaired(cx, question: String) -> Vec<u32> {
    cx.llm("tell").user(question).repair(2).stream("reply").json().await.map_err(Failure::from)
});

step!(
    /// Look something up.
    look_up(_cx, word: String) -> String, StepOptions::of(EffectClass::Read), { Ok(format!("{word}: found")) }
);

workflow!(Agent(cx, question: String) -> String {
    let tool = Tool::of::<look_up>(ToolSchema::new().field::<String>("word", "a text"));
    let report = cx.agent("help").tools(tool).stream("reply").run(question).await.map_err(Failure::from)?;
    Ok(report.answer)
});

/// Every state of the text that a reader saw, and the last one.
async fn read<W>(run: &RunHandle<W>) -> (Vec<String>, String) {
    let (mut states, mut text) = (Vec::new(), run.stream::<String>("reply").text());
    while let Some(state) = text.next().await.unwrap() {
        states.push(state);
    }
    let last = states.last().cloned().unwrap_or_default();
    (states, last)
}

/// An answer in pieces.
fn spoken(pieces: &[&str]) -> Said {
    let deltas = pieces.iter().map(|piece| delta(&json!({ "content": piece })));
    Said::events(&deltas.chain([end("stop"), DONE.to_owned()]).collect::<Vec<_>>())
}

#[tokio::test]
async fn the_stream_of_a_run_is_the_recorded_answer_wherever_attempts_are_cut_off() {
    let whole = spoken(&["One ", "two ", "three."]);
    let mut said: Vec<Said> = (1..=4).map(|pieces| whole.cut(pieces)).collect();
    said.push(whole);
    let (url, _) = server(said).await;
    let store = MemoryStore::new();
    let engine = builder(&store).model(client(&url)).start().await.unwrap();
    let run = engine.start::<Told>("Count.".to_owned()).id("a").await.unwrap();
    let live = read(&run).await;
    assert_eq!(run.result().await.unwrap(), "One two three.");
    assert_eq!(live.1, "One two three.");
    assert!(live.0.iter().all(|state| "One two three.".starts_with(state.as_str())), "{live:?}");
    assert_eq!(read(&run).await.1, "One two three.");
    // What is recorded is what is recorded without a stream.
    let recorded = recorded_text(&store, run.id()).await;
    assert!(!recorded.contains("reply") && !recorded.contains("\"One \""), "{recorded}");
    kit::verify(&engine, run.id()).await;
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_breaks_off_in_its_reasoning_counts_with_what_was_reserved() {
    let broken = data(&json!({ "error": { "type": "server_error", "message": "gone" } }));
    let role = delta(&json!({ "role": "assistant", "content": null, "refusal": null }));
    let reasons = delta(&json!({ "reasoning_content": "hm" }));
    for (events, spent) in [(vec![role.clone(), broken.clone()], 0), (vec![role, reasons, broken], 68)] {
        let (url, _) = server(vec![Said::events(&events)]).await;
        let engine = builder(&MemoryStore::new()).model(client(&url)).start().await.unwrap();
        let budget = Budget::new().named("run").tokens(10_000);
        let run = engine.start::<Once>("Count.".to_owned()).budget(budget).await.unwrap();
        run.result().await.unwrap_err();
        let budgets = engine.view(run.id()).await.unwrap().budgets();
        assert_eq!(budgets[0].spent.tokens, spent, "{budgets:?}");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_model_that_failed_and_an_answer_that_was_sent_back_leave_nothing() {
    let (url, asked) = server(vec![spoken(&["lar", "ge"]).cut(2), spoken(&["sma", "ll"])]).await;
    let store = MemoryStore::new();
    let engine = builder(&store).model(client(&url)).start().await.unwrap();
    let run = engine.start::<InTurn>("Who?".to_owned()).id("a").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "small");
    assert_eq!(read(&run).await.1, "small");
    assert_eq!(asked.lock().unwrap()[1].body["model"], "small");
    engine.shutdown().await.unwrap();

    let (url, _) = server(vec![spoken(&["no ", "JSON"]), spoken(&["[1,", "2]"])]).await;
    let store = MemoryStore::new();
    let engine = builder(&store).model(client(&url)).start().await.unwrap();
    let run = engine.start::<Repaired>("Numbers?".to_owned()).id("a").await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2]);
    assert_eq!(read(&run).await.1, "[1,2]");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_streams_its_final_answer() {
    let looking =
        ChatResponse { content: Some("Let me see. ".into()), ..calls(&[("look_up", "{\"word\":\"key\"}")]) };
    let model = Script::new([looking, says("It is found.")]);
    let store = MemoryStore::new();
    let engine = builder(&store).model(model).start().await.unwrap();
    let run = engine.start::<Agent>("Where is it?".to_owned()).id("a").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "It is found.");
    assert_eq!(read(&run).await.1, "It is found.");
    let mut events = run.stream::<String>("reply");
    let mut committed = 0;
    while let Some(event) = events.next().await.unwrap() {
        committed += usize::from(matches!(event, StreamEvent::Committed { .. }));
    }
    assert_eq!(committed, 1, "the answer that counts");
    assert_eq!(store.open_streams(run.id()).await, Ok(Vec::new()));
    engine.shutdown().await.unwrap();
}
