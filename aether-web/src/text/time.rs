//! Times and durations, as short as they are clear.

use std::time::Duration;

use jiff::Timestamp;

/// How long it took: `420 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn length(millis: i64) -> String {
    let millis = millis.max(0);
    let (seconds, minutes, hours) = (millis / 1_000, millis / 60_000, millis / 3_600_000);
    let two = |whole: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {small}"),
    };
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..10_000 => format!("{}.{} s", seconds, millis % 1_000 / 100),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => two(minutes, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(hours, "h", minutes % 60, "min"),
        _ => two(hours / 24, "d", hours % 24, "h"),
    }
}

/// A duration in the same way.
pub(crate) fn duration(time: Duration) -> String {
    length(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Milliseconds between two times.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond().saturating_sub(from.as_millisecond())
}

/// A time on a page: how long ago, or how soon, and in its title the time itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct When {
    /// As machines read it.
    pub(crate) machine: String,
    /// As people read it, in UTC.
    pub(crate) exact: String,
    /// As long ago as it is.
    pub(crate) relative: String,
}

impl When {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let exact = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        let relative = match between(at, now) {
            past @ 0.. if past < 1_000 => "just now".to_owned(),
            past @ 0.. => format!("{} ago", coarse(past)),
            future => format!("in {}", coarse(-future)),
        };
        Self { machine: at.to_string(), exact, relative }
    }
}

/// The largest unit alone.
fn coarse(millis: i64) -> String {
    let (seconds, minutes, hours) = (millis / 1_000, millis / 60_000, millis / 3_600_000);
    match millis {
        ..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{minutes} min"),
        3_600_000..172_800_000 => format!("{hours} h"),
        _ => format!("{} d", hours / 24),
    }
}

/// Amounts of money in billionths: `0.0042 USD`.
pub(crate) fn money(nanos: u128, currency: &str) -> String {
    let tenths_of_cents = nanos.div_ceil(100_000);
    let (whole, rest) = (tenths_of_cents / 10_000, tenths_of_cents % 10_000);
    if rest % 100 == 0 {
        return format!("{whole}.{:02} {currency}", rest / 100);
    }
    format!("{whole}.{rest:04} {currency}")
}

/// A number with commas between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + 4);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_at_most_two_units() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (3_250, "3.2 s"),
            (12_900, "12 s"),
            (250_000, "4 min 10 s"),
            (3_600_000, "1 h"),
            (7_500_000, "2 h 5 min"),
            (273_600_000, "3 d 4 h"),
        ];
        for (millis, text) in cases {
            assert_eq!(length(millis), text);
        }
        assert_eq!(money(4_200_000, "USD"), "0.0042 USD");
        assert_eq!(money(12_340_000_000, "USD"), "12.34 USD");
        assert_eq!(money(1, "USD"), "0.0001 USD", "rounded up");
        assert_eq!([count(7), count(1_234_567)], ["7", "1,234,567"]);
    }
}
