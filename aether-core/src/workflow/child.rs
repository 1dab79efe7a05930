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

use crate::run::claim::Run;
use crate::run::program::RegisteredWorkflow;
use crate::sched::Mutex;
use crate::step::recordable::RecordableError;
use crate::vocabulary::budget::Budget;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, RunId, RunIdError};
use crate::vocabulary::labels::{LabelError, Labels};
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};
use crate::workflow::child::call::{ChildCall, NO_CHILDREN, about_child, answer_of, spent_of_granted};
use crate::workflow::context::Cx;
use crate::workflow::definition::Workflow;
use crate::workflow::gate::{BoxEffect, Effect, recorded_wrapper};
use crate::workflow::reading::{read_answer, read_recorded};

mod call;

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
            if let Some(reason) = run.too_large_for(&command, &input) {
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
    /// The step error is `App` with the child's own error, or `Cancelled`; in a fork also `Rejected`, where the child was deleted.
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
                    let answered = answer_of(run, command, children, &self.id).await;
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
