//! Times as people read and write them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo, Timestamp};

/// A length of time as it is written: `90s`, `2h 30m`, `30d`. A day has 24 hours.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no length of time: expected one like `90s`, `2h30m` or `30d`");
    let span: Span = text.parse().map_err(|_| expected())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| expected())?;
    Duration::try_from(length).map_err(|_| format!("{text:?} is negative"))
}

/// A time, or how long ago it was.
pub(crate) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let ago = parse_duration(text).map_err(|_| {
        format!("{text:?} is no time: expected one like `2026-11-24T09:30:00Z`, or how long ago, like `2h`")
    })?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}

/// How long ago a time was, or how long it still is, in its largest unit.
pub(crate) fn ago(time: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(time).as_secs();
    let (length, is_past) = (seconds.unsigned_abs(), seconds >= 0);
    let text = match length {
        0..60 => format!("{length}s"),
        60..3_600 => format!("{}m", length / 60),
        3_600..172_800 => format!("{}h", length / 3_600),
        _ => format!("{}d", length / 86_400),
    };
    if is_past { format!("{text} ago") } else { format!("in {text}") }
}

/// A time with how long ago it was.
pub(crate) fn both(time: Timestamp) -> String {
    format!("{time:.0} ({})", ago(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_duration("2h30m"), Ok(Duration::from_secs(9_000)));
        assert!(parse_duration("soon").unwrap_err().contains("90s"));
        assert!(parse_duration("-3s").unwrap_err().contains("negative"));
        assert!(parse_moment("never").unwrap_err().contains("2h"));
    }
}
