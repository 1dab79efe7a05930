//! Ending the present journal of a run and beginning a new one: for workflows that live on.
//!
//! Promise: the workflow's code does not continue after the call; nothing is lost of what the run owes or was sent.

use crate::journal::event::HistoryMeasured;
use crate::journal::history::record::RecordedResult;
use crate::run::claim::Run;
use crate::run::matcher::Matched;
use crate::run::next_generation::ContinueError;
use crate::vocabulary::limits::near;
use crate::vocabulary::outcome::EffectClass;
use crate::workflow::context::Cx;
use crate::workflow::definition::Workflow;
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// Ends the run's journal and begins a new one, under the same id: workflow `W` starts over with `state` as its input.
    /// The call never returns; its type is that of the body, so that it can be returned.
    ///
    /// A workflow that lives for months would otherwise grow a journal that is replayed from its beginning each time. It
    /// carries what it must remember in `state`, and continues as new:
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::workflow::{Cx, Workflow};
    /// # #[allow(non_camel_case_types)]
    /// # async fn workflow<watch>(cx: &mut Cx, mut seen: u64) -> Result<()>
    /// # where watch: Workflow<Input = u64, Output = (), Error = Failure> {
    /// // In `#[workflow] async fn watch(cx: &mut Cx, mut seen: u64) -> Result<()>`.
    /// loop {
    ///     cx.signal::<String>("reading").await?;
    ///     seen += 1;
    ///     if cx.should_continue_as_new().await {
    ///         return cx.continue_as_new::<watch>(seen).await;
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// `W` may also be another workflow, or a later version of this one, that returns the same type; `state` is anything
    /// that converts into its input by `From`. The run keeps its id, labels, parent, unread messages, open children, steps
    /// to be undone and business keys. Its earlier journal is deleted; [`Engine::export`](crate::engine::Engine::export)
    /// keeps a copy.
    ///
    /// Only the body of the run's own workflow may continue as new. In a branch or in an inline workflow the run stops with
    /// [`Fault::NotContinued`](crate::run::Fault::NotContinued), and nothing is written.
    pub fn continue_as_new<W: Workflow>(
        &mut self,
        state: impl Into<W::Input>,
    ) -> BoxEffect<'_, Result<W::Output, W::Error>> {
        let state = W::encode(&state.into());
        let scope = self.path().to_owned();
        let is_root = scope == self.run.generation.scope();
        let mut ticket = self.ticket("continue_as_new");
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            let (run, command) = (&ticket.run, &ticket.command);
            if !is_root {
                return run.cannot_continue(command, ContinueError::NotInRoot { scope }).await;
            }
            let state = match state {
                Ok(state) => state,
                Err(error) => return run.cannot_continue(command, ContinueError::State(error)).await,
            };
            match run.request(command, EffectClass::Workflow, None, site).await {
                Matched::Answered => {
                    let answer = run.next_delivery(command).await.answer;
                    run.mismatched(command, EffectClass::Workflow, answer).await
                }
                Matched::Begun(_) | Matched::New => {
                    run.wait_for_frontier(command).await;
                    run.continue_as_new(command, W::DEF, state).await
                }
            }
        })
    }

    /// Number of events in the run's present journal. Recorded: every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let long = cx.history_len().await > 10_000;
    /// # }
    /// ```
    pub fn history_len(&mut self) -> BoxEffect<'_, u64> {
        self.measured("history_len", |events, _| events)
    }

    /// Whether the run's present journal has reached four fifths of [`Limits::history`](crate::limits::Limits::history).
    /// Recorded: every replay sees the same. One event for each call, so ask once a round and not once a step.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// if cx.should_continue_as_new().await {
    ///     // return cx.continue_as_new::<..>(state).await
    /// }
    /// # }
    /// ```
    pub fn should_continue_as_new(&mut self) -> BoxEffect<'_, bool> {
        self.measured("should_continue_as_new", |events, limit| events >= near(limit))
    }

    fn measured<T>(
        &mut self,
        name: &str,
        judge: impl Fn(u64, u64) -> T + Send + Sync + 'static,
    ) -> BoxEffect<'_, T>
    where
        T: Send + 'static,
    {
        let ticket = self.ticket(name);
        let command = ticket.command.clone();
        BoxEffect::boxed(async move {
            let measure = |run: &Run| {
                let (events, limit) = (run.history_len(), run.shared.limits.history);
                ((events, limit), HistoryMeasured { command, events, limit }.into())
            };
            let read = |answer| match answer {
                RecordedResult::Length { events, limit } => Some((events, limit)),
                _ => None,
            };
            let (events, limit) = ticket.draw(EffectClass::Time, read, measure).await;
            judge(events, limit)
        })
    }
}
