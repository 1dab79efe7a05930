//! The check before a deploy: what this program would do with every open run of a store.
//!
//! Promise: executes nothing and writes nothing. It replays with the code that a recovery uses, so that it says of each run
//! what a recovery does, unless the run moves on meanwhile.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::iter;

use crate::engine::adopt::report::{CheckReport, RunCheck, RunVerdict};
use crate::engine::adopt::trial::{Trial, try_run};
use crate::engine::advance::launch::LOADS;
use crate::engine::inner::{Engine, Inner};
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;
use crate::vocabulary::id::CodeId;

/// Runs that are listed at once.
const PAGE: usize = 256;

impl Engine {
    /// Replays the open runs of `filter` with this program's code, and says of each whether it fits, is adopted, would be
    /// parked, or would fail. Executes nothing and writes nothing: ask it before a deploy, of an engine that only looks
    /// ([`EngineBuilder::client`](crate::engine::EngineBuilder::client)), on the store itself, on a copy of its file, or on
    /// a recording that was imported into an empty store.
    ///
    /// ```no_run
    /// # use aether_core::engine::Engine;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: Engine) -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    /// let report = engine.check(RunFilter::new()).await?;
    /// eprintln!("{report}");
    /// Ok(report.exit_code())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn check(&self, filter: RunFilter) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        check_open(&self.inner, filter, &[], |run| report.add(run)).await?;
        Ok(report)
    }
}

/// Tries the open runs of `filter`, a page at a time, without those that code in `left_out` recorded.
pub(crate) async fn check_open(
    inner: &Arc<Inner>,
    mut filter: RunFilter,
    left_out: &[CodeId],
    mut found: impl FnMut(RunCheck),
) -> Result<(), StoreError> {
    let mut left = (filter.limit > 0).then_some(filter.limit);
    loop {
        filter.limit = left.map_or(PAGE, |left| left.min(PAGE));
        let page = inner.shared.store.runs(filter.clone()).await?;
        let (Some(last), is_last) = (page.last(), page.len() < filter.limit) else { return Ok(()) };
        filter.after = Some(last.place);
        left = left.map(|left| left - page.len());
        let wanted = |record: &RunRecord| !record.status.is_terminal() && !left_out.contains(&record.code);
        let tried = iter(page.into_iter().filter(wanted)).map(|record| check(inner, record));
        let tried: Vec<_> = tried.buffered(LOADS).collect().await;
        for run in tried {
            found(run?);
        }
        if is_last || left == Some(0) {
            return Ok(());
        }
    }
}

/// Tries one open run.
async fn check(inner: &Arc<Inner>, record: RunRecord) -> Result<RunCheck, StoreError> {
    let tried = try_run(inner, &record).await;
    let RunRecord { id: run, workflow, code, parked, .. } = record;
    let checked = |verdict, why: Option<&Fault>, recorded_by| {
        let (recorded, requested) = why.map_or((None, None), Fault::sides);
        let why = why.map(ToString::to_string);
        Ok(RunCheck { run, workflow, verdict, why, recorded, requested, recorded_by })
    };
    match tried {
        Ok(Trial { fails: Some(why), needs, .. }) => {
            checked(RunVerdict::Fails, None, needs).map(|found| RunCheck { why: Some(why), ..found })
        }
        Ok(Trial { misfit: Some(fault), needs, .. }) => checked(RunVerdict::Parks, Some(&fault), needs),
        Ok(Trial { misfit: None, needs, code: linked, .. }) => {
            // Where it waits in a queue for another code than the one that recorded it, that one adopts it.
            let same = !parked
                && linked.as_ref() == Some(&code)
                && needs.as_ref().is_some_and(|needs| needs.id() == code);
            checked(if same { RunVerdict::Fits } else { RunVerdict::Adopts }, None, needs)
        }
        Err(Fault::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => Err(error),
        Err(fault) => checked(RunVerdict::Unreadable, Some(&fault), None),
    }
}
