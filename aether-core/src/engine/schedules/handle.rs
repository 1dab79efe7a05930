//! What an operator does with a schedule.
//!
//! Promise: each change is one write that no other change gets lost in.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::engine::admission::Admission;
use crate::engine::create::{NewRunOf, create_decided, create_run};
use crate::engine::handle::{AnyWorkflow, RunHandle};
use crate::engine::inner::{Inner, now};
use crate::engine::schedules::decision::{aim, cron_of};
use crate::engine::schedules::error::ScheduleError;
use crate::engine::start::StartError;
use crate::engine::started_as::is_or_was;
use crate::engine::whole::whole;
use crate::run::program::RegisteredWorkflow;
use crate::store::records::{Created, Decision, RunRecord};
use crate::store::schedules::{ScheduleRecord, ScheduleSpec, Tick, TickOutcome, run_of_tick};
use crate::vocabulary::id::RunId;
use crate::vocabulary::queue::StartTerms;

/// A schedule that is declared. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schedule {
    name: Arc<str>,
    pub(super) inner: Arc<Inner>,
}

impl Schedule {
    pub(super) fn new(inner: Arc<Inner>, name: &str) -> Self {
        Self { name: name.into(), inner }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schedule as it is now: what it starts, its next tick, and what became of the newest ones.
    ///
    /// ```
    /// # use aether_core::engine::{Schedule, ScheduleError};
    /// # async fn example(schedule: &Schedule) -> Result<(), ScheduleError> {
    /// for tick in schedule.record().await?.recent {
    ///     println!("{}: {:?}", tick.at, tick.outcome);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when it was removed.
    pub async fn record(&self) -> Result<ScheduleRecord, ScheduleError> {
        find(&self.inner, &self.name).await
    }

    /// Starts nothing from now on, until [`Schedule::resume`]: ticks that are due and not started are missed. Runs that were
    /// started go on, also where a tick was to end them. One that a worker is about to start, or to end, at this very moment
    /// may still be. Pausing a paused schedule does nothing.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when it was removed.
    pub async fn pause(&self) -> Result<(), ScheduleError> {
        change(&self.inner, &self.name, |schedule| {
            schedule.paused = true;
            let starting = std::mem::take(&mut schedule.starting);
            if let (Some(&at), Some(&until)) = (starting.first(), starting.last()) {
                let noted_at = Some(now(&self.inner));
                schedule.keep(Tick { at, until, outcome: TickOutcome::Missed, noted_at });
            }
        })
        .await
    }

    /// Ends a pause: the next tick after now is the first. What ticked during the pause is not caught up with.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when it was removed, and [`ScheduleError::Cron`] when its expression cannot be read any
    /// more, for example because the zone is missing from this machine's database.
    pub async fn resume(&self) -> Result<(), ScheduleError> {
        let now = now(&self.inner);
        let mut unreadable = None;
        change(&self.inner, &self.name, |schedule| {
            // By the declaration that is resumed: another program may have changed it a moment ago.
            match cron_of(&schedule.spec) {
                Ok(cron) => {
                    unreadable = None;
                    if std::mem::take(&mut schedule.paused) {
                        aim(schedule, &cron, cron.due_after(now));
                    }
                }
                Err(error) => unreadable = Some(error),
            }
        })
        .await?;
        if let Some(error) = unreadable {
            return Err(error.into());
        }
        self.inner.wake_ticking.notify_one();
        Ok(())
    }

    /// Starts a run now, whatever else is running and also while the schedule is paused.
    ///
    /// ```
    /// # use aether_core::engine::{Schedule, ScheduleError};
    /// # async fn example(schedule: &Schedule) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = schedule.trigger().await?;
    /// println!("{} is {}", run.id(), run.status().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when it was removed, [`ScheduleError::NotLinked`] when its workflow is not linked here,
    /// and [`ScheduleError::Start`] when the run cannot be started.
    pub async fn trigger(&self) -> Result<RunHandle<AnyWorkflow>, ScheduleError> {
        let mut tick = now(&self.inner);
        loop {
            if let (id, true) = self.start_by_hand(tick).await? {
                return Ok(RunHandle::of(&self.inner, id));
            }
            // Another call was made at the same time by this clock.
            tick = tick.saturating_add(SignedDuration::from_micros(1)).unwrap_or(Timestamp::MAX);
        }
    }

    /// Starts the run of the tick at `time`, unless it was started: for a tick that was missed, or that was before the
    /// schedule. [`Schedule::backfill`] starts those of a whole time.
    ///
    /// ```
    /// # use aether_core::engine::{Schedule, ScheduleError};
    /// # async fn example(schedule: &Schedule) -> Result<(), Box<dyn std::error::Error>> {
    /// schedule.trigger_for("2026-11-01T03:00:00Z".parse()?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Schedule::trigger`].
    pub async fn trigger_for(&self, time: Timestamp) -> Result<RunHandle<AnyWorkflow>, ScheduleError> {
        let (id, _) = self.start_by_hand(time).await?;
        Ok(RunHandle::of(&self.inner, id))
    }

    /// Starts the run of a tick for an operator and notes that; says whether it is new. Done to its end: a caller that is
    /// dropped leaves no run that is not noted.
    async fn start_by_hand(&self, tick: Timestamp) -> Result<(RunId, bool), ScheduleError> {
        let schedule = self.clone();
        let started = async move {
            let admission = schedule.admit(tick).await?;
            let record = schedule.record().await?;
            let started = start(&schedule.inner, &record, tick, admission.clone()).await?;
            if started.1 {
                schedule.note(tick, tick, TickOutcome::Triggered).await?;
            }
            Ok(started)
        };
        whole(&self.inner, started).await
    }

    /// A shutdown waits for what is written under it, and nothing is written behind that.
    pub(super) async fn admit(&self, tick: Timestamp) -> Result<Admission, ScheduleError> {
        match self.inner.admit().await {
            Some(admission) => Ok(admission),
            None => Err(StartError::ShutDown { run: run_id(&self.name, tick)? }.into()),
        }
    }

    /// Keeps what became of ticks that an operator had started.
    pub(super) async fn note(
        &self,
        at: Timestamp,
        until: Timestamp,
        outcome: TickOutcome,
    ) -> Result<(), ScheduleError> {
        let tick = Tick { at, until, outcome, noted_at: Some(now(&self.inner)) };
        match change(&self.inner, &self.name, |schedule| schedule.keep(tick.clone())).await {
            // It was removed meanwhile; the run was started.
            Err(ScheduleError::Unknown { .. }) => Ok(()),
            noted => noted,
        }
    }

    /// Deletes the schedule; says whether it was there. The runs that it started stay.
    ///
    /// # Errors
    /// [`ScheduleError::Store`] when the store failed.
    pub async fn remove(&self) -> Result<bool, ScheduleError> {
        Ok(self.inner.shared.store.remove_schedule(&self.name).await?)
    }
}

/// Id of the run of a tick.
pub(super) fn run_id(schedule: &str, tick: Timestamp) -> Result<RunId, ScheduleError> {
    run_of_tick(schedule, tick).map_err(|error| ScheduleError::Name { name: schedule.into(), error })
}

pub(super) async fn find(inner: &Inner, name: &str) -> Result<ScheduleRecord, ScheduleError> {
    let unknown = || ScheduleError::Unknown { name: name.into() };
    inner.shared.store.schedule(name).await?.ok_or_else(unknown)
}

/// Changes a schedule, again and again until no other change came between reading and writing it.
pub(super) async fn change(
    inner: &Inner,
    name: &str,
    mut edit: impl FnMut(&mut ScheduleRecord),
) -> Result<(), ScheduleError> {
    loop {
        let old = find(inner, name).await?;
        let mut new = old.clone();
        edit(&mut new);
        if replace(inner, &old, new).await? {
            return Ok(());
        }
    }
}

/// Writes a schedule in place of the one that it was made of; says whether that was still there.
pub(super) async fn replace(
    inner: &Inner,
    old: &ScheduleRecord,
    mut new: ScheduleRecord,
) -> Result<bool, ScheduleError> {
    if new == *old {
        return Ok(true);
    }
    new.revision = old.revision + 1;
    Ok(inner.shared.store.put_schedule(new, old.revision).await?)
}

/// The workflow that a schedule starts, where it is linked here: of the same name and in the same module. A newer version
/// stands in for one that is not linked, an older one does not: a worker that has the newer one starts it.
pub(super) fn linked(inner: &Inner, schedule: &ScheduleRecord) -> Option<RegisteredWorkflow> {
    let ScheduleSpec { workflow, module, version, .. } = &schedule.spec;
    let linked = inner.workflow(workflow, module, *version);
    linked.filter(|linked| linked.def.module == module && linked.def.version >= *version)
}

/// Starts the run of a tick, and says whether it is new; a run that exists is the same.
pub(super) async fn start(
    inner: &Arc<Inner>,
    schedule: &ScheduleRecord,
    tick: Timestamp,
    admission: Admission,
) -> Result<(RunId, bool), ScheduleError> {
    let (id, new) = run_of(inner, schedule, tick)?;
    match create_run(inner, new, admission).await? {
        Created::Existing(existing) => found(inner, schedule, &existing).await?,
        _ => return Ok((id, true)),
    }
    Ok((id, false))
}

/// Starts the run of a tick that is decided, as long as nobody has changed the schedule since it was read; says whether the
/// run is there.
pub(super) async fn start_decided(
    inner: &Arc<Inner>,
    schedule: &ScheduleRecord,
    tick: Timestamp,
    admission: &Admission,
) -> Result<bool, ScheduleError> {
    let (_, new) = run_of(inner, schedule, tick)?;
    let decision = Decision::Schedule { name: schedule.name.clone(), revision: schedule.revision };
    match create_decided(inner, new, decision, admission.clone()).await? {
        Created::DecisionGone => return Ok(false),
        Created::Existing(existing) => found(inner, schedule, &existing).await?,
        _ => {}
    }
    Ok(true)
}

/// The run of a tick, as it is to be created.
fn run_of(
    inner: &Arc<Inner>,
    schedule: &ScheduleRecord,
    tick: Timestamp,
) -> Result<(RunId, NewRunOf), ScheduleError> {
    let ScheduleRecord { name, spec, .. } = schedule;
    let ScheduleSpec { workflow, input, labels, .. } = spec;
    let id = run_id(name, tick)?;
    let not_linked = || ScheduleError::NotLinked { name: name.clone(), workflow: workflow.clone() };
    let registered = linked(inner, schedule).ok_or_else(not_linked)?;
    let new = NewRunOf {
        workflow: registered,
        id: id.clone(),
        input: input.clone(),
        parent: None,
        labels: labels.clone(),
        traceparent: None,
        parent_epoch: None,
        terms: StartTerms::default(),
        unique: false,
    };
    Ok((id, new))
}

/// Looks at a run that has the id of a tick's.
async fn found(inner: &Inner, schedule: &ScheduleRecord, existing: &RunRecord) -> Result<(), ScheduleError> {
    // With another input, too: the schedule was changed after the run was started, and a tick has one run.
    if !is_or_was(&*inner.shared.store, existing, &schedule.spec.workflow).await? {
        let (run, workflow) = (existing.id.clone(), existing.workflow.clone());
        let difference = "another workflow";
        return Err(StartError::IdTaken { run, workflow, difference }.into());
    }
    inner.wake_scheduler.notify_one();
    Ok(())
}
