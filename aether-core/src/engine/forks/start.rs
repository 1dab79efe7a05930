//! Starting a fork: everything is read again, checked, tried without effects, and written at once.
//!
//! Promise: the fork is there whole or not at all; starting the same fork under the same id again finds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::advance::drive::{DriveEnd, drive};
use crate::engine::code::code_of;
use crate::engine::create::store_values;
use crate::engine::forks::copy::Copied;
use crate::engine::forks::cut::Origin;
use crate::engine::forks::error::ForkError;
use crate::engine::forks::plan::{ForkPlan, OpenOrigin};
use crate::engine::handle::{AnyWorkflow, RunHandle};
use crate::engine::inner::{Engine, Inner, now};
use crate::engine::start::StartError;
use crate::engine::whole::whole;
use crate::journal::event::Event;
use crate::journal::event::forked::ForkedFrom;
use crate::journal::frame::{Frame, JournalError, StoredFrame};
use crate::journal::generation::Generation;
use crate::journal::history::History;
use crate::journal::large_values::{large, named_contents};
use crate::journal::obligations::Obligations;
use crate::journal::spending::Spending;
use crate::policy::replay::Mode;
use crate::run::claim::{Origin as Claim, Run};
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::open_waits::OpenWaits;
use crate::store::records::{Created, NewRun};
use crate::vocabulary::id::RunId;
use crate::vocabulary::net::in_net;
use crate::vocabulary::payload::hex;

/// How long a start waits for the end of an origin that this process does not advance.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// What stands between the id of a run and the number of its fork.
const FORKED: &str = "~fork-";
const RETRIED: &str = "~";

impl ForkPlan {
    /// Starts the fork; durable when it returns. The journal is read again: what was recorded since the plan was made is on
    /// the bill too. `actor` is recorded.
    ///
    /// # Errors
    /// [`ForkError::Undecided`] where nothing was decided about a call that may have changed the world;
    /// [`ForkError::StillOpen`] where the origin has not ended; [`ForkError::DoesNotFit`] where the linked code does not
    /// replay what is copied; others where a decision is not possible, or the store fails.
    pub async fn start(self, actor: &str) -> Result<RunHandle<AnyWorkflow>, ForkError> {
        let engine = self.engine.clone();
        let actor = actor.to_owned();
        let inner = Arc::clone(&engine.inner);
        whole(&inner, async move { self.start_whole(&actor).await }).await
    }

    async fn start_whole(self, actor: &str) -> Result<RunHandle<AnyWorkflow>, ForkError> {
        let engine = self.engine.clone();
        let inner = &engine.inner;
        let over = |error: crate::vocabulary::limits::OverLimit| ForkError::OverLimit {
            run: self.origin.clone(),
            reason: error.to_string(),
        };
        inner.shared.limits.check_text("actor", actor).map_err(over)?;
        if actor.trim().is_empty() {
            return Err(ForkError::NoActor { run: self.origin });
        }
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        self.end_origin_first(actor).await?;
        let Some(_admission) = inner.admit().await else {
            return Err(ForkError::ShutDown { run: self.origin });
        };
        let origin = Origin::load(inner, &self.origin).await?;
        let plan = Self::make(&engine, &origin, self.at.clone(), self.retry)?.with_decisions(&self);
        if !plan.status.is_terminal() && plan.open != OpenOrigin::LeaveRunning {
            return Err(ForkError::StillOpen { run: self.origin.clone(), status: plan.status });
        }
        plan.check()?;
        let mut seed = [0; 16];
        inner.shared.environment.fill_random(&mut seed);
        let (divided, _) = origin.divide(&plan.at)?;
        for id in plan.ids(&engine, origin.created.forked_from.is_some()).await? {
            let copied = plan.copy(&origin, &divided, &id, actor, hex(&seed))?;
            plan.try_replay(inner, &id, &copied).await?;
            match plan.write(inner, &id, copied).await? {
                Created::New => {
                    inner.wake_scheduler.notify_one();
                    return Ok(RunHandle::of(inner, id));
                }
                Created::OverLimit { limit, open } => {
                    let reason = format!("{open} runs are open, which is all that limit `{limit}` allows");
                    return Err(ForkError::OverLimit { run: self.origin.clone(), reason });
                }
                _ => {
                    let copied = plan.copy(&origin, &divided, &id, actor, hex(&seed))?;
                    if plan.is_there(inner, &id, &copied).await? {
                        return Ok(RunHandle::of(inner, id));
                    }
                    // Else another fork took the number.
                    if !plan.is_numbered() {
                        return Err(ForkError::IdTaken { run: self.origin.clone(), id });
                    }
                }
            }
        }
        let (run, id) = (self.origin.clone(), self.origin.clone());
        Err(ForkError::IdTaken { run, id })
    }

