//! From an application to a loan.

use std::time::Duration;

use aether::people::Decision;
use aether::prelude::*;
use jiff::tz::TimeZone;
use loans_rules::plan::{plan, yearly_percent};
use loans_rules::score::{Grade, Score, score};
use loans_types::{Application, Booking, BookingKind, Loan};
use serde::{Deserialize, Serialize};

use crate::repay::service_loan;
use crate::steps::{bureau_points, pay_out, store_decision, write_to};

#[derive(Debug, Serialize, Deserialize)]
pub enum Outcome {
    PaidOut { transfer: String, run: String },
    Refused { points: i32 },
    Withdrawn,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Score an application, by our own rules and by what a bureau knows.
#[workflow]
pub async fn score_application(cx: &mut Cx, application: Application) -> Result<Score> {
    let today = cx.now().await.to_zoned(TimeZone::UTC).date();
    let mut score = score(&application, today)?;
    match bureau_points(cx, &application.applicant.name, application.applicant.born).await {
        Ok(points) => {
            score.points.insert("bureau".to_owned(), points);
        }
        Err(StepError::Exhausted(error)) => tracing::warn!(%error, "scored without the bureau"),
        Err(other) => return Err(other.into()),
    }
    Ok(score)
}

/// Decide about an application, pay it out, and start the life of the loan.
#[workflow]
pub async fn apply(cx: &mut Cx, application: Application) -> Result<Outcome> {
    let score = score_application(cx, application.clone()).await?;
    store_decision(cx, &application, &score).await?;
    let granted = match score.grade() {
        Grade::Accept => true,
        Grade::Refuse => false,
        Grade::Look => {
            let shown = (&application, &score);
            match cx.approval("application").details(&shown).expires(5 * DAY).await? {
                Decision::Approved { by } => {
                    tracing::info!(by, application = %application.id, "granted");
                    true
                }
                Decision::Rejected { .. } | Decision::Expired(_) => false,
            }
        }
    };
    let email = application.applicant.email.clone();
    if !granted {
        write_to(cx, &email, "We cannot give you this loan.").await?;
        return Ok(Outcome::Refused { points: score.total() });
    }
    let percent = yearly_percent(application.purpose, score.total());
    write_to(cx, &email, &format!("We offer {} at {percent} %.", application.amount)).await?;
    match cx.signal::<bool>("signed").timeout(14 * DAY).await {
        Ok(true) => {}
        Ok(false) | Err(StepError::TimedOut(_)) => return Ok(Outcome::Withdrawn),
        Err(other) => return Err(other.into()),
    }
    let today = cx.now().await.to_zoned(TimeZone::UTC).date();
    let planned = plan(&application, percent, today)?;
    let transfer = pay_out(cx, application.id, &application.account, application.amount).await?;
    let paid = Booking { day: today, kind: BookingKind::PaidOut, amount: application.amount };
    let loan = Loan {
        application: application.id,
        currency: application.amount.currency,
        yearly_percent: percent,
        plan: planned,
        bookings: vec![paid],
        email,
    };
    let child = cx.start_child::<service_loan>(loan).id(format!("loan-{}", application.id)).await?;
    let run = child.id().to_string();
    child.detach(cx).await;
    Ok(Outcome::PaidOut { transfer, run })
}
