//! The wall clock where an input that an older build recorded becomes one of today
//! how: clock

use aether::prelude::*;

#[derive(serde::Deserialize)]
pub struct OldOrder {
    item: u64,
}

#[aether::accepts(OldOrder)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Order {
    item: u64,
    opened: jiff::Timestamp,
}

impl From<OldOrder> for Order {
    fn from(old: OldOrder) -> Self {
        Self { item: old.item, opened: jiff::Timestamp::now() }
    }
}

#[workflow]
pub async fn former_input_opened_now(cx: &mut Cx, order: Order) -> Result<String> {
    let weight = cx.random().await % 10 + order.item;
    Ok(format!("{weight} {}", order.opened))
}
