//! The chain on duroxide: a `sqlite:` URL of a file that exists, with the settings that duroxide chooses itself.

#[path = "../../lanes.rs"]
mod lanes;

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(300);

async fn send(_ctx: ActivityContext, number: u32) -> Result<String, String> {
    Ok(lanes::result_of(number))
}

async fn chain(ctx: OrchestrationContext, steps: u32) -> Result<usize, String> {
    let mut length = 0;
    for number in 0..steps {
        length += ctx.schedule_activity_typed::<u32, String>("send", &number).await?.len();
    }
    Ok(length)
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let asked = lanes::Chain::parse()?;
    let store = Arc::new(SqliteProvider::new(&asked.at, None).await.map_err(|e| e.to_string())?);
    let activities = ActivityRegistry::builder().register_typed("send", send).build();
    let chains = OrchestrationRegistry::builder().register_typed("chain", chain).build();
    let runtime = Runtime::start_with_store(store.clone(), activities, chains).await;
    let client = Arc::new(Client::new(store));
    let steps = asked.steps;
    let one = move |id: String| {
        let client = Arc::clone(&client);
        async move {
            client.start_orchestration_typed(&id, "chain", steps).await.map_err(|e| format!("{e:?}"))?;
            let done = client.wait_for_orchestration_typed::<usize>(&id, PATIENCE).await;
            done.map_err(|e| format!("{e:?}"))?
        }
    };
    // It asks for `synchronous=WAL`, which SQLite takes for NORMAL.
    asked.measure(one, json!({ "peer": "duroxide 0.1.32", "store": "SQLite, synchronous=NORMAL" })).await?;
    runtime.shutdown(None).await;
    Ok(())
}
