//! The workflows of these tests, and engines that run them.

use std::time::Duration;

use aether::error::RunError;
use aether::mcp::{Contract, InputAnswer, Mcp, Server, TaskEnd, ToolList};
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How long a server that hangs is waited for: longer than a slow machine takes to be answered by one that does not.
pub(crate) const SHORT: Duration = Duration::from_millis(2_500);

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Became {
    Answered(String),
    Failed(String),
    InDoubt(String),
}

/// How the call is declared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Declared {
    Not,
    Read,
    Idempotent,
    Keyed,
    Short,
    /// The program answers what the tool asks.
    Answering,
    /// A person has a moment to answer.
    Expiring,
    /// A task has a moment.
    ShortTask,
    ReadTask,
}

impl Declared {
    fn contract(self) -> Contract {
        match self {
            Self::Not => Contract::default(),
            Self::Read => Contract::read().retry(Retry::times(1)),
            Self::Idempotent => Contract::tool().idempotent(),
            Self::Keyed => Contract::tool().key_argument("request_id"),
            Self::Short => Contract::tool().timeout(SHORT),
            Self::Answering => Contract::tool().answered_by(|asked| {
                let form = asked.schema.is_some();
                Some(if form { InputAnswer::accept(&json!({ "amount": 7 })) } else { InputAnswer::Decline })
            }),
            Self::Expiring => Contract::tool().input_expires(Duration::from_millis(50)),
            Self::ShortTask => Contract::tool().task_timeout(Duration::from_millis(1_500)),
            Self::ReadTask => Contract::read().task_timeout(Duration::from_millis(1_500)),
        }
    }
}

/// Pays once.
#[workflow]
pub(crate) async fn pay(cx: &mut Cx, declared: Declared) -> Result<Became> {
    let contract = declared.contract();
    let answer = cx.mcp("bank").tool("pay").args(&json!({ "to": "ann" })).contract(contract).call().await;
    Ok(match answer {
        Ok(result) => Became::Answered(result.text()),
        Err(StepError::InDoubt(failure)) => Became::InDoubt(format!("{:?} {failure}", TaskEnd::of(&failure))),
        Err(error) => Became::Failed(error.to_string()),
    })
}

/// Pays several times, and says what became of each.
#[workflow]
pub(crate) async fn pay_often(cx: &mut Cx, declared: Declared, times: u32) -> Result<Vec<Became>> {
    let mut became = Vec::new();
    for _ in 0..times {
        became.push(pay(cx, declared).await?);
    }
    Ok(became)
}

/// Pays within a budget of one call and a moment.
#[workflow]
pub(crate) async fn pay_within(cx: &mut Cx, declared: Declared) -> Result<Became> {
    let budget = Budget::new().calls(1).time(Duration::from_millis(300));
    pay(cx.budget(budget), declared).await
}

/// Pays once, and says twice that it is not to be done again.
#[workflow]
pub(crate) async fn pay_for_good(cx: &mut Cx, declared: Declared) -> Result<[Became; 2]> {
    Ok([pay(cx.irreversible(), declared).await?, pay(cx.irreversible(), declared).await?])
}

/// Pays under a limit on steps.
#[workflow]
pub(crate) async fn pay_limited(cx: &mut Cx) -> Result<String> {
    Ok(cx.limit("bank").mcp("bank").tool("pay").call().await?.text())
}

/// Pays, and fails afterwards.
#[workflow]
pub(crate) async fn pay_and_fail(cx: &mut Cx) -> Result<()> {
    cx.mcp("bank").tool("pay").call().await?;
    Err(Failure::permanent("afterwards"))
}

/// Calls a tool of the process.
#[workflow]
pub(crate) async fn ask_process(cx: &mut Cx, tool: String) -> Result<String> {
    Ok(cx.mcp("process").tool(tool).call().await?.error_if_failed()?.text())
}

/// Reads the tools, and calls each with what the server says about it.
#[workflow]
pub(crate) async fn call_all(cx: &mut Cx) -> Result<ToolList> {
    let list = cx.mcp("bank").tools().await?;
    for tool in &list.tools {
        cx.mcp("bank").tool(&tool.name).contract(Contract::trusting(&tool.hints)).call().await?;
    }
    Ok(list)
}

pub(crate) fn bank(server: Server) -> Mcp {
    Mcp::new().server("bank", server)
}

/// Answers every question of the run until it ends, and says what became of it.
pub(crate) async fn answered(engine: &Engine, declared: Declared, answer: &InputAnswer) -> Became {
    let run = engine.start::<pay>(declared).id("r").await.unwrap();
    let id = run.id().clone();
    let people = async {
        loop {
            for wait in engine.pending(&id).await.unwrap() {
                if wait.waiting == Waiting::Question {
                    // It may have been answered by the time the answer comes.
                    let _late = engine.answer(&id, &wait, answer, "ann").await;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        became = run.result() => became.unwrap(),
        () = people => unreachable!(),
    }
}

pub(crate) async fn engine(store: &MemoryStore, mcp: Mcp) -> Engine {
    Engine::builder().store(std::sync::Arc::new(store.clone())).provide(mcp).start().await.unwrap()
}

/// Pays, and says what became of it.
pub(crate) async fn paid(engine: &Engine, declared: Declared) -> Became {
    let run = engine.start::<pay>(declared).id("r").await.unwrap();
    let became: Result<Became, RunError<Failure>> = run.result().await;
    became.unwrap()
}

/// The journal and the ledger of a run as text.
pub(crate) async fn recorded_text(store: &MemoryStore, run: &aether::id::RunId) -> String {
    let frames = store.load(run, 0).await.unwrap();
    let journal: String = frames.iter().map(|frame| frame.text.to_string()).collect();
    format!("{journal}{:?}", store.entries(run).await.unwrap())
}