    /// Terminates an open origin, where that is asked for, and waits for its end.
    async fn end_origin_first(&self, actor: &str) -> Result<(), ForkError> {
        let OpenOrigin::Terminate(reason) = &self.open else { return Ok(()) };
        let handle = self.engine.find(self.origin.as_str()).await?;
        if handle.status().await?.is_terminal() {
            return Ok(());
        }
        // What cannot be forked is not ended for it.
        self.rehearse(actor).await?;
        handle.terminate(reason, actor).await?;
        // However it ended: its journal is read next. One that is parked or was stopped here is ended a moment later.
        if let RunEnd::Stopped(_) = handle.end().await? {
            self.until_ended(&handle).await?;
        }
        Ok(())
    }

    /// Checks and tries the fork of the origin as it is now, without writing anything.
    async fn rehearse(&self, actor: &str) -> Result<(), ForkError> {
        let (engine, inner) = (&self.engine, &self.engine.inner);
        let origin = Origin::load(inner, &self.origin).await?;
        let plan = Self::make(engine, &origin, self.at.clone(), self.retry)?.with_decisions(self);
        plan.check()?;
        let (divided, _) = origin.divide(&plan.at)?;
        let ids = plan.ids(engine, origin.created.forked_from.is_some()).await?;
        let Some(id) = ids.first() else { return Ok(()) };
        let copied = plan.copy(&origin, &divided, id, actor, String::new())?;
        plan.within_limits(inner, &copied)?;
        plan.try_replay(inner, id, &copied).await?;
        let is_taken = !plan.is_numbered() && inner.shared.store.run(id).await?.is_some();
        if is_taken && !plan.is_there(inner, id, &copied).await? {
            return Err(ForkError::IdTaken { run: self.origin.clone(), id: id.clone() });
        }
        Ok(())
    }

    fn within_limits(&self, inner: &Inner, copied: &Copied) -> Result<(), ForkError> {
        let (limit, count) = (inner.shared.limits.history, copied.events.len());
        if count as u64 > limit {
            let run = self.origin.clone();
            let reason = format!("{count} events are over the limit of {limit} (`Limits::history`)");
            return Err(ForkError::OverLimit { run, reason });
        }
        Ok(())
    }

    /// Waits until the origin has ended in the store, but not for ever: it may be one that nobody can claim.
    async fn until_ended(&self, handle: &RunHandle<AnyWorkflow>) -> Result<(), ForkError> {
        let inner = &self.engine.inner;
        let until = inner.shared.environment.monotonic().saturating_add(ENDS_WITHIN);
        while !handle.status().await?.is_terminal() && inner.shared.environment.monotonic() < until {
            if inner.is_stopping() {
                return Err(ForkError::ShutDown { run: self.origin.clone() });
            }
            inner.shared.environment.sleep(inner.settings.poll / 2).await;
        }
        Ok(())
    }

    /// The ids to try, the first one first.
    async fn ids(&self, engine: &Engine, is_fork: bool) -> Result<Vec<RunId>, ForkError> {
        if let Some(id) = &self.id {
            return Ok(vec![RunId::new(id.as_str())?]);
        }
        if self.retry {
            let origin = self.origin.as_str();
            let (root, number) = if is_fork { retried(origin) } else { (origin, 1) };
            return Ok(vec![RunId::new(format!("{root}{RETRIED}{}", number + 1))?]);
        }
        let prefix = format!("{}{FORKED}", self.origin);
        let taken = numbered(engine, &prefix).await?.into_iter().map(|(number, _)| number).collect();
        free(&taken).take(16).map(|number| Ok(RunId::new(format!("{prefix}{number}"))?)).collect()
    }

