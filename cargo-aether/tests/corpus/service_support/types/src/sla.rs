//! By when a ticket must be answered, in hours in which somebody works.

use chrono::{DateTime, Datelike as _, Days, NaiveTime, TimeDelta, Utc, Weekday};
use rust_decimal::Decimal;

use crate::ticket::{Plan, Priority};

const OPENS: NaiveTime = NaiveTime::from_hms_opt(8, 0, 0).unwrap();
const CLOSES: NaiveTime = NaiveTime::from_hms_opt(18, 0, 0).unwrap();

pub fn allowed(plan: Plan, priority: Priority) -> TimeDelta {
    let hours = match priority {
        Priority::Urgent => 2,
        Priority::High => 4,
        Priority::Normal => 16,
        Priority::Low => 40,
    };
    TimeDelta::hours(if plan == Plan::Enterprise { hours / 2 } else { hours })
}

fn works(time: DateTime<Utc>) -> bool {
    !matches!(time.weekday(), Weekday::Sat | Weekday::Sun)
}

/// The time so many working hours behind another.
pub fn due(from: DateTime<Utc>, mut left: TimeDelta) -> Option<DateTime<Utc>> {
    let mut day = from.date_naive();
    let mut begins = from.time().max(OPENS);
    loop {
        let start = day.and_time(begins).and_utc();
        if works(start) && begins < CLOSES {
            let open = CLOSES - begins;
            if left <= open {
                return Some(start + left);
            }
            left -= open;
        }
        day = day.checked_add_days(Days::new(1))?;
        begins = OPENS;
    }
}

/// What is given back for an answer that came late: a percent of the fee for each hour, half of it at most.
pub fn credit(fee: Decimal, due: DateTime<Utc>, answered: DateTime<Utc>) -> Decimal {
    let hours = (answered - due).num_hours().clamp(0, 50);
    (fee * Decimal::new(hours, 2)).round_dp(2)
}
