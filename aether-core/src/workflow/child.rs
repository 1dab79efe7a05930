//! Child runs: a workflow started by a workflow, with a run and a journal of its own.
//!
//! Promise: the child's id follows from the parent's command, or is the caller's own, so a parent that is replayed
//! finds the child it started and never starts a second one; a run that is not this command's child is not treated as
//! one; a child that was not detached is asked to end when its parent ends.

use std::fmt::{self, Debug};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::journal::event::reserved::Reserved;
use crate::journal::event::{
    ChildReleased, ChildStarted, CommandCommitted, Event, ForkDecided, NodeFinished, NodeStarted,
    OutcomeKept, StepCommitted,
};
use crate::journal::history::record::{CommandDetails, CommandRecord, RecordedResult};
use crate::run::append::AppendExtras;
use crate::run::budgets::{Grant, GrantTo};
use crate::run::claim::Run;
use crate::run::fault::CommandSummary;
use crate::run::matcher::Matched;
use crate::run::program::{ChildEnd, ChildStart, Children, NewChild, RegisteredWorkflow};
use crate::run::requested::{Requested, is_same};
use crate::sched::Mutex;
use crate::step::recordable::RecordableError;
use crate::vocabulary::budget::{Budget, BudgetScope, OverBudget, Spend};
use crate::vocabulary::contract::Constraints;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::{CommandId, RunId, RunIdError};
use crate::vocabulary::labels::{LabelError, Labels};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};
use crate::vocabulary::trace::SpanName;
use crate::workflow::context::Cx;
use crate::workflow::definition::Workflow;
use crate::workflow::gate::{BoxEffect, Effect, recorded_wrapper};
use crate::workflow::reading::{Sites, read_answer, read_recorded};
use crate::workflow::ticket::Ticket;

/// How a child is started.
#[derive(Debug, Default)]
struct ChildOptions {
    id: Option<String>,
    labels: Vec<(String, String)>,
    detached: bool,
    budget: Option<Budget>,
}

/// The effect of [`Cx::child`], and of [`Cx::start_child`] for a detached child.
#[must_use = "an effect does nothing until it is awaited"]
#[derive(Debug)]
pub struct Child<F> {
    effect: Effect<F>,
    options: Arc<Mutex<ChildOptions>>,
}

impl<F> Child<F> {
    /// Names the child; without it, its id is `<run>/<command>`. Starting the same child again from the same command finds
    /// it. Where the id belongs to another run, the step error is `Rejected`.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let letters = cx.child::<chapter>(text).id("book-1-chapter-1").await?;
    /// # Ok(()) }
    /// ```
    pub fn id(self, id: impl Into<String>) -> Self {
        lock(&self.options).id = Some(id.into());
        self
    }

    /// Gives the child a label, by which lists find it; see
    /// [`StartRun::label`](crate::engine::StartRun::label). A child has no labels of its parent's. With a label that is
    /// over a limit, the step error is `Unrecordable`.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let letters = cx.child::<chapter>(text).label("book", "moby-dick").await?;
    /// # Ok(()) }
    /// ```
    pub fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        lock(&self.options).labels.push((key.into(), value.into()));
        self
    }

    /// Limits what the child may take, children of its own included. Where budgets hold around the call, the child is granted
    /// so much of what they have left, and what it did not take comes back with its end. Without this, it is granted all
    /// that is left: children side by side then wait for each other.
    ///
    /// ```
    /// # use aether_core::budget::Budget;
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let letters = cx.child::<chapter>(text).budget(Budget::new().tokens(10_000)).await?;
    /// # Ok(()) }
    /// ```
    pub fn budget(self, budget: Budget) -> Self {
        lock(&self.options).budget = Some(budget);
        self
    }

    /// Lets the child continue when its parent ends. Otherwise it is then cancelled, or terminated with a terminated
    /// parent.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let letters = cx.child::<chapter>(text).detached().await?;
    /// # Ok(()) }
    /// ```
    pub fn detached(self) -> Self {
        lock(&self.options).detached = true;
        self
    }
}

fn labeled(labels: Vec<(String, String)>) -> Result<Labels, LabelError> {
    labels.into_iter().try_fold(Labels::default(), |all, (key, value)| all.with(key, value))
}

impl<F: Future> Child<F> {
    /// The same child with the value of its effect in another form.
    pub(super) fn converted<U>(self, convert: impl FnOnce(F::Output) -> U) -> Child<impl Future<Output = U>> {
        let Self { effect, options } = self;
        Child { effect: effect.converted(convert), options }
    }
}

