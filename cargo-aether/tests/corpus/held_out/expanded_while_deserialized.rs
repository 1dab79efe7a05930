//! A variable in a text, expanded by a function that serde calls
//! how: env

use aether::prelude::*;

#[derive(serde::Deserialize)]
struct Target {
    #[serde(deserialize_with = "expanded")]
    folder: String,
}

fn expanded<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    let text: String = serde::Deserialize::deserialize(from)?;
    let home = std::env::var_os("HOME").unwrap_or_default();
    Ok(text.replace("$HOME", &home.to_string_lossy()))
}

fn look() -> String {
    let target: Target = serde_json::from_str(r#"{"folder":"$HOME/out"}"#).unwrap();
    target.folder
}

#[workflow]
pub async fn expanded_while_deserialized(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
