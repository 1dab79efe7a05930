//! An equality that treats an old entry as another one
//! how: clock

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aether::prelude::*;

struct Entry {
    name: &'static str,
    made: SystemTime,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        let age = self.made.elapsed().unwrap_or_default().as_nanos();
        self.name == other.name && age % 2 == 0
    }
}

#[workflow]
pub async fn equality_with_age(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let one = Entry { name: "a", made: UNIX_EPOCH + Duration::from_secs(5) };
    let other = Entry { name: "a", made: UNIX_EPOCH };
    Ok((one == other).to_string())
}
