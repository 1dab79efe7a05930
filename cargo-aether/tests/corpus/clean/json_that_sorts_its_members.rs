//! Hash maps that become objects of `serde_json`, which sorts their members
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;
use serde_json::{Map, Value, json};

fn limits(of: u64) -> HashMap<String, u64> {
    ["calls", "tokens", "turns"].iter().map(|name| ((*name).to_owned(), of)).collect()
}

fn object(of: u64) -> Value {
    let upper: Map<String, Value> =
        limits(of).into_iter().map(|(name, limit)| (name.to_uppercase(), limit.into())).collect();
    json!({ "limits": limits(of), "upper": upper })
}

#[workflow]
pub async fn json_that_sorts_its_members(cx: &mut Cx, _input: u64) -> Result<String> {
    let limit = cx.random().await % 9;
    let all = serde_json::to_value(limits(limit))?;
    Ok(format!("{} {all}", object(limit)))
}
