//! The life of a loan, until it is repaid or collected.

use std::time::Duration;

use aether::prelude::*;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use loans_rules::reminders::{Level, letter, status};
use loans_types::{Booking, BookingKind, Loan, LoanStatus};

use crate::steps::{hand_to_collector, write_to};

/// Remind of a loan that is late, and say what fee that costs.
#[workflow]
pub async fn remind(cx: &mut Cx, loan: Loan, days: i32, today: Date) -> Result<Option<Booking>> {
    let Some(level) = Level::after(days) else { return Ok(None) };
    let missing = loan.owed_on(today)?.minus(loan.received()?)?;
    write_to(cx, &loan.email, &letter(level, &loan, missing)).await?;
    let fee = level.fee(loan.currency);
    Ok(fee.is_positive().then_some(Booking { day: today, kind: BookingKind::Fee, amount: fee }))
}

/// Book what is received, remind every week where it is late, and go on as new every half year.
#[workflow]
pub async fn service_loan(cx: &mut Cx, mut loan: Loan) -> Result<LoanStatus> {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for _ in 0..26 {
        let booking = match cx.signal::<Booking>("booking").timeout(WEEK).await {
            Ok(booking) => Some(booking),
            Err(StepError::TimedOut(_)) => None,
            Err(other) => return Err(other.into()),
        };
        let is_silent = booking.is_none();
        if let Some(booking) = booking {
            loan.book(booking);
        }
        let today = cx.now().await.to_zoned(TimeZone::UTC).date();
        match status(&loan, today)? {
            LoanStatus::Repaid => return Ok(LoanStatus::Repaid),
            LoanStatus::Late { days } if days > 90 => {
                let missing = loan.owed_on(today)?.minus(loan.received()?)?;
                match hand_to_collector(cx, &loan, missing).await {
                    Ok(_) => return Ok(LoanStatus::Collected),
                    Err(StepError::Rejected(why)) => tracing::info!(%why, "not collected yet"),
                    Err(other) => return Err(other.into()),
                }
            }
            LoanStatus::Late { days } if is_silent => {
                if let Some(fee) = remind(cx, loan.clone(), days, today).await? {
                    loan.book(fee);
                }
            }
            LoanStatus::Late { .. } | LoanStatus::Open | LoanStatus::Collected => {}
        }
    }
    cx.continue_as_new::<service_loan>(loan).await
}
