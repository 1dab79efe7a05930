//! A generator of ids from the time, a machine number and a sequence
//! how: clock

use std::time::{Duration, UNIX_EPOCH};

use aether::prelude::*;

struct Snowflake {
    machine: u64,
    sequence: u64,
}

impl Snowflake {
    fn next_id(&mut self) -> u64 {
        let epoch = UNIX_EPOCH + Duration::from_secs(1_577_836_800);
        let millis = epoch.elapsed().map_or(0, |since| since.as_millis() as u64);
        self.sequence = (self.sequence + 1) & 0xfff;
        millis << 22 | self.machine << 12 | self.sequence
    }
}

#[workflow]
pub async fn snowflake_ids(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let mut ids = Snowflake { machine: 3, sequence: 0 };
    Ok(ids.next_id().to_string())
}
