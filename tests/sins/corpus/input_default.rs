//! A random default of a member that the recorded input does not hold
//! how: indirect

use aether::prelude::*;
use uuid::Uuid;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Order {
    item: u64,
    #[serde(skip, default = "Uuid::new_v4")]
    trace: Uuid,
}

#[workflow]
pub async fn pack_order(cx: &mut Cx, order: Order) -> Result<String> {
    let weight = cx.random().await % 10 + order.item;
    Ok(format!("{weight} {}", order.trace))
}

#[workflow]
pub async fn input_default(cx: &mut Cx, _input: u64) -> Result<String> {
    let order = Order { item: _input, trace: Uuid::nil() };
    Ok(cx.child::<pack_order>(order).await?)
}
