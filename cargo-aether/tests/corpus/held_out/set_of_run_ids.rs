//! The `Debug` of a set of ids of the engine
//! how: hash

use std::collections::HashSet;

use aether::id::RunId;
use aether::prelude::*;

fn shown(count: u64) -> String {
    let ids: HashSet<RunId> = (0..count).filter_map(|n| RunId::new(format!("run-{n}")).ok()).collect();
    format!("{ids:?}")
}

#[workflow]
pub async fn set_of_run_ids(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(shown(count))
}
