//! A program in which a credential of its own comes up in every place that one can come from.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::Secret;
use aether::http::{CxHttp, StepHttp};
use aether::llm::{ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, ToolCall};
use aether::mcp::{Contract, Mcp, Server};
use aether::prelude::*;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// Where credentials come up: in the first places, as a program or a server says them; in the last ones, as people do.
pub(super) const PLACES: &[&str] = &[
    "run input",
    "step argument",
    "step result",
    "step error",
    "source of an error",
    "step panic",
    "business key",
    "store-wide key",
    "large argument",
    "large result",
    "stream item",
    "progress",
    "resource",
    "external name",
    "version",
    "etag",
    "probe",
    "transaction",
    "compensated argument",
    "plan",
    "http header",
    "http query",
    "http body",
    "http answer",
    "http answer header",
    "http refusal",
    "http of a workflow",
    "prompt",
    "system prompt",
    "model answer",
    "arguments of a tool",
    "mcp argument",
    "mcp answer",
    "mcp error",
    "child input",
    "child panic",
    "carried input",
    "run error",
    "signal",
    "unread signal",
    "question",
    "answer",
    "approval",
    "approval details",
    "approved argument",
    "callback",
    "refusal of a person",
    "reason of a cancel",
    "scheduled input",
    "gathered input",
    "replaced answer",
];

/// What nobody writes down, redacted or not.
pub(super) const NEVER: &[&str] =
    &["bearer", "password in a url", "key of a model", "bearer of a tool server"];

/// A credential with what URLs and JSON write in another way.
pub(super) fn credential(place: &str) -> String {
    format!("sk/{}+\"7f\"=", place.replace(' ', "_"))
}

/// What bodies need.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) server: String,
    pub(super) tokens: Arc<Mutex<Vec<String>>>,
}

/// More than stands in a journal.
const LARGE: usize = 70_000;

/// Says it in most ways.
#[step(effect = "read", heartbeat = "5m")]
async fn cre_say(cx: &mut StepCx, said: String) -> Result<String> {
    cx.stream("told").send(&credential("stream item"));
    cx.heartbeat(credential("progress"));
    let base = cx.dep::<Desk>()?.server.replace("http://", "http://ann:PASSWORD@");
    let base = base.replace("PASSWORD", &encoded(&credential("password in a url")));
    let url = format!("{base}/echo?for={}", encoded(&credential("http query")));
    let request = cx.http().post(url).bearer(&Secret::from(credential("bearer")));
    let request = request.header("x-request-id", credential("http header"));
    let answer = request.json(&json!({ "said": credential("http body") })).send().await?;
    Ok(format!("{} {said} {}", credential("step result"), answer.text()))
}

/// As a form does.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Is refused by a server.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn cre_refused(cx: &mut StepCx) -> Result<String> {
    let base = cx.dep::<Desk>()?.server.clone();
    Ok(cx.http().get(format!("{base}/refuses")).send().await?.error_for_status()?.text())
}

/// Fails.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn cre_fail(cx: &mut StepCx) -> Result<u32> {
    let _cx = cx;
    let source = std::io::Error::other(credential("source of an error"));
    Err(Failure::from(source).context(credential("step error")))
}

/// Panics.
#[step(effect = "read", retry(max_retries = 0))]
async fn cre_panic(cx: &mut StepCx) -> Result<u32> {
    let _cx = cx;
    panic!("{}", credential("step panic"))
}

/// Does something once in a run.
#[step(effect = "tool", irreversible, on_unknown = "probe", probe = cre_happened, key = |what| what)]
async fn cre_once(cx: &mut StepCx, what: String) -> Result<String> {
    let _what = what;
    let changed =
        cx.changed("file", &credential("resource"), "write").external_ref(credential("external name"));
    changed.version(credential("version")).etag(credential("etag"));
    Ok("done".to_owned())
}

/// Does something once in the store.
#[step(effect = "tool", irreversible, on_unknown = "probe", probe = cre_happened, scope = "store", key = |what| what)]
async fn cre_once_in_store(cx: &mut StepCx, what: String) -> Result<String> {
    let _both = (cx, what);
    Ok("done".to_owned())
}

