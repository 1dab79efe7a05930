//! A provider and tools behind one HTTP server, an agent of rig that uses them, and workflows that prompt it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::prelude::*;
use aether::rig::rig_agent::core::providers::openai::{OpenAIConfig, Route};
use aether::rig::rig_agent::core::tool::{Tool, ToolContext, ToolExecutionError};
use aether::rig::rig_agent::{Agent, AgentBuilder};
use aether::rig::{Contract, IdempotencyKey, RigAgents};
use aether::store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wiremock::matchers::{method, path, path_regex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// How long anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// What the server was asked for, by its own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Questions to the model, by their number in the conversation.
    pub(crate) questions: BTreeMap<usize, usize>,
    /// Calls of tools, with the keys they came under.
    pub(crate) tools: BTreeMap<String, Vec<String>>,
}

impl Asked {
    pub(crate) fn questions(&self) -> usize {
        self.questions.values().sum()
    }

    pub(crate) fn calls(&self, tool: &str) -> usize {
        self.tools.get(tool).map_or(0, Vec::len)
    }

    /// Calls of each tool.
    pub(crate) fn counts(&self) -> (BTreeMap<usize, usize>, BTreeMap<String, usize>) {
        let tools = self.tools.iter().map(|(tool, keys)| (tool.clone(), keys.len())).collect();
        (self.questions.clone(), tools)
    }
}

/// What the model says to the question of this number, counted by the model's own answers before it.
pub(crate) type Script = Arc<dyn Fn(usize, &Value) -> Value + Send + Sync>;

/// A provider and tools.
pub(crate) struct World {
    pub(crate) server: MockServer,
    pub(crate) asked: Arc<Mutex<Asked>>,
}

impl World {
    /// Tools that answer at once.
    pub(crate) async fn start(script: Script) -> Self {
        Self::with_tools(script, |_| ResponseTemplate::new(200)).await
    }

    /// Tools whose answers `answer` makes; the body is always the same for one call.
    pub(crate) async fn with_tools(
        script: Script,
        answer: impl Fn(&str) -> ResponseTemplate + Send + Sync + 'static,
    ) -> Self {
        let server = MockServer::start().await;
        let asked = Arc::new(Mutex::new(Asked::default()));
        let model = Model { script, asked: Arc::clone(&asked) };
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(model)
            .mount(&server)
            .await;
        let tools = Tools { asked: Arc::clone(&asked), answer: Box::new(answer) };
        Mock::given(method("POST")).and(path_regex("^/tools/")).respond_with(tools).mount(&server).await;
        Self { server, asked }
    }

    pub(crate) fn url(&self) -> String {
        self.server.uri()
    }

    pub(crate) fn asked(&self) -> Asked {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn agent(&self) -> Agent {
        agent(&self.url())
    }

    pub(crate) fn agents(&self) -> RigAgents {
        RigAgents::new().with("support", self.agent()).unwrap()
    }
}

struct Model {
    script: Script,
    asked: Arc<Mutex<Asked>>,
}

impl Respond for Model {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let question: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = question["messages"].as_array().unwrap();
        let number = messages.iter().filter(|message| message["role"] == "assistant").count();
        *self.asked.lock().unwrap().questions.entry(number).or_default() += 1;
        ResponseTemplate::new(200).set_body_json((self.script)(number, &question))
    }
}

struct Tools {
    asked: Arc<Mutex<Asked>>,
    answer: Box<dyn Fn(&str) -> ResponseTemplate + Send + Sync>,
}

impl Respond for Tools {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let tool = request.url.path().trim_start_matches("/tools/").to_owned();
        let key = request.headers.get("idempotency-key").map_or("", |key| key.to_str().unwrap()).to_owned();
        self.asked.lock().unwrap().tools.entry(tool.clone()).or_default().push(key);
        let said: Value = serde_json::from_slice(&request.body).unwrap();
        (self.answer)(&tool).set_body_json(json!({ "tool": tool, "about": said["about"] }))
    }
}

/// An answer in the provider's format.
pub(crate) fn answer(content: Option<&str>, calls: &[(&str, &str, &str)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        })
        .collect();
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls);
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "small",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    })
}

