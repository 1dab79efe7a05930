//! Readings are summed up by the hour with dates of chrono, and the run continues as new when it is long
//! how: clean

use std::collections::BTreeMap;
use std::time::Duration;

use aether::prelude::*;
use chrono::{DateTime, NaiveDate, Timelike as _, Utc};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reading {
    at: DateTime<Utc>,
    units: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    customer: String,
    by_day: BTreeMap<NaiveDate, u64>,
    nightly: u64,
    late: u32,
}

impl Usage {
    fn add(&mut self, reading: &Reading, now: DateTime<Utc>) {
        if now - reading.at > chrono::TimeDelta::days(2) {
            self.late += 1;
            return;
        }
        *self.by_day.entry(reading.at.date_naive()).or_default() += u64::from(reading.units);
        if !(6..22).contains(&reading.at.hour()) {
            self.nightly += u64::from(reading.units);
        }
    }
}

fn as_chrono(time: aether::jiff::Timestamp) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp(time.as_second(), time.subsec_nanosecond().unsigned_abs())
        .ok_or_else(|| Failure::permanent("a time beyond the calendar"))
}

#[step(effect = "tool", key = |customer, day| format!("{customer}-{day}"), retry(max_retries = 3))]
pub async fn usage_metering_bill(_cx: &mut StepCx, customer: &str, day: NaiveDate, units: u64) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn usage_metering(cx: &mut Cx, mut usage: Usage) -> Result<Usage> {
    loop {
        match cx.signal::<Option<Reading>>("reading").timeout(Duration::from_secs(3600)).await {
            Ok(Some(reading)) => {
                let now = as_chrono(cx.now().await)?;
                usage.add(&reading, now);
            }
            Ok(None) => return Ok(usage),
            Err(StepError::TimedOut(_)) => {
                let today = as_chrono(cx.now().await)?.date_naive();
                let rest = usage.by_day.split_off(&today);
                for (day, units) in std::mem::replace(&mut usage.by_day, rest) {
                    usage_metering_bill(cx, &usage.customer, day, units).await?;
                }
            }
            Err(other) => return Err(other.into()),
        }
        if cx.should_continue_as_new().await {
            return cx.continue_as_new::<usage_metering>(usage).await;
        }
    }
}
