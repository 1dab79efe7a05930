//! The workflows of these tests, and engines that run them.

use std::time::Duration;

use aether::error::RunError;
use aether::mcp::{Contract, Mcp, Server, ToolList};
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
}

impl Declared {
    fn contract(self) -> Contract {
        match self {
            Self::Not => Contract::default(),
            Self::Read => Contract::read().retry(Retry::times(1)),
            Self::Idempotent => Contract::tool().idempotent(),
            Self::Keyed => Contract::tool().key_argument("request_id"),
            Self::Short => Contract::tool().timeout(SHORT),
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
        Err(StepError::InDoubt(failure)) => Became::InDoubt(failure.to_string()),
        Err(error) => Became::Failed(error.to_string()),
    })
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
