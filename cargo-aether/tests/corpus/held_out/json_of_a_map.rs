//! A map that is written as JSON
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

#[derive(serde::Serialize)]
struct Mail {
    to: String,
    headers: HashMap<&'static str, u32>,
}

fn body() -> String {
    let headers = [("x-try", 1), ("x-order", 7), ("x-part", 2), ("x-size", 9), ("x-lane", 4)].into();
    serde_json::to_string(&Mail { to: "Ada".to_owned(), headers }).unwrap_or_default()
}

#[step(effect = "read")]
pub async fn json_of_a_map_send(cx: &mut StepCx, body: &str) -> Result<u64> {
    Ok(body.len() as u64)
}

#[workflow]
pub async fn json_of_a_map(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(json_of_a_map_send(cx, &body()).await?.to_string())
}
