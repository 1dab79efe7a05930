//! The number of the runtime's workers and tasks
//! how: thread_local

use aether::prelude::*;
use tokio::runtime::Handle;

struct Load {
    workers: usize,
    tasks: usize,
}

fn load() -> Option<Load> {
    let metrics = Handle::try_current().ok()?.metrics();
    Some(Load { workers: metrics.num_workers(), tasks: metrics.num_alive_tasks() })
}

#[workflow]
pub async fn workers_of_the_runtime(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(load().map_or_else(String::new, |load| format!("{}/{}", load.tasks, load.workers)))
}
