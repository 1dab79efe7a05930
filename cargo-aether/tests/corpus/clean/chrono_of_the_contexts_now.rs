//! The context's time, converted to chrono
//! how: clean

use aether::prelude::*;
use chrono::{DateTime, Duration, DurationRound, SubsecRound, Timelike, Utc};

fn as_chrono(time: aether::jiff::Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(time.as_second(), time.subsec_nanosecond().unsigned_abs())
}

fn window(time: DateTime<Utc>) -> String {
    let begin = time.duration_trunc(Duration::minutes(15)).unwrap_or(time);
    let end = begin + Duration::minutes(15);
    let left = end.signed_duration_since(time).num_seconds();
    let office = (8..18).contains(&time.hour());
    format!("{} {} {left} {office}", begin.to_rfc3339(), end.trunc_subsecs(0))
}

#[workflow]
pub async fn chrono_of_the_contexts_now(cx: &mut Cx, _input: u64) -> Result<String> {
    let now = cx.now().await;
    let time = as_chrono(now).ok_or_else(|| Failure::permanent("beyond the calendar"))?;
    Ok(window(time))
}
