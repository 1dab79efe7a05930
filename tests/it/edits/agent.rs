//! The agent that the edits change.

use std::time::Duration;

use aether::prelude::*;
use edits_kit::{Customer, Order, called};

/// Looks a customer up.
#[step(effect = "read")]
async fn customer(_cx: &mut StepCx, name: &str) -> Result<Customer> {
    Ok(Customer { name: name.to_owned(), solvent: name != "eve" })
}

/// Counts what is in stock.
#[step(effect = "read")]
async fn stock(_cx: &mut StepCx, item: &str) -> Result<u32> {
    Ok(item.len() as u32)
}

/// Reserves pieces.
#[step(effect = "tool", compensate = free)]
async fn reserve(cx: &mut StepCx, item: &str, pieces: u32) -> Result<String> {
    called(cx, "reserve", (item, pieces));
    Ok(format!("{pieces} {item}"))
}

/// Frees what was reserved.
#[step(effect = "tool")]
async fn free(cx: &mut StepCx, item: &str, pieces: u32, reserved: Option<&str>) -> Result<()> {
    called(cx, "free", (item, pieces, reserved));
    Ok(())
}

/// Takes the money.
#[step(effect = "tool", idempotent, retry(max_retries = 2))]
async fn charge(cx: &mut StepCx, who: &str, cents: u64) -> Result<String> {
    called(cx, "charge", (who, cents));
    if who == "eve" {
        return Err(Failure::permanent("the card is refused"));
    }
    Ok(format!("{who} paid {cents}"))
}

/// Packs an item.
#[step(effect = "tool")]
async fn pack(cx: &mut StepCx, item: &str) -> Result<String> {
    called(cx, "pack", item);
    Ok(format!("box of {item}"))
}

/// Tells the customer.
#[step(effect = "tool")]
async fn tell(cx: &mut StepCx, text: &str) -> Result<()> {
    called(cx, "tell", text);
    Ok(())
}

/// What something costs.
fn price(items: &[String]) -> u64 {
    items.iter().map(|item| item.len() as u64 * 100).sum()
}

/// Sends one parcel, as a run of its own.
#[workflow]
async fn parcel(cx: &mut Cx, item: String) -> Result<String> {
    let boxed = pack(cx, &item).await?;
    cx.sleep(Duration::from_millis(5)).await;
    Ok(format!("{boxed} is on its way"))
}

/// Whether a person agrees in time.
#[workflow]
async fn consent(cx: &mut Cx, cents: u64, patience: u64) -> Result<bool> {
    let agreed = cx
        .race((
            async |cx: &mut Cx| -> Result<bool> {
                Ok(cx.approval("large order").named("consent").details(&cents).await?.is_approved())
            },
            async |cx: &mut Cx| -> Result<bool> {
                cx.sleep(Duration::from_millis(patience)).await;
                Ok(false)
            },
        ))
        .await?;
    Ok(agreed)
}

/// Handles an order.
#[workflow]
async fn order(cx: &mut Cx, order: Order) -> Result<String> {
    // Both are needed.
    let name = order.customer.clone();
    let items = order.items.clone();
    let (who, stocks) = cx
        .join((
            async |cx: &mut Cx| customer(cx, &name).await,
            async |cx: &mut Cx| -> Result<u32> {
                let mut all = 0;
                for item in &items {
                    all += stock(cx, item).await?;
                }
                Ok(all)
            },
        ))
        .await;
    let (who, stocks) = (who?, stocks?);
    let reserved = cx
        .each(order.items.clone(), async |cx: &mut Cx, item| reserve(cx, &item, 1).await)
        .limit(2)
        .await;
    for piece in reserved {
        let _piece = piece?;
    }
    let cents = price(&order.items);
    if !consent(cx, cents, order.patience).await? {
        let _undone = cx.compensate().await;
        tell(cx, "it took too long").await?;
        return Ok("nobody agreed".to_owned());
    }
    let receipt = charge(cx, &who.name, cents).await?;
    let sent = cx.child::<parcel>(order.items[0].clone()).await?;
    let word: String = cx.signal("delivered").await?;
    cx.sleep(Duration::from_millis(5)).await;
    tell(cx, &format!("{receipt}: {sent}")).await?;
    Ok(format!("{receipt}, {stocks} in stock, {word}"))
}

fn main() {
    edits_kit::program::<order>();
}
