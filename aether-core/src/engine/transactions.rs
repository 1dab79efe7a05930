//! Whether the store has the database that the linked transaction steps are written for, checked when the engine starts.
//!
//! Promise: a step whose body could never run on the engine's store is reported before any run is claimed. What the code of
//! a body does not show is found when it runs: the run then stops with a fault.

use crate::engine::build_error::{BuildError, ForeignStep};
use crate::engine::needs::NeedsCheck;
use crate::step::body::RegisteredStep;
use crate::store::api::Store;
use crate::vocabulary::outcome::EffectClass;

/// Refuses steps that need another store.
pub(super) fn check<'a>(
    store: &dyn Store,
    steps: impl Iterator<Item = &'a RegisteredStep>,
    needs: &NeedsCheck,
) -> Result<(), BuildError> {
    let reached = store.transactions();
    let foreign = |step: &&RegisteredStep| {
        let transaction = step.def.options.class == EffectClass::Transaction;
        transaction && (reached.is_none() || (step.transaction.is_some() && step.transaction != reached))
    };
    let mut steps: Vec<_> = steps
        .filter(|step| needs.covers(step))
        .filter(foreign)
        .map(|step| ForeignStep {
            step: step.def.path,
            place: format!("{}:{}", step.def.file, step.def.line),
            uses: step.transaction,
        })
        .collect();
    steps.sort_by_key(|step| step.step);
    match steps.is_empty() {
        true => Ok(()),
        false => Err(BuildError::NoTransactions { store: store.describe(), offers: reached, steps }),
    }
}
