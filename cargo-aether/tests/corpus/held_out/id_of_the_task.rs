//! The id of the runtime's task
//! how: thread_local

use aether::prelude::*;

fn task() -> String {
    tokio::task::try_id().map_or_else(|| "none".to_owned(), |id| id.to_string())
}

#[workflow]
pub async fn id_of_the_task(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(task())
}
