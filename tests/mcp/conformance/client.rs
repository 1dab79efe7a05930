//! The client that the suite tests: a run that lists the tools of the suite's server and calls them.

use std::time::Duration;

use aether::mcp::{Contract, InputAnswer, Mcp, Server, ToolList, ToolResult};
use aether::prelude::*;
use serde_json::{Value, json};

/// Where the suite says which scenario it is, and what is to be called in it.
const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

/// The suite waits for a client without end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The arguments for a tool of the suite.
fn arguments(tool: &str, tools: &ToolList) -> Value {
    match tool {
        "add_numbers" => json!({ "a": 5, "b": 3 }),
        "json_schema_echo" => {
            let seen = tools.get("json_schema_2020_12_tool").map(|tool| tool.schema.clone());
            json!({ "schema": seen })
        }
        _ => json!({}),
    }
}

/// List the tools of the server and call these, or each of them once.
#[workflow]
async fn visit(cx: &mut Cx, calls: Option<Vec<(String, Value)>>) -> Result<Vec<ToolResult>> {
    let tools = cx.mcp("suite").tools().await?;
    let each = || tools.tools.iter().map(|tool| (tool.name.clone(), arguments(&tool.name, &tools))).collect();
    let mut results = Vec::new();
    for (tool, arguments) in calls.unwrap_or_else(each) {
        let contract =
            Contract::tool().answered_by(|_| Some(InputAnswer::accept(&json!({ "confirmed": true }))));
        results.push(cx.mcp("suite").tool(&tool).args(&arguments).contract(contract).call().await?);
    }
    Ok(results)
}

/// What the scenario wants to be called; `None` for every tool.
fn calls(scenario: &str) -> Option<Vec<(String, Value)>> {
    // Its server has tools, and no calls of them.
    if scenario == "json-schema-ref-no-deref" {
        return Some(Vec::new());
    }
    let context: Value = serde_json::from_str(&std::env::var(CONTEXT).ok()?).unwrap();
    let call = |call: &Value| (call["name"].as_str().unwrap().to_owned(), call["arguments"].clone());
    Some(context["toolCalls"].as_array()?.iter().map(call).collect())
}

/// The process that the suite starts, with the URL of its server as last argument; without a scenario there is nothing to
/// do.
#[tokio::test]
async fn the_client_that_is_tested() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let url = std::env::args().next_back().unwrap();
    let server = match scenario.as_str() {
        // Their servers are older and answer every question with an empty result, also what they speak.
        "initialize" | "sse-retry" => Server::http(url).older_protocol(),
        _ => Server::http(url),
    };
    let mcp = Mcp::new().server("suite", server);
    let engine = Engine::builder().memory().provide(mcp).start().await.unwrap();
    let run = engine.start::<visit>(calls(&scenario)).id("r").await.unwrap();
    let result = tokio::time::timeout(PATIENCE, run.result()).await.expect("it ends");
    println!("{:?}", result.unwrap());
    let verified = engine.verify(run.id()).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
}
