//! Models that asked not to be asked for a while.
//!
//! Promise: what one call was told holds for all calls to that model, until the time the provider named; a hold is only
//! lengthened, and ends by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest hold, whatever a provider asks for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// What is left of a hold that counts as over: clocks of waits and of holds need not agree to the millisecond.
const OVER: Duration = Duration::from_millis(50);

/// A client by the name of its calls, and the model where the call names one.
pub(crate) type HeldModel = (Option<String>, Option<String>);

/// The holds of a set of clients; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<HashMap<HeldModel, Hold>>>);

#[derive(Clone, Debug)]
struct Hold {
    until: Instant,
    said: String,
}

impl Holds {
    /// How much longer `model` is not to be asked, and what its provider said.
    pub(crate) fn left(&self, model: &HeldModel) -> Option<(Duration, String)> {
        let mut holds = self.lock();
        let Hold { until, said } = holds.get(model)?.clone();
        let left = until.saturating_duration_since(Instant::now());
        if left <= OVER {
            holds.remove(model);
            return None;
        }
        // Whole milliseconds are recorded: a wait that is cut down to them would end too early.
        Some((left + Duration::from_millis(1), said))
    }

    /// Holds calls to `model` for `wait`.
    pub(crate) fn hold(&self, model: HeldModel, wait: Duration, said: &str) {
        let until = Instant::now() + wait.min(LONGEST);
        let mut holds = self.lock();
        let hold = holds.entry(model).or_insert_with(|| Hold { until, said: said.to_owned() });
        if until > hold.until {
            *hold = Hold { until, said: said.to_owned() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HeldModel, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_lengthened_and_not_shortened_and_ends_by_itself() {
        let (holds, model) = (Holds::default(), (None, Some("small".to_owned())));
        assert_eq!(holds.left(&model), None);
        holds.hold(model.clone(), Duration::from_secs(10), "slow down");
        holds.hold(model.clone(), Duration::from_secs(2), "less");
        let (left, said) = holds.left(&model).unwrap();
        assert_eq!((left.as_secs(), &*said), (10, "slow down"));
        assert_eq!(holds.left(&(None, None)), None, "another model is free");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(holds.left(&model).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(holds.left(&model), None);
        holds.hold(model.clone(), Duration::MAX, "never again");
        assert!(holds.left(&model).unwrap().0 <= LONGEST + OVER);
    }
}
