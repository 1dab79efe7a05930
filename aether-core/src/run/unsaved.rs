//! Outcomes that were on their way to the effect store when their calls were cut off.
//!
//! Promise: such an outcome is not lost with its call: whoever says what became of the call has it written anew, and finds
//! it.

use futures_util::FutureExt as _;

use crate::journal::large_values::LargeValue;
use crate::run::claim::Run;
use crate::store::append::StoredEffect;
use crate::store::error::AppendError;
use crate::vocabulary::id::IdempotencyKey;

/// An outcome, and the large values that it refers to.
type Writing = (StoredEffect, Vec<LargeValue>);

/// An outcome that is being written. Dropped before that is done, it stays with its run.
struct Unsaved<'r> {
    run: &'r Run,
    outcome: Option<Writing>,
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        // Without a row it is that of a call that changed nothing, which nobody asks for.
        if let Some(outcome) = self.outcome.take().filter(|(effect, _)| effect.status.is_some()) {
            self.run.lock().unsaved.push(outcome);
        }
    }
}

impl Run {
    /// Makes an outcome durable in the effect store.
    pub(crate) async fn save(&self, effect: StoredEffect, values: Vec<LargeValue>) {
        let mut unsaved = Unsaved { run: self, outcome: Some((effect, values)) };
        if let Some((effect, values)) = &unsaved.outcome {
            self.put(effect, values).await;
        }
        unsaved.outcome = None;
    }

    /// Makes those outcomes durable under these keys whose calls were cut off while they were written. What was written
    /// already stays as it is.
    pub(crate) async fn save_again(&self, keys: &[IdempotencyKey]) {
        let of = |(effect, _): &&Writing| keys.contains(&effect.key);
        let unsaved: Vec<Writing> = self.lock().unsaved.iter().filter(of).cloned().collect();
        for (effect, values) in &unsaved {
            self.put(effect, values).await;
        }
    }

    async fn put(&self, effect: &StoredEffect, values: &[LargeValue]) {
        let put = || {
            let put = self.shared.store.put_effect(effect.clone(), self.epoch, values.to_vec());
            put.map(|put| match put {
                Err(AppendError::Store(error)) => Err(error),
                put => Ok(put),
            })
            .boxed()
        };
        if let Err(lost) = self.insist(put).await {
            self.stop(lost).await
        }
    }
}