    /// Replays what is copied under the linked code, without effects. A program that does not link the workflow only
    /// writes the fork.
    async fn try_replay(&self, inner: &Arc<Inner>, id: &RunId, copied: &Copied) -> Result<(), ForkError> {
        let created = &copied.created;
        let Some(workflow) = inner.linked(&created.code()) else { return Ok(()) };
        let events = copied.events.iter().skip(1).cloned();
        let claim = Claim {
            id: id.clone(),
            def: workflow.def,
            epoch: 0,
            mode: Mode::Verify,
            seed: created.seed.clone(),
            traceparent: None,
            next: copied.events.len() as u64,
            history: History::fold(events),
            obligations: Obligations::fold(&copied.events),
            spending: Spending::fold(&copied.events),
            open_waits: OpenWaits::default(),
            inbox: Vec::new(),
            effects: Vec::new(),
            streams: Vec::new(),
            adopts: None,
            parked: None,
            same_code: false,
            read_since: None,
            birth: None,
            queued: false,
            generation: Generation::default(),
        };
        let run = Run::new(Arc::clone(&inner.shared), claim);
        let misfit = |fault| ForkError::DoesNotFit { run: self.origin.clone(), fault: Box::new(fault) };
        let body = in_net(|| workflow.run(Arc::clone(&run), None, &created.input))
            .map_err(|message| inner.shared.redaction.text(message))
            .map_err(|message| misfit(Fault::Panicked { run: id.clone(), message }))?;
        let body = body.map_err(|error| {
            let workflow = created.workflow.clone();
            misfit(Fault::Input { run: id.clone(), workflow, error })
        })?;
        match drive(&run, body).await {
            DriveEnd::Fault(Fault::Unrecorded { .. }) => {}
            DriveEnd::Fault(fault) => return Err(misfit(fault)),
            _ => {}
        }
        run.leftover().map_or(Ok(()), |fault| Err(misfit(fault)))
    }

    async fn write(&self, inner: &Inner, id: &RunId, copied: Copied) -> Result<Created, ForkError> {
        let shared = &inner.shared;
        self.within_limits(inner, &copied)?;
        let Copied { created, events, ledger } = copied;
        let large_values = large(&events, shared.limits.inline);
        shared.store.announce(id, &created.labels);
        let frame = Frame::referring(&events, &large_values).map_err(|error| StoreError::Unencodable {
            what: format!("the fork of run `{}`", self.origin),
            reason: error.to_string(),
        })?;
        let texts = large_values.iter().map(|large| large.value.as_str()).chain([&*frame.text]);
        let contents: BTreeSet<String> = texts.flat_map(named_contents).map(str::to_owned).collect();
        store_values(inner, id, &large_values).await?;
        self.copy_contents(inner, id, &contents).await?;
        // The code that was just seen to fit it; without it, whoever has the code that recorded the origin.
        let code =
            inner.linked(&created.code()).map_or_else(|| created.code().id(), |linked| code_of(linked.def));
        let new = NewRun {
            id: id.clone(),
            code,
            workflow: created.workflow,
            version: created.version,
            digest: created.digest,
            parent: None,
            labels: created.labels,
            traceparent: None,
            frame,
            at: now(inner),
            owner: None,
            parent_epoch: None,
            terms: created.terms,
        };
        let answer = shared.store.create_fork(new, ledger).await?;
        // As for any run, see `create`.
        if answer == Created::New {
            store_values(inner, id, &large_values).await?;
            self.copy_contents(inner, id, &contents).await?;
        }
        Ok(answer)
    }

    /// Stores what the origin has of these contents for the fork.
    async fn copy_contents(
        &self,
        inner: &Inner,
        id: &RunId,
        contents: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let store = &inner.shared.store;
        for name in contents {
            if let Some(bytes) = store.blob(&self.origin, name).await? {
                store.put_blob(id, name, bytes).await?;
            }
        }
        Ok(())
    }

    /// Whether its id is made of a number of its own.
    fn is_numbered(&self) -> bool {
        self.id.is_none() && !self.retry
    }

    /// Whether the run `id` is this fork: where ids are numbered by this very start, else also by an earlier one that
    /// decided the same.
    async fn is_there(&self, inner: &Inner, id: &RunId, copied: &Copied) -> Result<bool, ForkError> {
        let store = &*inner.shared.store;
        let frames = store.load_page(id, 0, 1).await?;
        let found = crate::store::read::events(store, id, &frames).await?;
        let Some(Event::RunCreated(created)) = found.first() else { return Ok(false) };
        let from = created.forked_from.as_ref();
        if from.is_none_or(|from| from.run != self.origin || from.position != self.position) {
            return Ok(false);
        }
        if self.is_numbered() {
            return Ok(created.seed == copied.created.seed);
        }
        // Nobody knows of one that has continued as new.
        let is_renewed = matches!(found.get(1), Some(Event::RunContinued(_)));
        Ok(is_renewed || decided(&found) == decided(&copied.events))
    }
}