async fn cre_happened(cx: &mut StepCx, what: String) -> Result<Probe<String>> {
    let _both = (cx, what);
    Ok(Probe::Happened("done".to_owned()))
}

/// Nobody knows whether it happened.
#[step(effect = "tool", on_unknown = "probe", probe = cre_look)]
async fn cre_unknown(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Err(Failure::unknown("the line went dead"))
}

async fn cre_look(cx: &mut StepCx) -> Result<Probe<String>> {
    let _cx = cx;
    Ok(Probe::Happened(credential("probe")))
}

/// Much.
#[step(effect = "read")]
async fn cre_much(cx: &mut StepCx, much: String) -> Result<String> {
    let _cx = cx;
    Ok(format!("{}{}", credential("large result"), "y".repeat(much.len())))
}

/// In the transaction of the store.
#[step(effect = "transaction")]
async fn cre_transact(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Ok(credential("transaction"))
}

/// Takes an order back.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn cre_take_back(cx: &mut StepCx, order: String, receipt: Option<String>) -> Result<()> {
    let _all = (cx, order, receipt);
    Ok(())
}

/// Orders something.
#[step(effect = "tool", on_unknown = "retry", idempotent, compensate = cre_take_back)]
async fn cre_order(cx: &mut StepCx, order: String) -> Result<String> {
    let _both = (cx, order);
    Ok("ordered".to_owned())
}

/// A tool of an agent.
#[step(effect = "read")]
async fn cre_search(cx: &mut StepCx, query: String) -> Result<String> {
    let _cx = cx;
    Ok(format!("{} letters", query.len()))
}

/// Needs somebody's consent.
#[step(effect = "tool", on_unknown = "retry", idempotent, approval = "required")]
async fn cre_approved(cx: &mut StepCx, what: String) -> Result<usize> {
    let _cx = cx;
    Ok(what.len())
}

/// Somebody else does it.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn cre_elsewhere(cx: &mut StepCx) -> Result<String> {
    let callback = cx.callback()?;
    cx.dep::<Desk>()?.tokens.lock().unwrap().push(callback.token().to_owned());
    Err(callback.pending().into())
}

/// Orders, panics, and takes the order back.
#[workflow]
async fn cre_child(cx: &mut Cx, input: String) -> Result<u32> {
    cre_order(cx, credential("compensated argument")).await?;
    panic!("{} {input}", credential("child panic"))
}

/// Waits for ever.
#[workflow]
pub(super) async fn cre_wait(cx: &mut Cx, input: String) -> Result<String> {
    let word: String = cx.signal("never").await?;
    Ok(input + &word)
}

/// Everything in one input.
#[workflow]
pub(super) async fn cre_many(cx: &mut Cx, inputs: Vec<String>) -> Result<usize> {
    let _cx = cx;
    Ok(inputs.len())
}

/// Only plans.
#[workflow]
pub(super) async fn cre_plan(cx: &mut Cx) -> Result<String> {
    let plan = cx.plan("route", async |_: &mut Cx| Ok::<_, Failure>(credential("plan"))).await?;
    cx.sleep(Duration::from_millis(1)).await;
    Ok(plan)
}

