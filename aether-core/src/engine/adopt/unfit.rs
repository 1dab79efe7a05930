//! What an engine does at its start about open runs that do not fit its code: it parks them, or does not start.
//!
//! Promise: an engine that refuses to start has changed nothing.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::iter;

use crate::engine::adopt::check::check;
use crate::engine::adopt::report::RunVerdict;
use crate::engine::advance::launch::LOADS;
use crate::engine::build_error::BuildError;
use crate::engine::inner::Inner;
use crate::store::filter::RunFilter;

/// Runs that are named in an error.
const NAMED: usize = 20;
/// Runs that are listed at once.
const PAGE: usize = 256;

/// What an engine does at its start where open runs do not fit its code; see [`EngineBuilder::on_unfit`](crate::engine::EngineBuilder::on_unfit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnfit {
    /// It starts, and parks them: they wait, listed, for code that they fit.
    #[default]
    Park,
    /// It does not start: [`BuildError::OpenRunsNeedOtherCode`] names them. Every open run is replayed first, which executes
    /// nothing; runs whose code another live worker has are left out.
    Refuse,
}

/// Finds the open runs that do not fit this program's code and that no live worker has the code of. All of them are tried:
/// a type or a plain function that changed is in no fingerprint.
pub(crate) async fn refuse_unfit(inner: &Arc<Inner>) -> Result<(), BuildError> {
    let shared = &inner.shared;
    let elsewhere = shared.store.codes_elsewhere(&shared.worker).await?;
    let (mut count, mut first) = (0, Vec::new());
    let mut filter = RunFilter::new().open().limit(PAGE);
    loop {
        let page = shared.store.runs(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.place);
        let ours = page.into_iter().filter(|record| !elsewhere.contains(&record.code));
        let tried: Vec<_> = iter(ours).map(|record| check(inner, record)).buffered(LOADS).collect().await;
        for found in tried {
            let found = found?;
            if found.verdict == RunVerdict::Parks {
                count += 1;
                if first.len() < NAMED {
                    first.push(found);
                }
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    Err(BuildError::OpenRunsNeedOtherCode { count, first })
}
