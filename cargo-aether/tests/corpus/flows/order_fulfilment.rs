//! An order is reserved, charged and shipped, and undone where a later step fails
//! how: clean

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    sku: String,
    quantity: u32,
    unit_price: Decimal,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    id: String,
    customer: String,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Fulfilled {
    receipt: String,
    tracking: String,
    total: Decimal,
}

impl Order {
    fn total(&self) -> Decimal {
        self.lines
            .iter()
            .map(|line| line.unit_price * Decimal::from(line.quantity))
            .sum::<Decimal>()
            .round_dp(2)
    }

    fn validate(&self) -> Result<()> {
        if self.lines.is_empty() {
            return Err(Failure::permanent(format!("order {} has no lines", self.id)));
        }
        match self.lines.iter().find(|line| line.quantity == 0) {
            Some(line) => Err(Failure::permanent(format!("{} of none", line.sku))),
            None => Ok(()),
        }
    }
}

#[step(effect = "tool", compensate = order_fulfilment_release)]
pub async fn order_fulfilment_reserve(_cx: &mut StepCx, sku: &str, quantity: u32) -> Result<String> {
    Ok(format!("{sku}x{quantity}"))
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn order_fulfilment_release(
    _cx: &mut StepCx,
    _sku: &str,
    _quantity: u32,
    _held: Option<&str>,
) -> Result<()> {
    Ok(())
}

#[step(effect = "tool", irreversible, key = |order| order)]
pub async fn order_fulfilment_charge(cx: &mut StepCx, order: &str, total: Decimal) -> Result<String> {
    Ok(format!("{order}:{total}:{}", cx.idempotency_key()))
}

#[step(effect = "tool", idempotent, retry(max_retries = 3))]
pub async fn order_fulfilment_ship(_cx: &mut StepCx, order: &str) -> Result<String> {
    Ok(format!("parcel of {order}"))
}

#[workflow]
pub async fn order_fulfilment(cx: &mut Cx, order: Order) -> Result<Fulfilled> {
    order.validate()?;
    for line in &order.lines {
        order_fulfilment_reserve(cx, &line.sku, line.quantity).await?;
    }
    let total = order.total();
    let receipt = order_fulfilment_charge(cx, &order.id, total).await?;
    tracing::info!(order = order.id, %total, "charged");
    let tracking = order_fulfilment_ship(cx, &order.id).await?;
    Ok(Fulfilled { receipt, tracking, total })
}
