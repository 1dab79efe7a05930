//! A map of outcomes of steps that becomes JSON
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn told(count: u64) -> String {
    let failed: HashMap<u64, Failure> = (0..count).map(|n| (n, Failure::permanent("no"))).collect();
    serde_json::to_string(&failed).unwrap_or_default()
}

#[workflow]
pub async fn json_of_outcomes(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(told(count))
}
