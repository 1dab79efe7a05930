//! What the workflows ask of the world.

use aether::prelude::*;
use jiff::civil::Date;
use loans_rules::score::Score;
use loans_types::{AccountNumber, Application, ApplicationId, Booking, Loan, Money};

/// What a credit bureau knows of a person: points to be added.
#[step(effect = "read", retry(patience = "30m"))]
pub async fn bureau_points(cx: &mut StepCx, name: &str, born: Date) -> Result<i32> {
    let born = born.to_string();
    let query = [("name", name), ("born", born.as_str())];
    let reply = cx.http().get("https://bureau.example/points").query(&query).send().await?;
    Ok(reply.error_for_status()?.json()?)
}

#[step(effect = "tool", irreversible, scope = "store", key = |application| application.to_string(), on_unknown = "ask")]
pub async fn pay_out(
    cx: &mut StepCx,
    application: ApplicationId,
    to: &AccountNumber,
    amount: Money,
) -> Result<String> {
    tracing::info!(%application, to = to.masked(), %amount, "paying out");
    Ok(cx.idempotency_key().to_string())
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn write_to(_cx: &mut StepCx, email: &str, text: &str) -> Result<()> {
    tracing::debug!(email, text, "a letter");
    Ok(())
}

#[step(effect = "tool", compensate = forget_decision)]
pub async fn store_decision(_cx: &mut StepCx, application: &Application, score: &Score) -> Result<u64> {
    tracing::info!(application = %application.id, points = score.total(), "decided");
    Ok(application.id.0)
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn forget_decision(
    _cx: &mut StepCx,
    _application: &Application,
    _score: &Score,
    _row: Option<u64>,
) -> Result<()> {
    Ok(())
}

#[step(effect = "read")]
pub async fn fetch_statement(cx: &mut StepCx, day: Date) -> Result<String> {
    let reply = cx.http().get(format!("https://bank.example/statements/{day}")).send().await?;
    Ok(reply.error_for_status()?.text().to_owned())
}

#[step(effect = "tool", key = |application, number| format!("{application}/{number}"), retry(max_retries = 3))]
pub async fn tell_loan(
    _cx: &mut StepCx,
    application: ApplicationId,
    number: usize,
    booking: &Booking,
) -> Result<()> {
    tracing::debug!(%application, number, amount = %booking.amount, "a booking");
    Ok(())
}

#[step(effect = "external", approval = "required")]
pub async fn hand_to_collector(_cx: &mut StepCx, loan: &Loan, missing: Money) -> Result<String> {
    Ok(format!("{} at {missing}", loan.application))
}
