//! Declaring a schedule.
//!
//! Promise: declaring the same schedule again changes nothing; a changed one keeps its name, its pause and what became of
//! its ticks.

use std::any::{Any, type_name};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::engine::inner::{Engine, Inner, now};
use crate::engine::schedules::decision::{aim, cron_of, settle};
use crate::engine::schedules::error::ScheduleError;
use crate::engine::schedules::handle::{Schedule, find, replace, run_id};
use crate::engine::schedules::ticking::is_open;
use crate::policy::cron::Cron;
use crate::run::program::RegisteredWorkflow;
use crate::store::schedules::{CatchUp, Overlap, ScheduleRecord, ScheduleSpec};
use crate::vocabulary::clock_change::{Gap, Repeat};
use crate::vocabulary::labels::{LabelError, Labels};
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::vocabulary::waiting::millis;
use crate::workflow::definition::Workflow;

impl Engine {
    /// Declares a schedule: at every tick of the cron expression, read in the time zone, a run of workflow `W` is started.
    /// Await it to get a handle; the schedule is durable then.
    ///
    /// A program declares its schedules each time that it starts. Declaring the same schedule again changes nothing; a
    /// changed one takes effect from now on. A schedule that a program no longer declares stays until
    /// [`Schedule::remove`].
    ///
    /// The run of a tick has the id `schedule:<name>:<time>`, so a tick has one run, however many programs of one store
    /// look. Within the run [`Cx::scheduled_for`](crate::workflow::Cx::scheduled_for) is the time of the tick. See [`Cron`]
    /// for the expression and for what happens where clocks change.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::failure::Failure;
    /// # use aether_core::store::{CatchUp, Overlap};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly, report>(engine: &Engine) -> Result<(), ScheduleError>
    /// # where nightly: Workflow<Input = ()>, report: Workflow<Input = String> {
    /// // `nightly` and `report` are async functions with `#[workflow]`.
    /// engine.schedule::<nightly>("0 3 * * *", "Europe/Berlin").await?;
    ///
    /// let report = engine
    ///     .schedule::<report>("0 8 * * MON", "America/New_York")
    ///     .input("acme".to_owned())
    ///     .name("report-acme")
    ///     .overlap(Overlap::Wait)
    ///     .catch_up(CatchUp::All(4))
    ///     .await?;
    /// println!("the next report is due at {}", report.record().await?.next);
    /// # Ok(()) }
    /// ```
    pub fn schedule<W: Workflow>(
        &self,
        expression: impl Into<String>,
        zone: impl Into<String>,
    ) -> NewSchedule<'_, W> {
        NewSchedule {
            engine: self,
            name: W::DEF.name.into(),
            expression: expression.into(),
            zone: zone.into(),
            input: None,
            labels: Ok(Labels::default()),
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter: Duration::ZERO,
            gap: Gap::default(),
            repeat: Repeat::default(),
            workflow: PhantomData,
        }
    }

    /// All schedules of the store, by name.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # async fn example(engine: &Engine) -> Result<(), ScheduleError> {
    /// for schedule in engine.schedules().await? {
    ///     println!("{}: {} {}, next {}", schedule.name, schedule.spec.cron, schedule.spec.zone, schedule.next);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError::Store`] when the store failed.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRecord>, ScheduleError> {
        Ok(self.inner.shared.store.schedules(None, 0).await?)
    }

    /// A handle to an existing schedule.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # async fn example(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.find_schedule("nightly").await?.pause().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when there is none of that name.
    pub async fn find_schedule(&self, name: &str) -> Result<Schedule, ScheduleError> {
        let schedule = Schedule::new(self.inner.clone(), name);
        schedule.record().await.map(|_| schedule)
    }
}

/// A schedule to be declared by [`Engine::schedule`]. Await it.
#[must_use = "a schedule is declared when this is awaited"]
#[derive(Debug)]
pub struct NewSchedule<'e, W: Workflow> {
    engine: &'e Engine,
    name: String,
    expression: String,
    zone: String,
    input: Option<Result<Payload, PayloadError>>,
    labels: Result<Labels, LabelError>,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter: Duration,
    gap: Gap,
    repeat: Repeat,
    workflow: PhantomData<fn() -> W>,
}

