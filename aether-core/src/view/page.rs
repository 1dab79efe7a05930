//! A page of a view: some of the steps of a run, with their effects and executions, and everything else of the view.
//!
//! Promise: what a page holds is what the whole view has of these steps, wherever the page begins and whenever it was chosen;
//! a run of any length is folded in the memory that one page takes, and some bytes for the id of each step.

use std::ops::Range;

use crate::journal::event::Event;
use crate::view::execution::Execution;
use crate::view::run::RunView;
use crate::view::window::{StepPage, Window};
use crate::vocabulary::id::{CommandId, IdempotencyKey};

/// The place of a step that is on no page which is kept.
const ELSEWHERE: usize = usize::MAX;

/// How much of a view there is: steps, effects and executions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    steps: usize,
    effects: usize,
    executions: usize,
}

impl RunView {
    /// The same view with one page of its steps, their effects and their executions; of [`RunView::illegal`] transitions, those
    /// that the whole view has had. What is applied afterwards keeps to that page. One that is a page already stays so.
    ///
    /// ```
    /// # use aether_core::journal::event::{Event, TimeRecorded};
    /// # use aether_core::id::{CommandId, RunId};
    /// # use aether_core::view::{RunView, StepPage};
    /// let drawn = |place: u32| -> Event {
    ///     let command = CommandId::new(&place.to_string(), "now");
    ///     TimeRecorded { command, value: jiff::Timestamp::UNIX_EPOCH }.into()
    /// };
    /// let view = RunView::fold(RunId::new("order-42")?, (0..5).map(drawn));
    /// let page = view.page(StepPage::last().size(2));
    /// assert_eq!((page.step_count(), page.first_step(), page.steps.len()), (5, 4, 1));
    /// # Ok::<(), aether_core::id::RunIdError>(())
    /// ```
    #[must_use]
    pub fn page(mut self, page: StepPage) -> Self {
        if self.window.is_some() {
            return self;
        }
        let mut window = Window::new(page);
        for (number, step) in self.steps.iter().enumerate() {
            window.take(number, &step.command);
        }
        let places = window.places();
        self.window = Some(window);
        self.keep(&places);
        self
    }

    /// Number of all steps of this generation; [`RunView::steps`] holds some of them where the view is a page.
    pub fn step_count(&self) -> usize {
        self.index.len()
    }

    /// Number of the first step of [`RunView::steps`], from 0: it is 0 unless the view is a page.
    pub fn first_step(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.first)
    }

    /// Whether an event tells nothing of what is kept: it is about a command that was left out. Its key is remembered.
    pub(super) fn passes_by(&mut self, command: &CommandId, event: &Event) -> bool {
        let Some(window) = &mut self.window else { return false };
        // Two kinds tell of other commands as well.
        let tells_of_others = matches!(event, Event::RaceDecided(_) | Event::StepCompensated(_));
        if tells_of_others || self.index.get(command.as_str()) != Some(&ELSEWHERE) {
            return false;
        }
        if let Event::ToolInvocationStarted(started) = event {
            window.keys.insert(started.key.clone());
        }
        true
    }

    /// The keys of executions that were left out.
    pub(super) fn keys_elsewhere(&self) -> impl Iterator<Item = &IdempotencyKey> {
        self.window.iter().flat_map(|window| &window.keys)
    }

    pub(super) fn extent(&self) -> Extent {
        Extent { steps: self.steps.len(), effects: self.effects.len(), executions: self.executions.len() }
    }

    /// After an event before which the view had this extent: where the event made a step, leaves out that step, or all those
    /// before it, or none.
    pub(super) fn turn_page(&mut self, before: Extent) {
        let Some(window) = &mut self.window else { return };
        let (Some(step), true) = (self.steps.last(), self.steps.len() > before.steps) else { return };
        let first = window.first;
        if !window.take(self.index.len() - 1, &step.command) {
            self.index.insert(step.command.as_str().to_owned(), ELSEWHERE);
            self.forget(before);
        } else if window.first > first {
            self.keep(&(before.steps..self.steps.len()));
        }
    }

    /// Leaves out what is beyond this extent.
    fn forget(&mut self, extent: Extent) {
        self.steps.truncate(extent.steps);
        self.effects.truncate(extent.effects);
        self.open.split_off(&extent.executions);
        let Some(window) = &mut self.window else { return };
        for execution in self.executions.drain(extent.executions..) {
            self.newest.remove(execution.command.as_str());
            self.newest.remove(Execution::approval_id(&execution.command).as_str());
            window.keys.extend(execution.key);
        }
    }

    /// Leaves out all steps but those at these places.
    fn keep(&mut self, places: &Range<usize>) {
        for (place, step) in self.steps.iter().enumerate() {
            let kept = if places.contains(&place) { place - places.start } else { ELSEWHERE };
            self.index.insert(step.command.as_str().to_owned(), kept);
        }
        self.steps.truncate(places.end);
        self.steps.drain(..places.start.min(self.steps.len()));
        let index = &self.index;
        let is_kept =
            |command: &CommandId| index.get(command.as_str()).is_some_and(|place| *place != ELSEWHERE);
        self.effects.retain(|effect| is_kept(&effect.command));
        let mut moved = Vec::with_capacity(self.executions.len());
        for execution in std::mem::take(&mut self.executions) {
            let is_kept = is_kept(&execution.command);
            moved.push(is_kept.then_some(self.executions.len()));
            if is_kept {
                self.executions.push(execution);
            } else if let Some(window) = &mut self.window {
                window.keys.extend(execution.key);
            }
        }
        let moved = |place: usize| moved.get(place).copied().flatten();
        self.open = self.open.iter().filter_map(|place| moved(*place)).collect();
        self.newest = std::mem::take(&mut self.newest)
            .into_iter()
            .filter_map(|(id, place)| Some((id, moved(place)?)))
            .collect();
    }
}
