//! When a schedule ticks: a cron expression in a time zone.
//!
//! Promise: a tick is a function of expression, zone, rules and zone database alone. An expression that names hours ticks
//! once a day for each time it names, also on the days on which clocks change, unless its rules say otherwise.

use std::fmt;

use cronexpr::{Crontab, MakeTimestamp};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::vocabulary::clock_change::{Gap, Repeat};

/// The shortest time that there is.
const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// A cron expression in a time zone.
///
/// Five fields: minute, hour, day of month, month, day of week; or one of `@hourly`, `@daily`, `@midnight`, `@weekly`,
/// `@monthly`, `@yearly`, `@annually`. The syntax is that of the `cronexpr` crate, which adds `L`, `W` and `#` to the
/// usual one. The zone is a name of the IANA database, such as `Europe/Berlin`, or `UTC`.
///
/// Where clocks change:
/// - With `*` in the field of hours it ticks in every hour that passes.
/// - Otherwise it ticks once for each time of day that it names. A time that is skipped because clocks are put forward
///   ticks at the moment of the change, and several such times tick once: [`Cron::gap`] changes that. Of a time that comes
///   twice because clocks are put back, only the first ticks: [`Cron::repeat`] changes that.
#[derive(Clone)]
pub struct Cron {
    expression: String,
    zone: TimeZone,
    zone_name: String,
    /// In the zone where every hour ticks, else in UTC, which stands for the time on the wall.
    pattern: Crontab,
    every_hour: bool,
    gap: Gap,
    repeat: Repeat,
}

/// Why an expression and a zone are no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// The zone is unknown.
    #[error(
        "`{zone}` is not a time zone of the IANA database: use a name such as `Europe/Berlin` or `UTC`, and see that the machine has a zone database, such as the package `tzdata` ({reason})"
    )]
    Zone {
        /// The zone.
        zone: String,
        /// What the zone database says.
        reason: String,
    },
    /// The expression cannot be read.
    #[error(
        "`{expression}` is not a cron expression: it has five fields, minute, hour, day of month, month and day of week, such as `0 3 * * *` ({reason})"
    )]
    Expression {
        /// The expression.
        expression: String,
        /// Where and why.
        reason: String,
    },
    /// The expression can be read and matches no time.
    #[error("`{expression}` never ticks: no day within four years fits it")]
    Never {
        /// The expression.
        expression: String,
    },
}

