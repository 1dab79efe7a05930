//! The name of the machine's time zone
//! how: env

use aether::prelude::*;

struct Calendar {
    zone: jiff::tz::TimeZone,
}

impl Calendar {
    fn of_this_machine() -> Self {
        Calendar { zone: jiff::tz::TimeZone::system() }
    }

    fn day(&self, seconds: i64) -> String {
        let moment = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        moment.to_zoned(self.zone.clone()).date().to_string()
    }
}

#[workflow]
pub async fn system_time_zone(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Calendar::of_this_machine().day(1_700_000_000))
}
