//! The wall clock as the default of a field that the text leaves out
//! how: clock

use aether::prelude::*;

#[derive(serde::Deserialize)]
struct Order {
    item: String,
    #[serde(default = "chrono::Utc::now")]
    placed: chrono::DateTime<chrono::Utc>,
}

fn parse(text: &str) -> String {
    let order: Order = serde_json::from_str(text).unwrap();
    format!("{} at {}", order.item, order.placed)
}

#[workflow]
pub async fn serde_default_now(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(parse(r#"{"item":"lamp"}"#))
}
