//! Defaults of members that a recorded input does not hold, each a constant
//! how: clean

use aether::prelude::*;

#[derive(serde::Deserialize)]
pub struct OldOrder {
    item: u64,
}

#[aether::accepts(OldOrder)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Order {
    item: u64,
    #[serde(default)]
    labels: std::collections::HashMap<String, String>,
    #[serde(default = "everywhere")]
    region: String,
    opened: Option<jiff::Timestamp>,
}

fn everywhere() -> String {
    "everywhere".into()
}

impl From<OldOrder> for Order {
    fn from(old: OldOrder) -> Self {
        Self { item: old.item, labels: Default::default(), region: everywhere(), opened: None }
    }
}

#[workflow]
pub async fn constant_default_of_an_input(cx: &mut Cx, order: Order) -> Result<String> {
    let opened = match order.opened {
        Some(opened) => opened,
        None => cx.now().await,
    };
    Ok(format!("{} {} {opened}", order.item, order.region))
}
