//! Tools of a server that an agent works with: recorded, prefixed, called as their contracts say.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aether::agent::AgentReport;
use aether::error::RunError;
use aether::llm::{ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, Models, ToolCall};
use aether::mcp::{Contract, Mcp, McpToolbox, Server};
use aether::people::{Pending, Waiting};
use aether::prelude::*;
use aether::store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http_server::{Age, HttpServer, Manner, tool};
use crate::kit::bank;

/// A model with prepared answers.
#[derive(Clone, Debug)]
struct Script(Arc<Mutex<(VecDeque<ChatResponse>, Vec<ChatRequest>)>>);

impl Script {
    fn new(answers: impl IntoIterator<Item = ChatResponse>) -> Self {
        Self(Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new()))))
    }

    fn asked(&self) -> Vec<ChatRequest> {
        self.0.lock().unwrap().1.clone()
    }
}

impl ModelClient for Script {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        let mut script = self.0.lock().unwrap();
        script.1.push(request);
        let answer = script.0.pop_front().ok_or_else(|| ModelError::Setup("the script is at its end".into()));
        Box::pin(std::future::ready(answer))
    }
}

fn says(text: &str) -> ChatResponse {
    ChatResponse { content: Some(text.into()), ..ChatResponse::default() }
}

fn calls(name: &str, arguments: &Value) -> ChatResponse {
    let call = ToolCall { id: "c1".into(), name: name.into(), arguments: arguments.to_string() };
    ChatResponse { tool_calls: vec![call], ..ChatResponse::default() }
}

/// How the agent gets the tools.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum With {
    Plain,
    Trusted,
    Approval,
    LargeApproval,
    ApprovedRead,
}

#[derive(Deserialize)]
struct Pay {
    cents: u64,
}

/// An agent with the tools of the bank.
#[workflow]
async fn help(cx: &mut Cx, with: With) -> Result<AgentReport> {
    let plain = McpToolbox::of("bank");
    let toolbox = match with {
        With::Plain => plain,
        With::Trusted => plain.trust_annotations(),
        With::Approval => plain.contract("pay", Contract::tool().needs_approval()),
        With::ApprovedRead => plain.contract("pay", Contract::read().needs_approval()),
        With::LargeApproval => {
            let large =
                |args: &aether::effect::Payload| args.decode::<Pay>().map_or(true, |it| it.cents > 100);
            plain.contract("pay", Contract::tool().needs_approval_when(large))
        }
    };
    Ok(cx.agent("helper").toolbox(&toolbox).run("pay").await?)
}

struct Bench {
    server: HttpServer,
    store: MemoryStore,
    engine: Engine,
    script: Script,
}

async fn bench(answers: impl IntoIterator<Item = ChatResponse>) -> Bench {
    let server = HttpServer::start(Age::Newer).await;
    *server.state.tools.lock().unwrap() =
        vec![tool("pay", json!({})), tool("balance", json!({ "readOnlyHint": true }))];
    let (store, script) = (MemoryStore::new(), Script::new(answers));
    let engine = start(&server, &store, &script).await;
    Bench { server, store, engine, script }
}

async fn start(server: &HttpServer, store: &MemoryStore, script: &Script) -> Engine {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let builder = Engine::builder().store(store).provide(bank(Server::http(&server.url)));
    builder.provide(Models::new(script.clone())).start().await.unwrap()
}

/// What the tools answered.
fn told(report: &AgentReport) -> Vec<String> {
    let content = report.transcript.iter().filter_map(|message| match message {
        ChatMessage::Tool { content, .. } => Some(content.clone()),
        _ => None,
    });
    content.collect()
}

#[tokio::test]
async fn the_tools_of_a_server_are_offered_sorted_and_prefixed_and_called_once() {
    let bench = bench([calls("bank__pay", &json!({ "to": "ann" })), says("done")]).await;
    let run = bench.engine.start::<help>(With::Plain).id("r").await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((report.answer.as_str(), told(&report)), ("done", vec!["paid".to_owned()]));
    let names: Vec<_> = bench.script.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["bank__balance", "bank__pay"]);
    assert_eq!(bench.script.asked()[0].tools[1].description, "Pays somebody.");
    assert_eq!(bench.server.state.executed.lock().unwrap()[0]["arguments"], json!({ "to": "ann" }));
    assert_eq!(bench.store.entries(run.id()).await.unwrap().len(), 1);
    let (requests, asked) = (bench.server.requests(), bench.script.asked().len());
    let verified = bench.engine.verify(run.id()).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
    assert_eq!((bench.server.requests(), bench.script.asked().len()), (requests, asked));
}

#[tokio::test]
async fn a_lost_answer_ends_the_agent_and_is_not_called_again() {
    let bench = bench([calls("bank__pay", &json!({})), says("never asked")]).await;
    bench.server.behave(Manner::Error(-32000));
    let run = bench.engine.start::<help>(With::Plain).id("r").await.unwrap();
    let ended = run.result().await;
    assert!(
        matches!(&ended, Err(RunError::Failed(why)) if why.to_string().contains("not known")),
        "{ended:?}"
    );
    assert_eq!((bench.server.executed(), bench.script.asked().len()), (1, 1));
}

