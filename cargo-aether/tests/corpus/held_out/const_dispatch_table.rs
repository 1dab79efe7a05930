//! Functions in a constant table, of which one reads the clock
//! how: clock

use aether::prelude::*;

type Field = fn(&str) -> String;

const FIELDS: [(&str, Field); 3] = [
    ("name", |order| order.to_uppercase()),
    ("length", |order| order.len().to_string()),
    ("printed", |_| chrono::Utc::now().to_rfc3339()),
];

fn render(order: &str) -> String {
    FIELDS.iter().map(|(name, field)| format!("{name}={}", field(order))).collect::<Vec<_>>().join(" ")
}

#[workflow]
pub async fn const_dispatch_table(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(render("order-7"))
}
