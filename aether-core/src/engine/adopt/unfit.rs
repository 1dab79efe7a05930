//! What an engine does at its start about open runs that do not fit its code: it parks them, or does not start.
//!
//! Promise: an engine that refuses to start has changed nothing.

use std::sync::Arc;

use crate::engine::adopt::check::check;
use crate::engine::adopt::report::RunVerdict;
use crate::engine::build_error::BuildError;
use crate::engine::inner::Inner;
use crate::store::codes::ForeignRuns;

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
    /// It does not start: [`BuildError::OpenRunsNeedOtherCode`] names them. Every open run of other code is replayed first,
    /// which executes nothing; runs that another live worker's code fits are not counted.
    Refuse,
}

/// Finds the open runs that do not fit this program's code and that no live worker has the code of.
pub(crate) async fn refuse_unfit(inner: &Arc<Inner>) -> Result<(), BuildError> {
    let shared = &inner.shared;
    let elsewhere = shared.store.codes_elsewhere(&shared.worker).await?;
    let (mut count, mut first, mut after) = (0, Vec::new(), None);
    loop {
        let query = ForeignRuns { codes: inner.codes(), due: None, after, limit: PAGE };
        let page = shared.store.foreign(query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.place);
        for record in page.into_iter().filter(|record| !elsewhere.contains(&record.code)) {
            let found = check(inner, record).await?;
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