fn lock(options: &Mutex<ChildOptions>) -> std::sync::MutexGuard<'_, ChildOptions> {
    options.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Future> Future for Child<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.effect).poll(cx)
    }
}

recorded_wrapper!(Child<F>, effect);

/// A child run that was started and is not waited for; comes from [`Cx::start_child`]. When the handle is dropped the child
/// continues until its parent ends.
#[must_use = "wait for it with `.result(cx)`, or let it continue alone with `.detach(cx)`"]
pub struct ChildRun<W> {
    id: RunId,
    workflow: PhantomData<fn() -> W>,
}

impl<W> ChildRun<W> {
    pub(super) fn of(id: RunId) -> Self {
        Self { id, workflow: PhantomData }
    }

    /// The child's id.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).await?;
    /// println!("started {}", child.id());
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> &RunId {
        &self.id
    }
}

impl<W> Clone for ChildRun<W> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), workflow: PhantomData }
    }
}

impl<W> Debug for ChildRun<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChildRun({})", self.id)
    }
}

impl Cx {
    /// Runs workflow `W` as a run of its own and waits for its result. The child's id is `<run>/<command>`, or the one
    /// given with `.id(..)`.
    ///
    /// The step error is `App` with the child's own error, `Cancelled`, or `Rejected` where the id belongs to a run that is
    /// not this command's child or has another input.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let letters: usize = cx.child::<chapter>(text).await?;
    /// # Ok(()) }
    /// ```
    pub fn child<W: Workflow>(
        &mut self,
        input: W::Input,
    ) -> Child<impl Future<Output = Result<W::Output, StepError<W::Error>>>>
    where
        W::Error: RecordableError,
    {
        self.child_effect::<W, _, _>(input, false, |value| value.decode())
    }

    pub(super) fn child_effect<W: Workflow, T: Send, R>(
        &mut self,
        input: W::Input,
        unawaited: bool,
        read: R,
    ) -> Child<impl Future<Output = Result<T, StepError<W::Error>>>>
    where
        R: Fn(&Payload) -> Result<T, PayloadError> + Send,
        W::Error: RecordableError,
    {
        let mut ticket = self.ticket(W::DEF.name);
        let input = W::encode(&input);
        let options = Arc::new(Mutex::new(ChildOptions::default()));
        let chosen = Arc::clone(&options);
        let effect = Effect::new(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            let unrecordable = |error: PayloadError| StepError::Unrecordable(run.failure(&command, error));
            let input = run.shared.redaction.value(input.map_err(unrecordable)?);
            if let Some(reason) = run.too_large(&input) {
                return Err(StepError::Unrecordable(run.failure(&command, reason)));
            }
            let digest = Digest::of(&input).map_err(unrecordable)?;
            let ChildOptions { id, labels, detached, budget } = std::mem::take(&mut *lock(&chosen));
            let id = RunId::new(id.unwrap_or_else(|| format!("{}/{command}", run.id)));
            let child =
                id.map_err(|error: RunIdError| StepError::Unrecordable(run.failure(&command, error)))?;
            let labels =
                labeled(labels).map_err(|error| StepError::Unrecordable(run.failure(&command, error)))?;
            let workflow = RegisteredWorkflow::of::<W>();
            let (run, command, children) = (&run, &command, ticket.children.as_deref());
            let call = ChildCall {
                run,
                command,
                children,
                workflow,
                child,
                digest,
                input,
                labels,
                site: site.clone(),
                unawaited,
                detached,
                budget,
                budgets: ticket.marks.budgets_at(ticket.command.place()),
                granted: None,
                normalize: |recorded| W::encode(&W::decode(recorded)?),
            };
            let read = |answered: &Answered| match answered {
                Ok(value) => read(value).map(Ok),
                Err(error) => error.decode().map(Err),
            };
            let (answered, recorded) = call.answer(|answered| read(answered).map(drop)).await;
            read_recorded(run, command, "child's result", || (recorded, site), || read(&answered)).await
        });
        Child { effect, options }
    }
}

