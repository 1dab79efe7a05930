//! What the workflows ask of the world.

use aether::prelude::*;
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use support_types::{Team, Ticket};

/// Search for articles of the manual.
#[step(effect = "read")]
pub async fn article(cx: &mut StepCx, query: &str) -> Result<String> {
    let reply = cx.http().get("https://manual.example/search").query(&[("q", query)]).send().await?;
    Ok(reply.error_for_status()?.text().to_owned())
}

/// What a customer wrote before.
#[step(effect = "read")]
pub async fn past_tickets(_cx: &mut StepCx, customer: &str) -> Result<Vec<String>> {
    Ok(vec![format!("nothing of {customer}")])
}

#[step(effect = "read")]
pub async fn solved_tickets(cx: &mut StepCx, team: Team) -> Result<Vec<Ticket>> {
    let reply = cx.http().get(format!("https://desk.example/solved/{team:?}")).send().await?;
    Ok(reply.error_for_status()?.json()?)
}

#[step(effect = "read")]
pub async fn tickets_of_week(cx: &mut StepCx, until: DateTime<Utc>) -> Result<Vec<Ticket>> {
    let reply = cx.http().get(format!("https://desk.example/weeks/{}", until.date_naive())).send().await?;
    Ok(reply.error_for_status()?.json()?)
}

#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 5))]
pub async fn send_mail(cx: &mut StepCx, to: &str, subject: &str, text: &str) -> Result<()> {
    let mail = serde_json::json!({ "to": to, "subject": subject, "text": text });
    cx.http().post("https://mail.example/").json(&mail).send().await?.error_for_status()?;
    Ok(())
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn page_team(_cx: &mut StepCx, team: Team, ticket: u64) -> Result<()> {
    tracing::info!(?team, ticket, "paged");
    Ok(())
}

#[step(effect = "tool", compensate = remove_credit, approval = |amount| *amount > Decimal::ONE_HUNDRED)]
pub async fn add_credit(_cx: &mut StepCx, customer: &str, amount: Decimal) -> Result<u64> {
    tracing::info!(customer, %amount, "a credit");
    Ok(customer.len() as u64)
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn remove_credit(
    _cx: &mut StepCx,
    customer: &str,
    amount: Decimal,
    row: Option<u64>,
) -> Result<()> {
    tracing::info!(customer, %amount, ?row, "a credit is removed");
    Ok(())
}
