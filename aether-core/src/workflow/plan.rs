//! Plans: a value that a planner makes once, and that the journal holds from then on.
//!
//! Promise: a recorded plan is authoritative. On replay the planner is not called again, whatever it did; a replay that
//! executes nothing fails where the plan is missing.

use std::future::Future;
use std::sync::Arc;

use crate::journal::event::PlanGenerated;
use crate::journal::history::record::RecordedResult;
use crate::policy::replay::Mode;
use crate::run::append::AppendExtras;
use crate::run::fault::{CommandSummary, Fault};
use crate::run::matcher::Matched;
use crate::step::recordable::Recordable;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::workflow::context::Cx;
use crate::workflow::gate::{Effect, WorkflowCode, as_workflow_code};
use crate::workflow::reading::read_recorded;
use crate::workflow::ticket::Ticket;

/// A planner of [`Cx::plan`]: it borrows what it reads, and changes only what is its own. A replay takes the plan from the
/// journal and does not call it, so what it had changed outside of itself would be missing then. Implemented for every
/// planner that is `Clone`: a closure that borrows a variable mutably is not.
#[diagnostic::on_unimplemented(
    message = "[AE0123] the planner of `cx.plan` changes a variable that is not its own, or owns a value that is not `Clone`",
    label = "not a planner",
    note = "a replay takes the plan from the journal and does not call the planner, and what it changed is missing then: make it a part of the plan, and change the variable behind the await",
    note = "a planner may own a value only if that is `Clone`: borrow it in the planner, or derive `Clone` for its type"
)]
pub trait Planner {}

#[diagnostic::do_not_recommend]
impl<F: Clone> Planner for F {}

impl Cx {
    /// Makes a plan, once: `planner` may ask models, call steps, or just compute, and what it returns is recorded as the
    /// plan. From then on every replay gets the plan from the journal and `planner` is not polled, so a later version that
    /// plans differently does not affect open runs. Until the plan is recorded, a crash keeps what `planner` did in the
    /// journal, and it resumes from there.
    ///
    /// `planner` borrows what it reads, and changes only what is its own: a replay does not call it, and what it had changed
    /// elsewhere would be missing then.
    ///
    /// An error of `planner` is returned and no plan is recorded. The error is `StepError::Unrecordable` where the plan
    /// does not survive being recorded, or is over the limit.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::failure::{Failure, Result};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// // The steps to take; typically the answer of a model: `cx.llm("plan").user(goal).json().await`.
    /// let plan: Vec<u64> = cx.plan("route", async |cx: &mut Cx| Ok::<_, Failure>(vec![cx.random().await % 9, 7])).await?;
    /// let done: Vec<u64> = cx.each(plan, async |cx: &mut Cx, step| step + cx.random().await % 2).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn plan<T, E, F>(&mut self, name: &str, planner: F) -> Effect<impl Future<Output = Result<T, E>>>
    where
        T: Recordable,
        E: From<StepError<Failure>>,
        F: AsyncFnOnce(&mut Self) -> Result<T, E> + Planner,
    {
        let (mut ticket, fork) = self.fork(&format!("plan.{name}"));
        Effect::new(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            // Pure, so that policies let it pass: what the planner does is asked about by itself.
            let class = EffectClass::Pure;
            if let Matched::Answered = run.request(&command, class, None, site.clone()).await {
                let mut record = run.next_delivery(&command).await;
                return match record.answer.take() {
                    // It was read before it was recorded.
                    Some(RecordedResult::Step(Ok(plan))) => {
                        let sites = (record.site(), site);
                        Ok(read_recorded(&run, &command, "plan", || sites, || plan.decode()).await)
                    }
                    answer => run.mismatched(&command, class, answer).await,
                };
            }
            fork.check().await;
            let mut cx = fork.branch('p', 0);
            let plan = WorkflowCode::of(cx.log_scope(), async move { planner(&mut cx).await }).await?;
            // Before the rest of history is waited for: a refusal is not recorded, so every replay comes to it at the same
            // place.
            let plan = recordable(&ticket, &plan)?;
            // Read before it is recorded: a plan that does not round-trip must not stand in a journal for good.
            let read = as_workflow_code(|| plan.decode());
            let read = read.map_err(|error| unrecordable(&ticket, &error))?;
            run.wait_for_frontier(&command).await;
            if run.mode == Mode::Verify {
                let requested = Box::new(CommandSummary { command, class, digest: None, site });
                return run.stop(Fault::Unrecorded { run: run.id.clone(), requested }).await;
            }
            run.append_large(vec![PlanGenerated { command, plan }.into()], AppendExtras::default()).await;
            Ok(read)
        })
    }
}

/// A plan as it is recorded.
fn recordable<T: Recordable>(ticket: &Ticket<'_>, plan: &T) -> Result<Payload, StepError<Failure>> {
    let plan = Payload::encode(plan).map_err(|error| unrecordable(ticket, &error))?;
    match ticket.run.too_large(&plan) {
        None => Ok(ticket.run.shared.redaction.value(plan)),
        Some(reason) => Err(unrecordable(ticket, &reason)),
    }
}

fn unrecordable(ticket: &Ticket<'_>, error: &dyn std::fmt::Display) -> StepError<Failure> {
    StepError::Unrecordable(
        ticket.run.failure(&ticket.command, format_args!("the plan cannot be recorded: {error}")),
    )
}