#[tokio::test]
async fn what_the_server_says_counts_only_where_it_is_believed() {
    for (with, calls_made, rows) in [(With::Plain, 1, 1), (With::Trusted, 2, 0)] {
        let bench = bench([calls("bank__balance", &json!({})), says("done")]).await;
        bench.server.behave(Manner::Says("429 Too Many Requests"));
        let run = bench.engine.start::<help>(with).id("r").await.unwrap();
        while bench.server.asked("tools/call") < calls_made {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        bench.server.behave(Manner::Answers);
        let report = run.result().await.unwrap();
        let told = told(&report);
        assert_eq!(told[0] == "paid", rows == 0, "{with:?}: {told:?}");
        assert_eq!(bench.store.entries(run.id()).await.unwrap().len(), rows, "{with:?}");
    }
}

#[tokio::test]
async fn a_person_agrees_first_always_or_where_the_arguments_say_so() {
    for (with, cents, asks) in
        [(With::Approval, 1, true), (With::LargeApproval, 1, false), (With::LargeApproval, 101, true)]
    {
        let bench = bench([calls("bank__pay", &json!({ "cents": cents })), says("done")]).await;
        let run = bench.engine.start::<help>(with).id("r").await.unwrap();
        if asks {
            let wait = approval(&bench.engine, run.id()).await;
            assert_eq!(bench.server.executed(), 0);
            bench.engine.reject(run.id(), &wait, "too much", "ann").await.unwrap();
        }
        let told = told(&run.result().await.unwrap());
        assert_eq!(told[0].contains("too much"), asks, "{with:?} {cents}: {told:?}");
        assert_eq!(bench.server.executed(), usize::from(!asks));
    }
}

#[tokio::test]
async fn a_server_that_renames_its_tools_in_mid_run_is_no_divergence() {
    let pay = || calls("bank__pay", &json!({}));
    let bench = bench([pay(), pay(), says("done")]).await;
    bench.server.behave(Manner::Hangs);
    let first = bench.engine.start::<help>(With::Trusted).id("r").await.unwrap();
    while bench.server.executed() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop((first, bench.engine));
    // The call is in doubt, which an operator resolves; see below for one that is not.
    *bench.server.state.tools.lock().unwrap() = vec![tool("transfer", json!({}))];
    bench.server.behave(Manner::Error(-32602));
    let engine = start(&bench.server, &bench.store, &bench.script).await;
    let run = engine.handle::<help>("r").await.unwrap();
    let ended = run.result().await;
    assert!(
        matches!(&ended, Err(RunError::Failed(why)) if why.to_string().contains("not known")),
        "{ended:?}"
    );
    assert_eq!(bench.server.executed(), 1);
    engine.verify(run.id()).await.unwrap();

    // An agent whose call changes nothing is told that the tool is gone.
    let bench = self::bench([pay(), pay(), says("done")]).await;
    let run = bench.engine.start::<help>(With::ApprovedRead).id("r").await.unwrap();
    let first = approval(&bench.engine, run.id()).await;
    bench.engine.approve(run.id(), &first, "ann").await.unwrap();
    let second = loop {
        let wait = approval(&bench.engine, run.id()).await;
        if wait.command != first.command {
            break wait;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    *bench.server.state.tools.lock().unwrap() = vec![tool("transfer", json!({}))];
    bench.server.behave(Manner::Error(-32602));
    bench.engine.approve(run.id(), &second, "ann").await.unwrap();
    let told = told(&run.result().await.unwrap());
    assert!(told[0] == "paid" && told[1].contains("refused"), "{told:?}");
    assert_eq!(bench.server.asked("tools/list"), 1, "the list is the recorded one");
    bench.engine.verify(run.id()).await.unwrap();
}

/// The approval that the run waits for.
async fn approval(engine: &Engine, run: &aether::id::RunId) -> Pending {
    loop {
        let pending = engine.pending(run).await.unwrap();
        if let Some(wait) = pending.into_iter().find(|wait| wait.waiting == Waiting::Approval) {
            return wait;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// An agent with the tools of two servers that a model cannot tell apart.
#[workflow]
async fn help_by_two(cx: &mut Cx) -> Result<AgentReport> {
    let (one, other) = (McpToolbox::of("a.b"), McpToolbox::of("a_b"));
    Ok(cx.agent("helper").toolbox(&one).toolbox(&other).run("pay").await?)
}

#[tokio::test]
async fn two_servers_whose_tools_get_one_name_are_both_named() {
    let server = HttpServer::start(Age::Newer).await;
    let script = Script::new([says("never asked")]);
    let mcp = Mcp::new().server("a.b", Server::http(&server.url)).server("a_b", Server::http(&server.url));
    let engine = Engine::builder().memory().provide(mcp).provide(Models::new(script.clone()));
    let engine = engine.start().await.unwrap();
    let ended = engine.start::<help_by_two>(()).id("r").await.unwrap().result().await;
    let Err(RunError::Failed(why)) = ended else { panic!("{ended:?}") };
    let why = why.to_string();
    let words = ["`a_b__pay`", "MCP server `a.b`", "MCP server `a_b`", "another name"];
    assert!(words.iter().all(|word| why.contains(word)), "{why}");
    assert!(script.asked().is_empty());
}