impl<W: Workflow> ChildRun<W>
where
    W::Error: RecordableError,
{
    /// Waits for the child's result.
    ///
    /// The step error is `App` with the child's own error, or `Cancelled`.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).await?;
    /// let opened = cx.now().await;
    /// let letters: usize = child.result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn result<'c>(self, cx: &'c mut Cx) -> BoxEffect<'c, Result<W::Output, StepError<W::Error>>> {
        let ticket = cx.ticket("child_result");
        BoxEffect::boxed(async move {
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            let children = ticket.children.as_deref();
            let answer = async |run: &Arc<Run>, command: &CommandId| match children {
                Some(children) => {
                    let answered = answer_of(wait_for(run, command, children, self.id.clone()).await);
                    (answered, spent_of_granted(run, children, &self.id).await)
                }
                None => (Err(StepError::Rejected(run.failure(command, NO_CHILDREN)).recorded()), None),
            };
            let readable = |answered: &Answered| read_answer::<W::Output, W::Error>(answered).map(drop);
            let (answered, sites) = about_child(ticket, &self.id, answer, readable).await;
            let read = || read_answer(&answered);
            read_recorded(&run, &command, "child's result", || sites, read).await
        })
    }

    /// Lets the child continue when this run ends.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).await?;
    /// child.detach(cx).await;
    /// # Ok(()) }
    /// ```
    pub fn detach<'c>(self, cx: &'c mut Cx) -> BoxEffect<'c, ()> {
        let ticket = cx.ticket("detach");
        BoxEffect::boxed(async move {
            let answer = async |_: &Arc<Run>, _: &CommandId| (Ok(Payload::null()), None);
            let _nothing = about_child(ticket, &self.id, answer, |_| Ok(())).await;
        })
    }
}

/// How soon a fork looks again whether a child run that it took over has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a child took of the budget that it was granted, where it was granted one.
async fn spent_of_granted(run: &Arc<Run>, children: &dyn Children, child: &RunId) -> Option<Spend> {
    if !run.has_granted(child) {
        return None;
    }
    let _in_flight = run.in_flight();
    run.insist(|| children.spent(child.clone())).await
}

const NO_CHILDREN: &str = "this engine has no child runs";

/// A command about a child that was started before. Its answer and the end of this run's duty towards the child are one
/// append.
async fn about_child(
    mut ticket: Ticket<'_>,
    child: &RunId,
    answer: impl AsyncFnOnce(&Arc<Run>, &CommandId) -> (Answered, Option<Spend>),
    readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
) -> (Answered, Sites) {
    let site = ticket.enter().await;
    let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
    let class = EffectClass::Workflow;
    let recorded = Payload::encode(child).and_then(|input| Ok((Digest::of(&input)?, input)));
    let (digest, input) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            let error = StepError::Unrecordable(run.failure(&command, error)).recorded();
            return (Err(error), (None, site));
        }
    };
    let name = command.name();
    match run.request(&command, class, Some(&digest), site.clone()).await {
        Matched::Answered => {
            let record = run.next_delivery(&command).await;
            let answered = match record.answer.clone() {
                Some(RecordedResult::Step(result)) => inject(&run, &command, name, &record, result),
                answer => run.mismatched(&command, class, answer).await,
            };
            return (answered, (record.site(), site));
        }
        Matched::Begun(_) => run.wait_for_frontier(&command).await,
        Matched::New => {
            run.wait_for_frontier(&command).await;
            let started = NodeStarted {
                path: None,
                command: command.clone(),
                class,
                digest,
                input: Some(input),
                site: site.clone(),
                constraints: Constraints::default(),
            };
            run.append(vec![started.into()], AppendExtras::default());
        }
    }
    let (answered, spent) = answer(&run, &command).await;
    let released = ChildReleased { command: command.clone(), child: child.clone(), spent };
    let ended = Ended { spent: None, also: Some(released.into()) };
    let answered = commit(&run, (&command, site.clone()), name, answered, readable, ended).await;
    (answered, (None, site))
}

struct ChildCall<'a> {
    run: &'a Arc<Run>,
    command: &'a CommandId,
    children: Option<&'a dyn Children>,
    workflow: RegisteredWorkflow,
    child: RunId,
    digest: Digest,
    input: Payload,
    labels: Labels,
    site: Option<String>,
    unawaited: bool,
    detached: bool,
    /// What the workflow wants to grant it.
    budget: Option<Budget>,
    /// The budgets that it is granted from.
    budgets: Option<Arc<BudgetScope>>,
    /// What it is granted.
    granted: Option<Budget>,
    /// Brings a recorded input to today's encoding.
    normalize: fn(&Payload) -> Result<Payload, PayloadError>,
}

