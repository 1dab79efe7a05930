//! A set of tasks, of which those that are done are collected
//! how: spawn

use aether::prelude::*;
use tokio::task::JoinSet;

fn finished(count: u64) -> Vec<u64> {
    let mut tasks: JoinSet<u64> = (0..count).map(|number| async move { number * number }).collect();
    std::thread::yield_now();
    let mut done = Vec::new();
    while let Some(Ok(square)) = tasks.try_join_next() {
        done.push(square);
    }
    done
}

#[workflow]
pub async fn set_of_tasks(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", finished(8)))
}
