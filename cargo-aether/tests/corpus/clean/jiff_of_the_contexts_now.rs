//! Arithmetic on the context's time
//! how: clean

use aether::prelude::*;
use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Unit, Zoned};

fn next_monday(time: Timestamp) -> std::result::Result<Zoned, jiff::Error> {
    let zone = TimeZone::fixed(Offset::constant(1));
    let local = time.to_zoned(zone).round(Unit::Minute)?;
    local.nth_weekday(1, Weekday::Monday)?.with().hour(9).minute(0).second(0).subsec_nanosecond(0).build()
}

fn reminder(time: Timestamp) -> std::result::Result<String, jiff::Error> {
    let monday = next_monday(time)?;
    let early = monday.checked_sub(36.hours())?;
    let wait: Span = early.since(&time.to_zoned(monday.time_zone().clone()))?;
    let deadline = time.checked_add(SignedDuration::from_secs(90))?;
    let day = monday.strftime("%A %Y-%m-%d %H:%M %:z");
    Ok(format!("{day} {wait} {}", deadline.as_second()))
}

#[workflow]
pub async fn jiff_of_the_contexts_now(cx: &mut Cx, _input: u64) -> Result<String> {
    let now = cx.now().await;
    Ok(reminder(now)?)
}