/// Everything.
#[workflow]
pub(super) async fn cre_all(cx: &mut Cx, input: (String, String)) -> Result<String> {
    let (said, base) = input;
    let mut seen = vec![said];
    seen.push(cre_say(cx, credential("step argument")).await?);
    seen.push(cre_refused(cx).await.unwrap_err().to_string());
    seen.push(cre_fail(cx).await.unwrap_err().to_string());
    seen.push(cre_panic(cx).await.unwrap_err().to_string());
    seen.push(cre_once(cx, credential("business key")).await?);
    seen.push(cre_once_in_store(cx, credential("store-wide key")).await?);
    seen.push(cre_unknown(cx).await?);
    let much = format!("{}{}", credential("large argument"), "x".repeat(LARGE));
    seen.push(cre_much(cx, much).await?.len().to_string());
    seen.push(cre_transact(cx).await?);
    let asked = cx.llm("plan").model("m").system(credential("system prompt")).user(credential("prompt"));
    seen.push(asked.text().await?);
    let agent = cx.agent("agent").tools((cre_search::tool(),));
    seen.push(agent.run("search".to_owned()).await?.answer);
    for tool in ["answers", "refuses"] {
        let call = cx.mcp("bank").tool(tool).args(&json!({ "to": credential("mcp argument") }));
        seen.push(format!("{:?}", call.contract(Contract::read().retry(Retry::times(0))).call().await));
    }
    let sent = cx.http().post(format!("{base}/echo")).json(&credential("http of a workflow")).send().await?;
    seen.push(sent.text());
    seen.push(cx.child::<cre_child>(credential("child input")).await.unwrap_err().to_string());
    seen.push(cre_elsewhere(cx).await?);
    seen.push(cx.signal::<String>("word").await?);
    seen.push(cx.ask(credential("question")).named("question").await?);
    seen.push(cre_approved(cx, credential("approval")).await?.to_string());
    let decided = cx.approval("refused").details(&credential("approval details")).await?;
    seen.push(format!("{decided:?}"));
    cx.continue_as_new::<cre_renewed>((credential("carried input"), seen.join("\n"))).await
}

/// The generation after that.
#[workflow]
async fn cre_renewed(cx: &mut Cx, parts: (String, String)) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Err(Failure::permanent(format!("{} {} {}", credential("run error"), parts.0, parts.1)))
}

/// Calls a tool first, and answers when it is told what came of that.
#[derive(Debug)]
pub(super) struct Model;

impl ModelClient for Model {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        let asks = !request.tools.is_empty() && request.messages.len() < 3;
        let call = |()| ToolCall {
            id: "1".into(),
            name: "cre_search".into(),
            arguments: json!({ "query": credential("arguments of a tool") }).to_string(),
        };
        let response = ChatResponse {
            model: "m".into(),
            content: (!asks).then(|| credential("model answer")),
            tool_calls: asks.then_some(()).map(call).into_iter().collect(),
            ..ChatResponse::default()
        };
        Box::pin(std::future::ready(Ok(response)))
    }
}

pub(super) fn tool_server(base: &str) -> Mcp {
    let bearer = Secret::from(credential("bearer of a tool server"));
    Mcp::new().server("bank", Server::http(format!("{base}/mcp")).older_protocol().bearer(bearer))
}

/// A web service and a server of tools.
pub(super) async fn world() -> MockServer {
    let server = MockServer::start().await;
    let echo = |request: &Request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        ResponseTemplate::new(200)
            .insert_header("x-request-id", credential("http answer header"))
            .set_body_string(format!("{body} {}", credential("http answer")))
    };
    Mock::given(method("POST")).and(path("/echo")).respond_with(echo).mount(&server).await;
    let refusal = ResponseTemplate::new(503).set_body_string(credential("http refusal"));
    Mock::given(method("GET")).and(path("/refuses")).respond_with(refusal).mount(&server).await;
    Mock::given(method("POST")).and(path("/mcp")).respond_with(speaks_mcp).mount(&server).await;
    server
}

fn speaks_mcp(request: &Request) -> ResponseTemplate {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let answer = match (asked["method"].as_str().unwrap(), asked["params"]["name"].as_str()) {
        ("initialize", _) => json!({ "result": {
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "bank", "version": "1" },
        } }),
        ("tools/call", Some("answers")) => {
            json!({ "result": { "content": [{ "type": "text", "text": credential("mcp answer") }] } })
        }
        ("tools/call", _) => json!({ "error": { "code": -32602, "message": credential("mcp error") } }),
        _ => return ResponseTemplate::new(202),
    };
    let mut whole = json!({ "jsonrpc": "2.0", "id": asked["id"] });
    whole.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    ResponseTemplate::new(200).set_body_json(whole)
}
