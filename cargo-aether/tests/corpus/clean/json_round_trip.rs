//! A document that goes through JSON and back
//! how: clean

use std::collections::BTreeMap;

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Change {
    Renamed { from: String, to: String },
    Moved { shelf: u16 },
    Noted(BTreeMap<String, Value>),
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(leaves).sum(),
        Value::Object(fields) => fields.values().map(leaves).sum(),
        _ => 1,
    }
}

fn round_trip(changes: &[Change]) -> serde_json::Result<String> {
    let text = serde_json::to_string(changes)?;
    let back: Vec<Change> = serde_json::from_str(&text)?;
    let value: Value = serde_json::from_str(&text)?;
    Ok(format!("{text} {} {}", back == changes, leaves(&value)))
}

#[workflow]
pub async fn json_round_trip(cx: &mut Cx, _input: u64) -> Result<String> {
    let shelf = cx.random().await as u16;
    let notes =
        BTreeMap::from([("b".to_owned(), json!([1, 2.5, null])), ("a".to_owned(), json!({ "deep": true }))]);
    let changes =
        [Change::Moved { shelf }, Change::Renamed { from: "x".into(), to: "y".into() }, Change::Noted(notes)];
    Ok(round_trip(&changes)?)
}