/// What the first events of a fork say, behind the one that made it, and without what the bill says of calls beside what was
/// decided.
fn decided(events: &[Event]) -> Option<Vec<String>> {
    let told = |event: &Event| match event {
        Event::ForkDecided(e) => Some(format!("{} of {}", e.decision, e.origin)),
        other => serde_json::to_string(other).ok(),
    };
    events.iter().skip(1).map(told).collect()
}

/// The run that `id` is a fork of.
async fn forked_from(inner: &Inner, id: &RunId) -> Result<Option<ForkedFrom>, StoreError> {
    let frames = inner.shared.store.load_page(id, 0, 1).await?;
    let events = frames.first().map_or(Ok(Vec::new()), StoredFrame::events);
    let unreadable = |error: JournalError| StoreError::Corrupt {
        store: inner.shared.store.describe(),
        reason: format!("run `{id}`: {error}"),
    };
    match events.map_err(unreadable)?.into_iter().next() {
        Some(Event::RunCreated(created)) => Ok(created.forked_from),
        _ => Ok(None),
    }
}

impl Engine {
    /// A handle to the newest retry of the run with this id, or to the run itself where it was not retried.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = engine.latest("claim-7").await?;
    /// println!("{} is {}", run.id(), run.status().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError`] when there is neither.
    pub async fn latest(&self, id: impl Into<String>) -> Result<RunHandle<AnyWorkflow>, StartError> {
        let id = RunId::new(id)?;
        for (_, retry) in numbered(self, &format!("{id}{RETRIED}")).await? {
            // A program may have given such an id to a run of its own.
            if forked_from(&self.inner, &retry).await?.is_some() {
                return self.find(retry.as_str()).await;
            }
        }
        self.find(id.as_str()).await
    }
}

/// The runs whose ids are `prefix` and a number, the highest first.
async fn numbered(engine: &Engine, prefix: &str) -> Result<Vec<(u64, RunId)>, StoreError> {
    let filter = RunFilter { id_prefix: Some(prefix.to_owned()), ..RunFilter::new() };
    let runs = engine.runs(filter).await?.into_iter();
    let numbers = runs.filter_map(|run| Some((number(run.id.as_str().strip_prefix(prefix)?)?, run.id)));
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// A number as it is written behind an id.
fn number(text: &str) -> Option<u64> {
    let number = text.parse().ok()?;
    (number > 0 && text == format!("{number}")).then_some(number)
}

/// Numbers from 1 that are not taken, those above all that are first. A program may have taken the highest that there is.
fn free(taken: &BTreeSet<u64>) -> impl Iterator<Item = u64> {
    let above = taken.last().map_or(1, |newest| newest.saturating_add(1));
    (above..=u64::MAX).chain(1..above).filter(|number| !taken.contains(number))
}

/// The id that a run was first started under, and the number of its try, from 1. A number behind which there is none was
/// given by a program.
fn retried(id: &str) -> (&str, u64) {
    let tried = id.rsplit_once(RETRIED).and_then(|(root, tail)| Some((root, number(tail)?)));
    tried.filter(|(_, number)| (2..u64::MAX).contains(number)).unwrap_or((id, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_gets_a_number_that_is_free_whatever_numbers_programs_have_taken() {
        let first = |taken: &[u64]| free(&taken.iter().copied().collect()).take(3).collect::<Vec<_>>();
        assert_eq!(first(&[]), [1, 2, 3]);
        assert_eq!(first(&[1, 2, 7]), [8, 9, 10]);
        assert_eq!(first(&[u64::MAX - 1]), [u64::MAX, 1, 2]);
        assert_eq!(first(&[1, 3, u64::MAX]), [2, 4, 5]);
    }

    #[test]
    fn a_try_is_known_by_a_number_behind_which_there_is_another_one() {
        let cases = [
            ("claim", ("claim", 1)),
            ("claim~2", ("claim", 2)),
            ("claim~2~7", ("claim~2", 7)),
            ("claim~1", ("claim~1", 1)),
            ("claim~02", ("claim~02", 1)),
            ("claim~18446744073709551614", ("claim", u64::MAX - 1)),
            ("claim~18446744073709551615", ("claim~18446744073709551615", 1)),
            ("claim~18446744073709551616", ("claim~18446744073709551616", 1)),
        ];
        for (id, known) in cases {
            assert_eq!(retried(id), known, "{id}");
        }
    }
}
