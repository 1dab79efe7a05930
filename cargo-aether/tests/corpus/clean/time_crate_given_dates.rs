//! Dates of the crate time that are given
//! how: clean

use aether::prelude::*;
use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};

fn quarter(date: Date) -> u8 {
    (u8::from(date.month()) - 1) / 3 + 1
}

fn statement(seconds: i64) -> std::result::Result<String, time::error::ComponentRange> {
    let at = OffsetDateTime::from_unix_timestamp(seconds)?.to_offset(UtcOffset::from_hms(5, 30, 0)?);
    let closing =
        Date::from_calendar_date(at.year(), Month::December, 31)?.with_time(Time::MIDNIGHT).assume_utc();
    let left: Duration = closing - at;
    Ok(format!("{} q{} week {} {}", at.date(), quarter(at.date()), at.iso_week(), left.whole_days()))
}

#[workflow]
pub async fn time_crate_given_dates(cx: &mut Cx, _input: u64) -> Result<String> {
    let now = cx.now().await;
    Ok(statement(now.as_second())?)
}