impl ChildCall<'_> {
    /// The answer, and where the command stood in the source that recorded it.
    async fn answer(
        mut self,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> (Answered, Option<String>) {
        let class = EffectClass::Workflow;
        // Before the command is asked for: a replay that executes nothing stops there.
        if let Some(record) = self.run.recorded(self.command).filter(|record| record.command == *self.command)
        {
            self.same_child(&record).await;
        }
        match self.match_history().await {
            Matched::Answered => {
                let record = self.run.next_delivery(self.command).await;
                let answered = match record.answer.clone() {
                    Some(RecordedResult::Step(result)) => {
                        inject(self.run, self.command, self.workflow.def.name, &record, result)
                    }
                    answer => self.run.mismatched(self.command, class, answer).await,
                };
                (answered, record.site())
            }
            Matched::Begun(mut record) => {
                let (site, CommandDetails { child, granted, .. }) = (record.site(), record.take_details());
                let CommandRecord { digest, input, kept, .. } = *record;
                self.granted = granted;
                if let (Some(digest), Some(input)) = (digest, input) {
                    (self.digest, self.input) = (digest, input);
                }
                let answered = match child {
                    Some(child) if kept => {
                        self.child = child;
                        self.follow_kept(readable).await
                    }
                    child => self.follow(child.is_some(), readable).await,
                };
                (answered, site)
            }
            Matched::New => {
                self.run.wait_for_frontier(self.command).await;
                let is_asked = |recorded: &Payload| {
                    is_same(recorded, &self.digest, &|recorded| self.normal_input(recorded))
                };
                let answered = match self.run.take_kept(self.command, &self.digest, None, is_asked) {
                    Some(kept) => self.take_over(kept, readable).await,
                    None => self.follow(false, readable).await,
                };
                (answered, None)
            }
        }
    }

    /// A recorded input as it would be recorded today.
    fn normal_input(&self, recorded: &Payload) -> Result<Payload, PayloadError> {
        Ok(self.run.shared.redaction.value((self.normalize)(recorded)?))
    }

    async fn match_history(&self) -> Matched {
        let normalize = |recorded: &Payload| self.normal_input(recorded);
        let requested = Requested { args: &self.input, digest: &self.digest, normalize: &normalize };
        let (digest, site) = (Some(&self.digest), || self.site.clone());
        self.run.request_with(self.command, EffectClass::Workflow, digest, Some(&requested), &site).await
    }

    /// The child's id is part of what is asked for.
    async fn same_child(&self, record: &CommandRecord) {
        // The id of a child that a fork takes over was made of its origin's.
        let recorded = record.details().child.as_ref();
        if !record.kept && recorded.is_some_and(|child| *child != self.child) {
            let side = |child: &RunId| CommandSummary {
                command: CommandId::from(format!("{} as run {child}", self.command)),
                class: EffectClass::Workflow,
                digest: Some(self.digest.clone()),
                site: self.site.clone(),
            };
            let recorded = recorded.map(side);
            self.run.diverged(recorded, Some(side(&self.child))).await
        }
    }

    /// Starts the child unless it exists, and waits for its end where that is asked for.
    async fn follow(
        mut self,
        linked: bool,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> Answered {
        let (run, command) = (self.run, self.command);
        run.wait_for_frontier(command).await;
        let Some(children) = self.children else {
            return Err(StepError::Rejected(run.failure(command, NO_CHILDREN)).recorded());
        };
        let mut ended = Ended::default();
        let answered = match self.start(children, linked).await {
            Err(over) => Err(StepError::OverBudget(over).recorded()),
            Ok(ChildStart::Taken(by)) => {
                ended.spent = self.granted.as_ref().map(|_| Spend::default());
                let reason = format!("child id `{}` is taken by {by}; give the child another id", self.child);
                Err(StepError::Rejected(run.failure(command, reason)).recorded())
            }
            Ok(ChildStart::ParentLost) => return run.stop(run.lost(run.epoch)).await,
            Ok(ChildStart::Runs) => {
                let answered = self.end_of(children).await;
                ended.spent = self.spent_of(children).await;
                answered
            }
        };
        commit(run, (command, self.site), self.workflow.def.name, answered, readable, ended).await
    }

    /// What the child took of the budget that it was granted, where it was waited for.
    async fn spent_of(&self, children: &dyn Children) -> Option<Spend> {
        if self.unawaited { None } else { spent_of_granted(self.run, children, &self.child).await }
    }

    /// In a fork: takes over the child that the origin had started, with its end if it had one. It stays the origin's: this
    /// run waits for it and does not end it.
    async fn take_over(
        mut self,
        kept: ForkDecided,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> Answered {
        self.child = kept.child.unwrap_or(self.child);
        if let Some(args) = kept.args {
            (self.digest, self.input) = (kept.digest.clone(), args);
        }
        let (command, child) = (self.command.clone(), self.child.clone());
        let digest = Some(kept.digest);
        let taken = OutcomeKept { command: command.clone(), origin: kept.origin, digest };
        let (unawaited, detached) = (self.unawaited, self.detached);
        let link = ChildStarted { command, child, unawaited, detached, granted: None, reserved: None };
        self.run.append_large_durably(vec![self.started().into(), taken.into(), link.into()]).await;
        let answered = match (kept.result, kept.error) {
            (_, Some(error)) => Err(error),
            (Some(value), None) => Ok(value),
            (None, None) => return self.follow_kept(readable).await,
        };
        let name = self.workflow.def.name;
        commit(self.run, (self.command, self.site), name, answered, readable, Ended::default()).await
    }

    /// Waits for the end of a child that was taken over, where that is asked for.
    async fn follow_kept(self, readable: impl FnOnce(&Answered) -> Result<(), PayloadError>) -> Answered {
        let (run, command) = (self.run, self.command);
        run.wait_for_frontier(command).await;
        let answered = match self.children {
            None => Err(StepError::Rejected(run.failure(command, NO_CHILDREN)).recorded()),
            Some(children) => self.end_of(children).await,
        };
        let name = self.workflow.def.name;
        commit(run, (command, self.site), name, answered, readable, Ended::default()).await
    }

    /// The child's end where it is waited for, else its id.
    async fn end_of(&self, children: &dyn Children) -> Answered {
        let (run, command) = (self.run, self.command);
        if self.unawaited {
            let unrecordable = |error| StepError::Unrecordable(run.failure(command, error)).recorded();
            return Payload::encode(&self.child).map_err(unrecordable);
        }
        answer_of(wait_for(run, command, children, self.child.clone()).await)
    }

    fn started(&self) -> NodeStarted {
        NodeStarted {
            command: self.command.clone(),
            path: None,
            class: EffectClass::Workflow,
            digest: self.digest.clone(),
            input: Some(self.input.clone()),
            site: self.site.clone(),
            constraints: Constraints::default(),
        }
    }

    /// The span of this command, where trace contexts are sent on.
    fn traceparent(&self) -> Option<String> {
        let run = self.run;
        run.shared.trace_bodies.as_ref()?;
        Some(run.trace.context(&run.id, SpanName::Command(self.command)).to_string())
    }

    /// Starts the child unless it exists.
    ///
    /// # Errors
    /// The budget that has nothing left for it.
    async fn start(&mut self, children: &dyn Children, linked: bool) -> Result<ChildStart, OverBudget> {
        let run = self.run;
        if !linked {
            let reserved = self.grant().await?;
            if let Some(other) = run.with_obligations(|obligations| obligations.starter(&self.child).cloned())
            {
                return Ok(ChildStart::Taken(format!("the child of command `{other}`")));
            }
            self.link(reserved).await;
        }
        let _in_flight = run.in_flight();
        // Until the child exists or is known not to: this run does not end meanwhile, because its end must reach the child.
        let start = || {
            let child = NewChild {
                id: self.child.clone(),
                workflow: self.workflow,
                input: self.input.clone(),
                labels: self.labels.clone(),
                traceparent: self.traceparent(),
                budget: self.granted.clone(),
            };
            async move {
                let start_guard = run.start_of_child().await;
                children.start(run.id.clone(), run.epoch, child, start_guard).await
            }
            .boxed()
        };
        Ok(run.insist(start).await)
    }

    /// Records the child's id, durably, before the child exists: after a crash in between, this command finds its child or
    /// creates it, and a run that ends knows which children to ask.
    async fn link(&self, reserved: Option<Reserved>) {
        let link = ChildStarted {
            command: self.command.clone(),
            child: self.child.clone(),
            unawaited: self.unawaited,
            detached: self.detached,
            granted: self.granted.clone(),
            reserved,
        };
        self.run.append_large_durably(vec![self.started().into(), link.into()]).await;
    }

    /// Takes the child's budget out of those that hold here. Waits where there may be something left once calls in flight
    /// have ended.
    async fn grant(&mut self) -> Result<Option<Reserved>, OverBudget> {
        let run = self.run;
        loop {
            let freed = run.freed();
            let to = GrantTo {
                command: self.command,
                child: &self.child,
                unawaited: self.unawaited,
                asked: self.budget.as_ref(),
            };
            match run.grant(self.budgets.as_ref(), to, run.now()) {
                Grant::Made(granted, reserved) => {
                    self.granted = granted;
                    return Ok(reserved);
                }
                Grant::Over(over) => return Err(over),
                Grant::Wait => freed.await,
            }
            run.still_open().await;
        }
    }
}

/// What is recorded with the end of a child.
#[derive(Default)]
struct Ended {
    /// What it took of the budget that it was granted.
    spent: Option<Spend>,
    also: Option<Event>,
}

fn answer_of(end: ChildEnd) -> Answered {
    match end {
        ChildEnd::Completed(value) => Ok(value),
        ChildEnd::Failed(error) => Err(StepError::App(error).recorded()),
        ChildEnd::Cancelled(reason) => Err(StepError::Cancelled(Failure::permanent(reason)).recorded()),
    }
}

/// Delivers what is recorded, and completes the command's events where a crash cut them off.
fn inject(run: &Run, command: &CommandId, name: &str, record: &CommandRecord, result: Answered) -> Answered {
    if !record.finished {
        let mut events = ending(command, name, &result);
        events.retain(|event| !(record.committed && matches!(event, Event::StepCommitted(_))));
        run.append(events, AppendExtras::default());
    }
    match &record.details().unreadable {
        // Written by former builds.
        Some(reason) => Err(StepError::Unrecordable(run.failure(command, reason)).recorded()),
        None => result,
    }
}

/// Waits durably for the end of a child, here or in another process.
async fn wait_for(run: &Arc<Run>, command: &CommandId, children: &dyn Children, child: RunId) -> ChildEnd {
    loop {
        // Only its own parent is told of a child's end: a fork looks for the end of a child that it took over.
        let look_again = run.took_over().then(|| later(run.now(), LOOK_AGAIN));
        let waiting = run.wait(command.clone(), look_again);
        // Registered before looking: an end between the look and the wait wakes this future, though it was not polled
        // yet. The other way round it would be missed, and with it the only notification.
        let notified = run.notified();
        // Not suspended while looking. An end that came before this worker claimed the run has notified no one here: only
        // this look finds it, and a suspension would cut the look off.
        let looked = {
            let _in_flight = run.in_flight();
            children.ended(child.clone()).await
        };
        match looked {
            Ok(Some(end)) => return end,
            Ok(None) => match look_again {
                None => notified.await,
                Some(due) => {
                    let due = run.shared.environment.sleep_until(due);
                    let _either = futures_util::future::select(std::pin::pin!(notified), due).await;
                }
            },
            Err(error) => return run.stop(error).await,
        }
        drop(waiting);
    }
}

/// Records the answer, and returns what the workflow gets. The code of the child recorded it already: what the parent's type
/// does not read stops the run before anything is recorded, and is asked for again by a build that reads it.
async fn commit(
    run: &Run,
    (command, site): (&CommandId, Option<String>),
    name: &str,
    answered: Answered,
    readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    Ended { spent, also }: Ended,
) -> Answered {
    read_recorded(run, command, "child's result", || (None, site), || readable(&answered)).await;
    let (outcome, result, error) = match &answered {
        Ok(value) => (Outcome::Success, Some(value.clone()), None),
        Err(error) => (Outcome::PermanentFailure, None, Some(error.clone())),
    };
    let (command_id, caught_up) = (command.clone(), false);
    let committed = CommandCommitted { command: command_id, outcome, result, error, caught_up, spent };
    let mut events = vec![committed.into()];
    events.append(&mut ending(command, name, &answered));
    events.extend(also);
    run.append_large(events, AppendExtras::default()).await;
    answered
}

/// The events after the outcome.
fn ending(command: &CommandId, name: &str, answered: &Answered) -> Vec<Event> {
    let mut events = vec![NodeFinished { command: command.clone() }.into()];
    if answered.is_ok() {
        let (command, step) = (command.clone(), name.into());
        events.push(StepCommitted { command, step, key: None }.into());
    }
    events
}
