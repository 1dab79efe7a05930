//! One command that a workflow asked for: its id, and its place in the workflow's state machine.
//!
//! Promise: a command enters the state machine before it is matched with history.

use std::sync::Arc;

use crate::definition::def::{Retry, SourceLine, WorkflowDef};
use crate::journal::event::{Event, RandomRecorded, TimeRecorded, UuidRecorded};
use crate::journal::history::record::RecordedResult;
use crate::perform::call::{CallSpec, CountsIn};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::{Fault, StateName};
use crate::run::matcher::Matched;
use crate::run::program::Children;
use crate::vocabulary::budget::{Budget, BudgetScope};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;
use crate::workflow::gate::current_state;

/// What a caller says of a command beforehand, as `cx.irreversible()`, `cx.retry(..)`, `cx.budget(..)` and
/// `cx.limit(..)` do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// The command is irreversible, and so is everything in it.
    pub(crate) raised: bool,
    /// Its retry policy.
    pub(crate) retry: Option<Retry>,
    /// The retry policy of what declares none in the scope of the command.
    pub(crate) scope_retry: Option<Retry>,
    /// Its budget.
    pub(crate) budget: Option<Budget>,
    /// The budgets of the scopes that it is in.
    pub(crate) budgets: Option<Arc<BudgetScope>>,
    /// Its limit on steps.
    pub(crate) limit: Option<Arc<str>>,
    /// The limit of model calls that name none in the scope of the command.
    pub(crate) scope_limit: Option<Arc<str>>,
}

impl Marks {
    /// The marks of every command in the scope of this one, which is at `place`.
    pub(crate) fn inside(self, place: &str) -> Self {
        let (budgets, scope_retry) = (self.budgets_at(place), self.retry.or(self.scope_retry));
        let scope_limit = self.limit.or(self.scope_limit);
        Self { retry: None, scope_retry, budget: None, budgets, limit: None, scope_limit, ..self }
    }

    /// The budgets that hold for this command, which is at `place`.
    pub(crate) fn budgets_at(&self, place: &str) -> Option<Arc<BudgetScope>> {
        let outer = self.budgets.clone();
        match &self.budget {
            Some(budget) => {
                Some(Arc::new(BudgetScope { place: place.to_owned(), budget: budget.clone(), outer }))
            }
            None => outer,
        }
    }

    /// Puts them on a call at `place`.
    pub(crate) fn put_on(&self, place: &str, call: &mut CallSpec) {
        call.raise(self.raised);
        call.retry(self.retry, self.scope_retry);
        call.counts_in = CountsIn::Budgets(self.budgets_at(place));
        call.limit(self.limit.clone(), self.scope_limit.clone());
    }
}

/// A command that was asked for and has not begun; knows its scope's place in the state machine.
pub(crate) struct Ticket<'c> {
    pub(crate) run: Arc<Run>,
    pub(crate) command: CommandId,
    /// What the caller said of this command.
    pub(crate) marks: Marks,
    pub(crate) children: &'c Option<Arc<dyn Children>>,
    pub(crate) def: &'static WorkflowDef,
    pub(crate) state: &'c mut u16,
}

impl Ticket<'_> {
    /// The source line of the await that was entered last.
    pub(crate) fn site(&self) -> Option<String> {
        self.def.site(*self.state)
    }

    /// As [`Ticket::enter_at`]; the line as text.
    pub(crate) async fn enter(&mut self) -> Option<String> {
        self.enter_at().await.map(SourceLine::text)
    }

    /// Moves the scope's state machine; returns the source line of the await.
    pub(crate) async fn enter_at(&mut self) -> Option<SourceLine> {
        let to = current_state()?;
        let from = std::mem::replace(self.state, to);
        if !self.def.has_edge(from, to) {
            let fault = Fault::IllegalTransition {
                run: self.run.id.clone(),
                workflow: self.def.name,
                from: StateName(from),
                to: StateName(to),
            };
            return self.run.stop(fault).await;
        }
        self.def.source_line(to)
    }

    /// A command with a plain answer: the recorded one, or a fresh one that is recorded at once.
    pub(crate) async fn draw<T>(
        mut self,
        class: EffectClass,
        read: impl Fn(RecordedResult) -> Option<T>,
        fresh: impl FnOnce(&Run) -> (T, Event),
    ) -> T {
        let site = self.enter_at().await;
        let site = || site.map(SourceLine::text);
        match self.run.request_with(&self.command, class, None, None, &site).await {
            Matched::Answered => {
                let answer = self.run.next_delivery(&self.command).await.answer;
                match answer.clone().and_then(read) {
                    Some(value) => value,
                    None => self.run.mismatched(&self.command, class, answer).await,
                }
            }
            Matched::Begun(_) | Matched::New => {
                self.run.wait_for_frontier(&self.command).await;
                self.run.apply_backpressure().await;
                let interceptor = self.run.shared.interceptor.as_ref();
                let scripted = interceptor.and_then(|stub| stub.draw(&self.run.id, &self.command));
                let scripted =
                    scripted.and_then(|answer| Some((read(answer.clone())?, drawn(&self.command, answer)?)));
                let (value, event) = scripted.unwrap_or_else(|| fresh(&self.run));
                if let (Some(interceptor), Some(answer)) = (interceptor, drawn_answer(&event)) {
                    interceptor.drawn(&self.run.id, &self.command, &answer);
                }
                self.run.append(vec![event], AppendExtras::default());
                value
            }
        }
    }
}

/// The event that records a draw.
fn drawn(command: &CommandId, answer: RecordedResult) -> Option<Event> {
    let command = command.clone();
    match answer {
        RecordedResult::Time(value) => Some(TimeRecorded { command, value }.into()),
        RecordedResult::Uuid(value) => Some(UuidRecorded { command, value }.into()),
        RecordedResult::Random(value) => Some(RandomRecorded { command, value }.into()),
        RecordedResult::Step(_)
        | RecordedResult::Length { .. }
        | RecordedResult::Timer
        | RecordedResult::Race(_)
        | RecordedResult::Wait(_) => None,
    }
}

/// The answer that a drawing's event holds.
fn drawn_answer(event: &Event) -> Option<RecordedResult> {
    match event {
        Event::TimeRecorded(e) => Some(RecordedResult::Time(e.value)),
        Event::UuidRecorded(e) => Some(RecordedResult::Uuid(e.value)),
        Event::RandomRecorded(e) => Some(RecordedResult::Random(e.value.clone())),
        _ => None,
    }
}
