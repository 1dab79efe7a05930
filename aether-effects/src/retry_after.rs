//! The header `Retry-After`: a number of seconds, or a date.
//!
//! Promise: no clock is read. A date is measured from the `Date` of the same answer, so that a server whose clock is wrong
//! is still understood, and a recorded answer says the same on every replay.

use std::time::Duration;

/// How long an answer asks to wait; `None` where it does not say so in one of the two forms. `date` is its `Date` header. A
/// date in the past is no wait.
///
/// ```
/// use std::time::Duration;
/// use aether_effects::retry_after::wait;
/// assert_eq!(wait("7", None), Some(Duration::from_secs(7)));
/// assert_eq!(wait("soon", None), None);
/// ```
pub fn wait(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let said_at = httpdate::parse_http_date(date?.trim()).ok()?;
    Some(until.duration_since(said_at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Option<&str> = Some("Sun, 06 Nov 1994 08:49:37 GMT");

    #[test]
    fn seconds_and_every_form_of_a_date_are_read() {
        assert_eq!(wait("120", None), Some(Duration::from_secs(120)));
        assert_eq!(wait(" 0 ", SAID), Some(Duration::ZERO));
        for date in
            ["Sun, 06 Nov 1994 08:50:37 GMT", "Sunday, 06-Nov-94 08:50:37 GMT", "Sun Nov  6 08:50:37 1994"]
        {
            assert_eq!(wait(date, SAID), Some(Duration::from_secs(60)), "{date}");
        }
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT", SAID), Some(Duration::ZERO), "it is past");
    }

    #[test]
    fn anything_else_says_nothing() {
        for text in ["", "soon", "-1", "1.5", "99999999999999999999", "Sun, 99 Nov 1994 08:50:37 GMT"] {
            assert_eq!(wait(text, SAID), None, "{text}");
        }
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT", None), None, "nothing to measure from");
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT", Some("now")), None);
    }
}
