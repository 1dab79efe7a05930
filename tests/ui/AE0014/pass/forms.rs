#![deny(warnings)]

use aether::prelude::*;

use std::path::Path;

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Ticket(u32);

#[step(effect = "read")]
async fn fetch(
    cx: &mut StepCx,
    text: &str,
    bytes: &[u8],
    path: &Path,
    ticket: &Ticket,
    note: Option<&str>,
    other: Option<&Ticket>,
    owned: Vec<Ticket>,
) -> Result<()> {
    let _ = (cx, text, bytes, path, ticket, note, other, owned);
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx, ticket: &Ticket, note: Option<&str>) -> Result<()> {
    fetch(cx, "a", &[1], Path::new("b"), ticket, note, Some(ticket), vec![ticket.clone()]).await?;
    Ok(())
}

#[workflow]
async fn outer(cx: &mut Cx, ticket: Ticket) -> Result<()> {
    flow(cx, &ticket, None).await
}

fn main() {}
