//! A lock that is tried for a moment only
//! how: blocking

use std::time::Duration;

use aether::prelude::*;
use parking_lot::Mutex;

static REPORTS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn append(number: u64) -> usize {
    match REPORTS.try_lock_for(Duration::from_micros(50)) {
        Some(mut reports) => {
            reports.push(number);
            reports.len()
        }
        None => 0,
    }
}

#[workflow]
pub async fn lock_within_a_moment(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(append(7).to_string())
}