impl Cron {
    /// Reads `expression` and `zone`.
    ///
    /// ```
    /// use aether_core::policy::Cron;
    /// let cron = Cron::parse("30 2 * * *", "Europe/Berlin")?;
    /// let next = cron.next_after("2026-03-28T12:00:00Z".parse().unwrap());
    /// // Clocks are put forward from 02:00 to 03:00 in that night.
    /// assert_eq!(next.unwrap().to_string(), "2026-03-29T01:00:00Z");
    /// # Ok::<(), aether_core::policy::CronError>(())
    /// ```
    ///
    /// # Errors
    /// [`CronError`] when the zone is unknown, the expression cannot be read, or no time within four years fits it.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let unknown = |reason: String| CronError::Zone { zone: zone.into(), reason };
        let found = TimeZone::get(zone).map_err(|error| unknown(error.to_string()))?;
        let fields = match expression.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            fields => fields,
        };
        let unreadable = |reason: String| CronError::Expression { expression: expression.into(), reason };
        let count = fields.split_whitespace().count();
        if count != 5 {
            return Err(unreadable(format!("it has {count} fields")));
        }
        let every_hour = fields.split_whitespace().nth(1) == Some("*");
        let wall = if every_hour { zone } else { "UTC" };
        let pattern = cronexpr::parse_crontab(&format!("{fields} {wall}"))
            .map_err(|error| unreadable(one_line(&error.to_string())))?;
        let cron = Self {
            expression: expression.trim().into(),
            zone: found,
            zone_name: zone.into(),
            pattern,
            every_hour,
            gap: Gap::default(),
            repeat: Repeat::default(),
        };
        match cron.next_after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(cron),
            None => Err(CronError::Never { expression: expression.into() }),
        }
    }

    /// Says what becomes of a named time of day that is skipped because clocks are put forward.
    ///
    /// ```
    /// use aether_core::clock_change::Gap;
    /// use aether_core::policy::Cron;
    /// let cron = Cron::parse("30 2 * * *", "Europe/Berlin")?.gap(Gap::Skip);
    /// let next = cron.next_after("2026-03-28T12:00:00Z".parse().unwrap());
    /// // There is no 02:30 on the 29th.
    /// assert_eq!(next.unwrap().to_string(), "2026-03-30T00:30:00Z");
    /// # Ok::<(), aether_core::policy::CronError>(())
    /// ```
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// Says what becomes of a named time of day that comes twice because clocks are put back.
    ///
    /// ```
    /// use aether_core::clock_change::Repeat;
    /// use aether_core::policy::Cron;
    /// let cron = Cron::parse("30 2 * * *", "Europe/Berlin")?.repeat(Repeat::Twice);
    /// let ticks: Vec<_> = cron.after("2026-10-24T12:00:00Z".parse().unwrap()).take(2).collect();
    /// assert_eq!(ticks[0].to_string(), "2026-10-25T00:30:00Z");
    /// assert_eq!(ticks[1].to_string(), "2026-10-25T01:30:00Z");
    /// # Ok::<(), aether_core::policy::CronError>(())
    /// ```
    #[must_use]
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// The first tick after `time`; `None` where the calendar ends.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        if self.every_hour {
            return Some(self.pattern.find_next(MakeTimestamp(time)).ok()?.timestamp());
        }
        let first = self.first_after(time)?;
        match self.repeat {
            Repeat::Once => Some(first),
            Repeat::Twice => Some(self.repeated_between(time, first).unwrap_or(first)),
        }
    }

    /// The first tick after `time` at the first reading of a time of day.
    fn first_after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(time);
        loop {
            let as_utc = wall.to_zoned(TimeZone::UTC).ok()?.timestamp();
            wall = self.pattern.find_next(MakeTimestamp(as_utc)).ok()?.datetime();
            match self.instant(wall) {
                Some(tick) if tick > time => return Some(tick),
                // Where the calendar ends, so do the days of `pattern`.
                _ => {}
            }
        }
    }

    /// The first tick between `time` and `until`, both excluded, at the second reading of a time of day.
    fn repeated_between(&self, time: Timestamp, until: Timestamp) -> Option<Timestamp> {
        // Times that come twice come again within a day of the change, and `time` may be among them.
        let day_before = time.checked_sub(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MIN);
        let changes = self.zone.following(day_before).map(|change| change.timestamp());
        changes.take_while(|change| *change < until).find_map(|change| {
            let from = change.max(time.checked_add(INSTANT).ok()?);
            let wall = self.zone.to_datetime(from).to_zoned(TimeZone::UTC).ok()?.timestamp();
            // The first reading of all may be a tick, and the pattern excludes its argument.
            let before = MakeTimestamp(wall.checked_sub(INSTANT).ok()?);
            let named = self.zone.to_ambiguous_timestamp(self.pattern.find_next(before).ok()?.datetime());
            if !matches!(named.offset(), AmbiguousOffset::Fold { .. }) {
                return None;
            }
            named.later().ok().filter(|tick| *tick >= from && *tick < until)
        })
    }

    /// As [`Cron::next_after`], with the end of the calendar for a tick that never comes.
    pub(crate) fn due_after(&self, time: Timestamp) -> Timestamp {
        self.next_after(time).unwrap_or(Timestamp::MAX)
    }

    /// The ticks after `time`, in order.
    ///
    /// ```
    /// use aether_core::policy::Cron;
    /// let cron = Cron::parse("0 9 * * MON-FRI", "America/New_York")?;
    /// let friday = "2026-11-20T00:00:00Z".parse().unwrap();
    /// let next: Vec<_> = cron.after(friday).take(2).map(|tick| tick.to_string()).collect();
    /// assert_eq!(next, ["2026-11-20T14:00:00Z", "2026-11-23T14:00:00Z"]);
    /// # Ok::<(), aether_core::policy::CronError>(())
    /// ```
    pub fn after(&self, time: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(time), |tick| self.next_after(*tick))
    }

    /// The newest `limit` ticks from `from` to `until`, both included, in order. Costs what those cost, however many
    /// came before them.
    pub(crate) fn newest(&self, from: Timestamp, until: Timestamp, limit: usize) -> Vec<Timestamp> {
        let mut hours = 1_i64;
        loop {
            let span = SignedDuration::from_hours(hours);
            let start = until.checked_sub(span).map_or(from, |start| start.max(from));
            // `from` itself may be a tick.
            let before = start.checked_sub(INSTANT).unwrap_or(start);
            let mut ticks: Vec<_> = self.after(before).take_while(|tick| *tick <= until).collect();
            if start == from || ticks.len() >= limit {
                return ticks.split_off(ticks.len().saturating_sub(limit));
            }
            hours = hours.saturating_mul(4);
        }
    }

    /// When the clocks on the wall show `wall`: the first time, or the moment at which they skip it; `None` where it does
    /// not tick.
    fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(wall);
        match ambiguous.offset() {
            // In a gap the later of the two readings is the change or behind it, and `preceding` excludes its argument.
            AmbiguousOffset::Gap { .. } if self.gap == Gap::Skip => None,
            AmbiguousOffset::Gap { .. } => {
                let behind = ambiguous.later().ok()?;
                let next = behind.checked_add(INSTANT).ok()?;
                Some(self.zone.preceding(next).next().map_or(behind, |change| change.timestamp()))
            }
            _ => ambiguous.compatible().ok(),
        }
    }

    /// The expression as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Name of the zone.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({self})")
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.expression, self.zone_name)
    }
}

/// The lines of a message that points into the expression, as one.
fn one_line(message: &str) -> String {
    message
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