/// What the last results of tools say.
pub(crate) fn results(question: &Value) -> Vec<String> {
    let messages = question["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].to_string()).collect()
}

/// Two reads and a note, a refund, and an answer.
pub(crate) fn support() -> Script {
    Arc::new(|number, question| match number {
        0 => answer(
            Some("Let me look."),
            &[("c1", "search", r#"{"about":"parcel"}"#), ("c2", "note", r#"{"about":"asked"}"#)],
        ),
        1 => answer(None, &[("c3", "search", r#"{"about":"order"}"#), ("c4", "refund", r#"{"about":"7"}"#)]),
        _ => answer(Some(&format!("done after {} results", results(question).len())), &[]),
    })
}

#[derive(Clone)]
pub(crate) struct Remote<const NUMBER: usize> {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
}

#[derive(Deserialize)]
pub(crate) struct About {
    about: String,
}

macro_rules! tools {
    ($($number:literal $name:literal)+) => {$(
        impl Tool for Remote<$number> {
            const NAME: &'static str = $name;
            type Args = About;
            type Output = Value;
            type Error = ToolExecutionError;

            fn description(&self) -> String {
                concat!("It is called ", $name, ".").into()
            }

            fn parameters(&self) -> Value {
                json!({ "type": "object", "properties": { "about": { "type": "string" } }, "required": ["about"] })
            }

            async fn call(&self, cx: &mut ToolContext, args: About) -> std::result::Result<Value, ToolExecutionError> {
                let key = cx.get::<IdempotencyKey>().ok().flatten().map_or(String::new(), |key| key.0);
                let url = format!("{}/tools/{}", self.url, $name);
                let request = self.http.post(url).header("idempotency-key", key);
                let request = request.body(json!({ "about": args.about }).to_string());
                // A library of its own kind: its errors say nothing but what their source is.
                let sent = request.send().await.and_then(reqwest::Response::error_for_status);
                let answer = sent.map_err(ToolExecutionError::from_error)?;
                let text = answer.text().await.map_err(ToolExecutionError::from_error)?;
                serde_json::from_str(&text).map_err(ToolExecutionError::from_error)
            }
        }
    )+};
}

tools! { 0 "search" 1 "note" 2 "refund" }

/// An agent with three tools, as a program that knows nothing of Aether builds it.
pub(crate) fn agent(url: &str) -> Agent {
    builder(url).build()
}

pub(crate) fn builder(url: &str) -> AgentBuilder<aether::rig::rig_agent::agent::WithBuilderTools> {
    with_cryptography();
    let http = reqwest::Client::builder().timeout(Duration::from_millis(2_500)).build().unwrap();
    let remote = |url: &str| (url.to_owned(), http.clone());
    let ((a, x), (b, y), (c, z)) = (remote(url), remote(url), remote(url));
    AgentBuilder::new(model(url))
        .preamble("You answer complaints.")
        .temperature(0.2)
        .tool(Remote::<0> { url: a, http: x })
        .tool(Remote::<1> { url: b, http: y })
        .tool(Remote::<2> { url: c, http: z })
        .default_max_turns(6)
}

/// Clients here speak no TLS, and want a provider of it.
fn with_cryptography() {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn model(
    url: &str,
) -> aether::rig::rig_agent::core::DynModel<aether::rig::rig_agent::core::operation::Completion> {
    with_cryptography();
    let config = OpenAIConfig::new("a key").with_route(Route::Chat).with_base_url(format!("{url}/v1"));
    config.connect(rig_reqwest::ReqwestClient::default()).completion("small").into()
}

/// How the tools that change something are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Declared {
    Not,
    Idempotent,
}

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Became {
    Answered(String),
    InDoubt(String),
    Failed(String),
}

/// Handle a complaint.
#[workflow]
pub(crate) async fn complaint(cx: &mut Cx, declared: Declared) -> Result<Became> {
    let mut prompt = cx.rig("support").contract("search", Contract::read());
    if declared == Declared::Idempotent {
        let idempotent = Contract::tool().idempotent();
        prompt = prompt.contract("note", idempotent).contract("refund", idempotent);
    }
    Ok(match prompt.prompt("My parcel is lost.").await {
        Ok(answer) => Became::Answered(answer.output()),
        Err(StepError::InDoubt(failure)) => Became::InDoubt(failure.to_string()),
        Err(error) => Became::Failed(error.to_string()),
    })
}

pub(crate) async fn engine(store: &Arc<dyn Store>, agents: RigAgents) -> Engine {
    let soon = Duration::from_millis(20);
    Engine::builder()
        .store(Arc::clone(store))
        .provide(agents)
        .lease(Duration::from_millis(200))
        .poll_interval(soon)
        .start()
        .await
        .unwrap()
}

/// Runs a complaint to its end.
pub(crate) async fn complain(engine: &Engine, declared: Declared) -> Became {
    let run = in_time(engine.start::<complaint>(declared).id("r").into_future()).await.unwrap();
    in_time(run.result()).await.unwrap()
}
