//! The workflow of both builds, over the types of the module around it.

use aether::prelude::*;

use super::{Receipt, Ticket, receipt, ticket};
use crate::seeds::kit::Calls;

/// What the program is configured with.
pub(crate) type Rules = Receipt;

/// Look up what it costs.
#[step(effect = "read")]
async fn shape_price(cx: &mut StepCx, ticket: &Ticket) -> Result<Receipt> {
    Calls::note(cx)?;
    Ok(receipt(ticket.id() * 100))
}

/// Charge it.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = shape_refund, approval = "required")]
async fn shape_charge(cx: &mut StepCx, ticket: Ticket, to: &str) -> Result<Receipt> {
    Calls::note(cx)?;
    Ok(receipt(ticket.id() * 100 + u32::try_from(to.len())?))
}

/// Pay it back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn shape_refund(
    cx: &mut StepCx,
    _ticket: Ticket,
    _to: String,
    receipt: Option<Receipt>,
) -> Result<Receipt> {
    Calls::note(cx)?;
    Ok(receipt.unwrap_or(super::receipt(0)))
}

/// Write it down.
#[step(effect = "transaction")]
async fn shape_book(cx: &mut StepCx, receipt: Receipt) -> Result<Receipt> {
    Calls::note(cx)?;
    Ok(receipt)
}

/// Send it.
#[workflow]
pub(crate) async fn shape_parcel(cx: &mut Cx, ticket: Ticket) -> Result<Receipt> {
    cx.now().await;
    Ok(receipt(ticket.id()))
}

/// One of every command that records data.
#[workflow]
pub(crate) async fn shape_order(cx: &mut Cx, ticket: Ticket) -> Result<Vec<u32>> {
    let price = shape_price(cx, &ticket).await?;
    let rules: Rules = cx.config().await?;
    let plan: Vec<Ticket> = cx
        .plan("lines", async |cx: &mut Cx| {
            let cents = shape_price(cx, &super::ticket(7)).await?.cents();
            Ok::<_, Failure>(vec![super::ticket(cents)])
        })
        .await?;
    let charged = shape_charge(cx, ticket.clone(), "ann").await?;
    let booked = shape_book(cx, charged.clone()).await?;
    let parcel = cx.child::<shape_parcel>(ticket.clone()).await?;
    let started = cx.start_child::<shape_parcel>(ticket).await?;
    let second = started.result(cx).await?;
    let answer: Receipt = cx.ask("how much").await?;
    let paid: Receipt = cx.signal("paid").await?;
    let left = cx.compensate().await.len();
    let all = [&price, &rules, &charged, &booked, &parcel, &second, &answer, &paid].map(Receipt::cents);
    let left = u32::try_from(left)?;
    Ok(all.into_iter().chain([plan[0].id(), left, ticket_again(7)]).collect())
}

/// Continue as new, once.
#[workflow]
pub(crate) async fn shape_renewed(cx: &mut Cx, ticket: Ticket) -> Result<u32> {
    if ticket.id() == 0 {
        return Ok(cx.signal("go").await?);
    }
    cx.continue_as_new::<shape_renewed>(super::ticket(0)).await
}

fn ticket_again(id: u32) -> u32 {
    ticket(id).id()
}