impl<'e, W: Workflow> NewSchedule<'e, W> {
    /// The input of its runs. Needed unless the workflow takes none.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<report: Workflow<Input = String>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<report>("0 8 * * MON", "UTC").input("acme".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    pub fn input(mut self, input: W::Input) -> Self {
        self.input = Some(W::encode(&input));
        self
    }

    /// Names the schedule; without it, it is called like its workflow. Several schedules of one workflow need names.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<report: Workflow<Input = String>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// for customer in ["acme", "globex"] {
    ///     let name = format!("report-{customer}");
    ///     engine.schedule::<report>("@weekly", "UTC").input(customer.to_owned()).name(name).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Puts a label on its runs, as [`StartRun::label`](crate::engine::StartRun::label) does.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("0 3 * * *", "UTC").label("kind", "report").await?;
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels = self.labels.and_then(|labels| labels.with(key, value));
        self
    }

    /// What happens to a tick while the run of an earlier one is open; by default it is skipped.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::store::Overlap;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("0 3 * * *", "UTC").overlap(Overlap::Wait).await?;
    /// # Ok(()) }
    /// ```
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What happens to ticks that were missed; by default the newest is started.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::store::CatchUp;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("0 3 * * *", "UTC").catch_up(CatchUp::None).await?;
    /// # Ok(()) }
    /// ```
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Starts each tick somewhat after its time, by less than `jitter`, so that many schedules do not start at the same
    /// moment. A tick's delay follows from the schedule's name and the tick, and is below the time until the next tick. The
    /// run's id, and [`Cx::scheduled_for`](crate::workflow::Cx::scheduled_for), are those of the tick.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # use std::time::Duration;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("0 3 * * *", "UTC").jitter(Duration::from_secs(15 * 60)).await?;
    /// # Ok(()) }
    /// ```
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// What becomes of a time of day that is skipped because clocks are put forward; by default it ticks at the change.
    ///
    /// ```
    /// # use aether_core::clock_change::Gap;
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("30 2 * * *", "Europe/Berlin").gap(Gap::Skip).await?;
    /// # Ok(()) }
    /// ```
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// What becomes of a time of day that comes twice because clocks are put back; by default the first time ticks.
    ///
    /// ```
    /// # use aether_core::clock_change::Repeat;
    /// # use aether_core::engine::{Engine, ScheduleError};
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<nightly: Workflow<Input = ()>>(engine: &Engine) -> Result<(), ScheduleError> {
    /// engine.schedule::<nightly>("30 2 * * *", "Europe/Berlin").repeat(Repeat::Twice).await?;
    /// # Ok(()) }
    /// ```
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    fn checked(self) -> Result<(&'e Engine, String, ScheduleSpec, Cron), ScheduleError> {
        let Self {
            engine,
            name,
            expression,
            zone,
            input,
            labels,
            overlap,
            catch_up,
            jitter,
            gap,
            repeat,
            ..
        } = self;
        let cron = Cron::parse(&expression, &zone)?;
        // The longest ids, of a tick that was asked for by hand in the last year of the calendar.
        run_id(&name, Timestamp::MAX)?;
        // Nothing at all, where that is what the workflow takes.
        let nothing = || (Box::new(()) as Box<dyn Any>).downcast::<W::Input>().ok();
        let Some(input) = input.or_else(|| nothing().map(|nothing| W::encode(&nothing))) else {
            let (workflow, input) = (W::DEF.name, type_name::<W::Input>());
            return Err(ScheduleError::NoInput { name, workflow, input });
        };
        let input = input.map_err(|error| ScheduleError::Input { name: name.clone(), error })?;
        let input = engine.inner.shared.redaction.value(input);
        if matches!(catch_up, CatchUp::All(_)) && !matches!(overlap, Overlap::Wait | Overlap::Allow) {
            return Err(ScheduleError::SkippedCatchUp { name });
        }
        let labels = labels.map_err(|error| ScheduleError::Label { name: name.clone(), error })?;
        let (size, limit) = (input.as_str().len(), engine.inner.shared.limits.payload);
        if size > limit {
            return Err(ScheduleError::TooLarge { name, size, limit });
        }
        let (workflow, module, version) = (W::DEF.name.into(), W::DEF.module.into(), W::DEF.version);
        let cron_text = cron.expression().to_owned();
        let spec = ScheduleSpec {
            workflow,
            module,
            version,
            input,
            labels,
            cron: cron_text,
            zone,
            overlap,
            catch_up,
            jitter_ms: millis(jitter),
            gap,
            repeat,
        };
        let cron = cron_of(&spec)?;
        Ok((engine, name, spec, cron))
    }
}

impl<'e, W: Workflow> IntoFuture for NewSchedule<'e, W> {
    type Output = Result<Schedule, ScheduleError>;
    type IntoFuture = BoxFuture<'e, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (engine, name, spec, cron) = self.checked()?;
            let inner = &engine.inner;
            inner.register(RegisteredWorkflow::of::<W>());
            let created_at = now(inner);
            let next = cron.due_after(created_at);
            let mut first = ScheduleRecord {
                name: name.clone(),
                spec: spec.clone(),
                paused: false,
                next,
                delay_ms: 0,
                starting: Vec::new(),
                last: None,
                recent: Vec::new(),
                created_at,
                // Two schedules of one name, one after the other, share no revision.
                revision: u64::try_from(created_at.as_microsecond()).unwrap_or(0).max(1),
            };
            aim(&mut first, &cron, next);
            let store = &inner.shared.store;
            let is_new = store.schedule(&name).await?.is_none() && store.put_schedule(first, 0).await?;
            if !is_new {
                while !redeclare(inner, &name, &spec, &cron).await? {}
            }
            inner.wake_ticking.notify_one();
            Ok(Schedule::new(inner.clone(), &name))
        })
    }
}

/// Changes a schedule to what is declared now; `false` where another change came in between. What is due by the former
/// declaration is decided by how this very record stands.
async fn redeclare(
    inner: &Inner,
    name: &str,
    spec: &ScheduleSpec,
    cron: &Cron,
) -> Result<bool, ScheduleError> {
    let old = find(inner, name).await?;
    let (mut new, now) = (old.clone(), now(inner));
    if ticks(&old.spec) != ticks(spec) {
        // A zone that this machine does not know says nothing of what is due.
        if let Ok(former) = cron_of(&old.spec) {
            // Where that cannot be read, nothing is started beside it.
            let open = is_open(inner, &old).await.unwrap_or(true);
            new = settle(&old, &former, now, open);
        }
        new.next = cron.due_after(now);
    }
    new.spec = spec.clone();
    let next = new.next;
    aim(&mut new, cron, next);
    replace(inner, &old, new).await
}

/// What says when a schedule ticks.
fn ticks(spec: &ScheduleSpec) -> impl PartialEq + use<'_> {
    (&spec.cron, &spec.zone, spec.gap, spec.repeat)
}
