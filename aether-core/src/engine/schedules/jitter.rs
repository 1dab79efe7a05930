//! How long after its time a tick is started, so that not all schedules start at full hours.
//!
//! Promise: a function of the schedule's name, the tick and the jitter, and below the time until the next tick: ticks keep
//! their order, and every worker computes the same.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::policy::cron::Cron;
use crate::store::schedules::ScheduleSpec;
use crate::vocabulary::waiting::millis;

/// The delay of `tick`, in milliseconds.
pub(super) fn delay_ms(name: &str, spec: &ScheduleSpec, cron: &Cron, tick: Timestamp) -> u64 {
    if spec.jitter_ms == 0 {
        return 0;
    }
    let next = Duration::try_from(cron.due_after(tick).duration_since(tick)).unwrap_or(Duration::ZERO);
    let limit = spec.jitter_ms.min(millis(next));
    let hash = Sha256::new().chain_update(name).chain_update(tick.as_microsecond().to_be_bytes()).finalize();
    let drawn = hash.iter().take(8).fold(0_u64, |drawn, byte| drawn << 8 | u64::from(*byte));
    drawn.checked_rem(limit).unwrap_or(0)
}
