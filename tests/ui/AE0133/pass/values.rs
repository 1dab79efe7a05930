#![deny(warnings)]

use std::collections::BTreeMap;

use aether::prelude::*;

#[workflow]
async fn work(_cx: &mut Cx, mut queue: Vec<u32>, names: BTreeMap<u32, String>) -> Result<u32> {
    let job = queue.pop();
    let total = 1;
    tracing::info!(?job, total = total, "dropped");
    tracing::info!(job = names.get(&1).cloned().unwrap_or_default(), "of {}", queue.len());
    tracing::debug!(first = ?queue.iter().take(2).next(), all = ?queue.clone().pop());
    tracing::debug!("sorted: {:?}", {
        let mut sorted = queue.clone();
        sorted.sort();
        sorted
    });
    tracing::info!("{}", names.values().map(|name| name.replace('a', "b")).collect::<String>());
    debug_assert!(queue.iter().any(|job| *job == 0) || !queue.contains(&0));
    assert!(queue.pop().is_none());
    Ok(queue.iter().sum())
}

fn main() {}
