//! Dates of chrono that are given, parsed and formatted
//! how: clean

use aether::prelude::*;
use chrono::{DateTime, Datelike, Days, FixedOffset, Months, NaiveDate, TimeZone, Utc, Weekday};

fn next_workday(mut day: NaiveDate) -> Option<NaiveDate> {
    while matches!(day.weekday(), Weekday::Sat | Weekday::Sun) {
        day = day.checked_add_days(Days::new(1))?;
    }
    Some(day)
}

fn due(order: &str, days: u64) -> Option<String> {
    let placed = DateTime::parse_from_rfc3339(order).ok()?;
    let berlin = FixedOffset::east_opt(2 * 3600)?;
    let local = placed.with_timezone(&berlin);
    let due = next_workday(local.date_naive().checked_add_days(Days::new(days))?)?;
    let until = due.checked_add_months(Months::new(1))?;
    let noon = Utc.with_ymd_and_hms(due.year(), due.month(), due.day(), 12, 0, 0).single()?;
    Some(format!("{} until {} ({})", due.format("%a %d.%m.%Y"), until, noon.timestamp()))
}

#[workflow]
pub async fn chrono_given_dates(cx: &mut Cx, _input: u64) -> Result<String> {
    let days = cx.random().await % 400;
    Ok(due("2024-03-29T23:30:00Z", days).unwrap_or_else(|| "no such day".to_owned()))
}
