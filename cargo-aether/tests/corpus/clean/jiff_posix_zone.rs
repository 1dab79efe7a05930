//! A time zone that is given by its rule and not by its name
//! how: clean

use aether::prelude::*;
use jiff::Timestamp;
use jiff::tz::TimeZone;

fn departures(rule: &str, times: &[&str]) -> std::result::Result<Vec<String>, jiff::Error> {
    let zone = TimeZone::posix(rule)?;
    times
        .iter()
        .map(|time| {
            let time: Timestamp = time.parse()?;
            let local = time.to_zoned(zone.clone());
            Ok(format!("{} {}", local.date(), local.strftime("%H:%M %z")))
        })
        .collect()
}

#[workflow]
pub async fn jiff_posix_zone(cx: &mut Cx, _input: u64) -> Result<String> {
    let hour = cx.random().await % 24;
    let moving = format!("2025-03-09T{hour:02}:30:00Z");
    let times =
        departures("EST5EDT,M3.2.0,M11.1.0", &["2025-01-15T12:00:00Z", &moving, "2025-07-01T00:00:00Z"])?;
    Ok(times.join(", "))
}
