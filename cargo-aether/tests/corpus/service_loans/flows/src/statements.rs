//! Every morning: what the bank received is booked on loans.

use aether::prelude::*;
use jiff::ToSpan as _;
use jiff::tz::TimeZone;
use loans_rules::statement::{Received, by_application, parse};
use loans_types::{Booking, BookingKind, Currency, Money};
use serde::{Deserialize, Serialize};

use crate::steps::{fetch_statement, tell_loan};

#[derive(Debug, Serialize, Deserialize)]
pub struct Booked {
    pub payments: usize,
    pub sums: Vec<Money>,
    pub nameless: Vec<Received>,
}

fn sums(received: &[Received]) -> Result<Vec<Money>> {
    let mut sums = Vec::new();
    for currency in [Currency::Eur, Currency::Chf, Currency::Sek] {
        let amounts = received.iter().map(|one| one.amount).filter(|amount| amount.currency == currency);
        let sum = Money::sum(currency, amounts)?;
        if sum.is_positive() {
            sums.push(sum);
        }
    }
    Ok(sums)
}

/// Fetch the statement of the day before, and book it.
#[workflow]
pub async fn book_statement(cx: &mut Cx) -> Result<Booked> {
    let tick = match cx.scheduled_for() {
        Some(tick) => tick,
        None => cx.now().await,
    };
    let day = tick.to_zoned(TimeZone::UTC).date().checked_sub(1.day())?;
    let statement = fetch_statement(cx, day).await?;
    let received = parse(&statement).in_context(format!("the statement of {day}"))?;
    let sums = sums(&received)?;
    let (named, nameless) = by_application(received);
    let mut payments = 0;
    for (application, all) in named {
        for (number, one) in all.into_iter().enumerate() {
            let booking = Booking { day: one.day, kind: BookingKind::Received, amount: one.amount };
            tell_loan(cx, application, number, &booking).await?;
            payments += 1;
        }
    }
    for one in &nameless {
        tracing::warn!(day = %one.day, amount = %one.amount, "a payment without a reference");
    }
    Ok(Booked { payments, sums, nameless })
}
