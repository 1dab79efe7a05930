//! What an engine does at its start about open runs that do not fit its code: it parks them, or does not start.
//!
//! Promise: an engine that refuses to start has changed no run.

use std::sync::Arc;

use crate::engine::adopt::check::check_open;
use crate::engine::adopt::report::{RunCheck, RunVerdict};
use crate::engine::build_error::BuildError;
use crate::engine::inner::Inner;
use crate::store::filter::RunFilter;

/// Runs that are named in an error.
const NAMED: usize = 20;

/// What an engine does at its start where open runs do not fit its code; see [`EngineBuilder::on_unfit`](crate::engine::EngineBuilder::on_unfit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnfit {
    /// It starts, and parks them: they wait, listed, for code that they fit.
    #[default]
    Park,
    /// It does not start: [`BuildError::OpenRunsNeedOtherCode`] names them, and those that would fail. Every open run is
    /// replayed first, which executes nothing; runs whose code another live worker has are left out.
    Refuse,
}

/// Finds the open runs that do not fit this program's code and that no live worker has the code of. All of them are tried:
/// a type or a plain function that changed is in no fingerprint.
pub(crate) async fn refuse_unfit(inner: &Arc<Inner>) -> Result<(), BuildError> {
    let shared = &inner.shared;
    let elsewhere = shared.store.codes_elsewhere(&shared.worker).await?;
    let (mut count, mut first) = (0, Vec::new());
    let keep = |found: RunCheck| {
        // Also one that this code would fail: nobody knows here whether the code from before would.
        if matches!(found.verdict, RunVerdict::Parks | RunVerdict::Fails) {
            count += 1;
            if first.len() < NAMED {
                first.push(found);
            }
        }
    };
    check_open(inner, RunFilter::new().open(), &elsewhere, keep).await?;
    if count == 0 {
        return Ok(());
    }
    Err(BuildError::OpenRunsNeedOtherCode { count, first })
}
