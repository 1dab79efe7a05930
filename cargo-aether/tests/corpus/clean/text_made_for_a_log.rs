//! A text that is made for a line of a log in the line itself
//! how: clean

use std::collections::{HashMap, HashSet};

use aether::id::RunId;
use aether::prelude::*;

fn logged(count: u64) -> usize {
    let prices: HashMap<u64, u64> = (0..count).map(|n| (n, n * n)).collect();
    let ids: HashSet<RunId> = (0..count).filter_map(|n| RunId::new(format!("run-{n}")).ok()).collect();
    tracing::info!(note = %format!("{prices:?}"), "{ids:?}");
    tracing::debug!("{}", format!("{prices:?}"));
    prices.len() + ids.len()
}

#[workflow]
pub async fn text_made_for_a_log(cx: &mut Cx, _input: u64) -> Result<u64> {
    let count = cx.random().await % 5 + 5;
    Ok(logged(count) as u64)
}
