#![deny(warnings)]

use aether::prelude::*;
use serde::{Deserialize, Serialize};

/// State that travels as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    id: u64,
    paid: bool,
}

#[workflow]
impl Order {
    /// `Self` as argument and result.
    pub async fn settle(cx: &mut Cx, order: Self, patient: bool) -> Result<Self> {
        let mut order = order;
        while !order.paid {
            order = Self::pay(cx, &order).await?;
            if !patient {
                break;
            }
        }
        Ok(order)
    }

    /// Pays.
    #[step(effect = "tool", key = |order| order.id, retry(max_retries = 3))]
    pub async fn pay(cx: &mut StepCx, order: &Self) -> Result<Self> {
        let _ = cx;
        Ok(Self { paid: true, ..order.clone() })
    }
}

#[workflow]
async fn outer(cx: &mut Cx, id: u64) -> Result<Order> {
    let order = Order::settle(cx, Order { id, paid: false }, true).await?;
    Ok(cx.child::<Order_settle>((order, false)).await?)
}

fn main() {}
