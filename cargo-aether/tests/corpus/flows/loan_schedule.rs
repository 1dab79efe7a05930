//! The instalments of a loan, with dates that fall on working days
//! how: clean

use aether::jiff::{
    ToSpan,
    civil::{Date, Weekday},
    tz::TimeZone,
};
use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loan {
    principal: Decimal,
    yearly_percent: Decimal,
    months: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instalment {
    due: Date,
    interest: Decimal,
    repayment: Decimal,
    rest: Decimal,
}

fn working_day(mut date: Date) -> Date {
    while matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday) {
        date = date.saturating_add(1.day());
    }
    date
}

fn schedule(loan: &Loan, first: Date) -> Result<Vec<Instalment>> {
    let monthly = loan.yearly_percent / Decimal::from(1200);
    let part = (loan.principal / Decimal::from(loan.months.max(1))).round_dp(2);
    let mut rest = loan.principal;
    (0..loan.months)
        .map(|month| {
            let due = first.checked_add(i64::from(month).months()).in_context("a date of an instalment")?;
            let interest = (rest * monthly).round_dp(2);
            let repayment = if month + 1 == loan.months { rest } else { part.min(rest) };
            rest -= repayment;
            Ok(Instalment { due: working_day(due), interest, repayment, rest })
        })
        .collect()
}

#[step(effect = "tool", idempotent)]
pub async fn loan_schedule_store(_cx: &mut StepCx, instalments: &[Instalment]) -> Result<usize> {
    Ok(instalments.len())
}

#[workflow]
pub async fn loan_schedule(cx: &mut Cx, loan: Loan) -> Result<Vec<Instalment>> {
    let today = cx.now().await.to_zoned(TimeZone::UTC).date();
    let first = today.first_of_month().checked_add(1.month()).in_context("the next month")?;
    let instalments = schedule(&loan, first)?;
    let stored = loan_schedule_store(cx, &instalments).await?;
    let interest: Decimal = instalments.iter().map(|instalment| instalment.interest).sum();
    tracing::info!(stored, %interest, "a loan is planned");
    Ok(instalments)
}
