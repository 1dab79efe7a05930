//! A subscription is charged every month, and continues as new after a year
//! how: clean

use std::time::Duration;

use aether::jiff::{Timestamp, ToSpan, tz::TimeZone};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subscription {
    customer: String,
    cents: u64,
    next: Timestamp,
    periods: u32,
    failures: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Closed {
    Cancelled { periods: u32 },
    Unpaid { periods: u32 },
}

fn a_month_after(time: Timestamp) -> Result<Timestamp> {
    let date = time.to_zoned(TimeZone::UTC).datetime();
    let next = date.checked_add(1.month()).in_context("the end of the calendar")?;
    Ok(next.to_zoned(TimeZone::UTC).in_context("a time of the calendar")?.timestamp())
}

#[step(effect = "tool", key = |customer, period| format!("{customer}/{period}"), retry(max_retries = 2))]
pub async fn subscription_renewal_charge(
    _cx: &mut StepCx,
    customer: &str,
    period: u32,
    cents: u64,
) -> Result<bool> {
    Ok(cents > 0)
}

#[workflow]
pub async fn subscription_renewal(cx: &mut Cx, mut state: Subscription) -> Result<Closed> {
    for _ in 0..12 {
        let due = state.next;
        let cancelled = cx
            .race((
                async |cx: &mut Cx| cx.signal::<()>("cancel").await.is_ok(),
                async |cx: &mut Cx| {
                    cx.sleep_until(due).await;
                    false
                },
            ))
            .await;
        if cancelled {
            return Ok(Closed::Cancelled { periods: state.periods });
        }
        if subscription_renewal_charge(cx, &state.customer, state.periods, state.cents).await? {
            state.periods += 1;
            state.failures = 0;
            state.next = a_month_after(state.next)?;
        } else if state.failures >= 3 {
            return Ok(Closed::Unpaid { periods: state.periods });
        } else {
            state.failures += 1;
            cx.sleep(Duration::from_secs(3 * 24 * 3600)).await;
        }
    }
    cx.continue_as_new::<subscription_renewal>(state).await
}
