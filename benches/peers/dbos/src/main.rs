//! The chain on dbos: a Postgres URL, with the settings that dbos chooses itself.

#[path = "../../lanes.rs"]
mod lanes;

use dbos::{Config, DBOS, RunOptions};
use serde_json::json;

async fn chain(steps: u32) -> dbos::Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length +=
            dbos::step("send", || async move { dbos::Result::Ok(lanes::result_of(number)) }).await?.len();
    }
    Ok(length)
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let asked = lanes::Chain::parse()?;
    let told = |error: dbos::Error| error.to_string();
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    let dbos = DBOS::new(Config { app_version: version, ..Config::new("chain", &asked.at) });
    let workflow = dbos.register_workflow("chain", chain).map_err(told)?;
    dbos.launch().await.map_err(told)?;
    let steps = asked.steps;
    let one = move |id: String| {
        let workflow = workflow.clone();
        async move {
            let options = RunOptions { workflow_id: Some(&id), ..RunOptions::default() };
            workflow.run_with(steps, options).await.map_err(told)
        }
    };
    asked.measure(one, json!({ "peer": "dbos 0.5.0" })).await?;
    dbos.shutdown().await;
    Ok(())
}
