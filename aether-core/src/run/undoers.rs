//! Who makes the calls that undo steps, and what is recorded of such a call.
//!
//! Promise: a call is lost with who makes it, whoever made it first; what a journal holds of it is read as it is now.

use crate::journal::event::Event;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::store::pages::{PAGE, Pages};
use crate::store::read::events;
use crate::vocabulary::id::CommandId;

impl Run {
    /// What the journal holds of the commands that `of` holds for. All that was appended so far is durable by then.
    pub(crate) async fn recorded_of(&self, of: impl Fn(&CommandId) -> bool + Sync) -> Vec<Event> {
        self.durable_so_far().await;
        let (store, began) = (&*self.shared.store, self.generation.began);
        self.insist(|| {
            Box::pin(async {
                let (mut found, mut pages) = (Vec::new(), Pages::new(store, &self.id, began, PAGE));
                while let Some(frames) = pages.next().await? {
                    let read = events(store, &self.id, &frames).await?;
                    found.extend(read.into_iter().filter(|event| event.command().is_some_and(&of)));
                }
                Ok(found)
            })
        })
        .await
    }

    /// The command `by` makes this call that undoes a step, whose place says who made it first.
    pub(crate) fn note_undoer(&self, call: &CommandId, by: &CommandId) {
        self.lock().undoers.insert(call.clone(), by.clone());
    }

    /// Whether a command is lost with the branches of these scopes. A call that undoes a step is lost with who makes it.
    pub(crate) fn is_lost_with(&self, command: &CommandId, scopes: &[String]) -> bool {
        let state = self.lock();
        let maker = state.undoers.get(command).unwrap_or(command);
        scopes.iter().any(|scope| maker.is_within(scope))
    }

    /// Records that a call was not made which somebody dropped between its intent and its body: who goes on with it makes
    /// it.
    pub(crate) async fn settle_uncalled(&self, call: &CommandId) -> Result<(), Fault> {
        if self.has_uncalled(call) {
            let (events, extras) = self.abandon(|of| of == call).await?;
            self.append(events, extras);
        }
        Ok(())
    }
}
