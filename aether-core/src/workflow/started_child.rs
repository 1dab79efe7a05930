//! Child runs that are started and not waited for, and those that continue when their parent ends.
//!
//! Promise: only the handle of a child that ends with its parent asks to be used.

use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::step::recordable::RecordableError;
use crate::vocabulary::budget::Budget;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::Payload;
use crate::workflow::child::{Child, ChildRun};
use crate::workflow::context::Cx;
use crate::workflow::definition::Workflow;
use crate::workflow::gate::recorded_wrapper;

/// The effect of [`Cx::start_child`].
#[must_use = "an effect does nothing until it is awaited"]
#[derive(Debug)]
pub struct StartedChild<F> {
    child: Child<F>,
}

impl<F> StartedChild<F> {
    /// Names the child, as [`Child::id`] does.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).id("book-1-chapter-1").await?;
    /// let letters = child.result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { child: self.child.id(id) }
    }

    /// Gives the child a label, as [`Child::label`] does.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).label("book", "moby-dick").await?;
    /// let letters = child.result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { child: self.child.label(key, value) }
    }

    /// Limits what the child may take, as [`Child::budget`] does. What it is granted counts as spent here until its result
    /// is waited for; without this, that is all that is left.
    ///
    /// ```
    /// # use aether_core::budget::Budget;
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).budget(Budget::new().calls(5)).await?;
    /// let letters = child.result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn budget(self, budget: Budget) -> Self {
        Self { child: self.child.budget(budget) }
    }
}

impl<F, W, E> StartedChild<F>
where
    F: Future<Output = Result<ChildRun<W>, E>>,
{
    /// Lets the child continue when its parent ends. Nobody has to wait for it: its handle may be dropped.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// cx.start_child::<chapter>(text).detached().await?;
    /// # Ok(()) }
    /// ```
    pub fn detached(self) -> Child<impl Future<Output = Result<DetachedRun<W>, E>>> {
        self.child.detached().converted(|started| started.map(DetachedRun))
    }
}

impl<F: Future> Future for StartedChild<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.child).poll(cx)
    }
}

recorded_wrapper!(StartedChild<F>, child);

/// A child run that was started and continues when its parent ends; comes from [`StartedChild::detached`].
pub struct DetachedRun<W>(ChildRun<W>);

impl<W> Clone for DetachedRun<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W> Debug for DetachedRun<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachedRun({})", self.0.id())
    }
}

impl<W> DetachedRun<W> {
    /// The child's id.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<String>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).detached().await?;
    /// Ok(format!("started {}", child.id()))
    /// # }
    /// ```
    pub fn id(&self) -> &RunId {
        self.0.id()
    }

    /// The handle of a child that is waited for.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<chapter>(cx: &mut Cx, text: String) -> Result<()>
    /// # where chapter: Workflow<Input = String, Output = usize, Error = Failure> {
    /// let child = cx.start_child::<chapter>(text).detached().await?;
    /// let letters: usize = child.awaited().result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn awaited(self) -> ChildRun<W> {
        self.0
    }
}

impl Cx {
    /// Starts workflow `W` as a run of its own and does not wait for it. The child is cancelled when this run ends before
    /// it, unless it was detached.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::failure::StepError;
    /// # use aether_core::workflow::Workflow;
    /// # async fn workflow<W: Workflow<Input = u32>>(cx: &mut Cx) -> Result<(), StepError<W::Error>> {
    /// let child = cx.start_child::<W>(7).id("report-7").await?;
    /// let opened = cx.now().await;
    /// let report = child.result(cx).await?;
    /// # Ok(()) }
    /// ```
    pub fn start_child<W: Workflow>(
        &mut self,
        input: W::Input,
    ) -> StartedChild<impl Future<Output = Result<ChildRun<W>, StepError<W::Error>>>>
    where
        W::Error: RecordableError,
    {
        let handle = |value: &Payload| value.decode().map(ChildRun::of);
        StartedChild { child: self.child_effect::<W, _, _>(input, true, handle) }
    }
}
