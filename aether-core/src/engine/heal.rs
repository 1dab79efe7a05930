//! Runs that could move and that nothing wakes: waiting runs whose inbox holds what they wait for.
//!
//! Promise: such a run is found by the next look of any worker, whatever lost its wake-up; a message that is kept for a
//! later wait costs one look per worker.

use crate::engine::inner::{Inner, now};
use crate::inbox::topics::{CANCEL, TERMINATE, replies_to, signal_topic};
use crate::journal::event::Event;
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::waits::WaitFilter;
use crate::vocabulary::id::{CommandId, RunId};

/// Runs that are read from the store at a time.
const PAGE: usize = 200;

/// The newest unread message of each run that needs no further look.
#[derive(Debug, Default)]
pub(super) struct Healer(HashMap<RunId, u64>);

impl Healer {
    /// The runs that could move and that nothing wakes, each with its newest message. They are found again until they are
    /// [`Healer::settled`]. What was found before an error counts, and what was settled stays so.
    pub(super) async fn look(&mut self, inner: &Inner) -> Vec<(RunId, u64)> {
        let mut found = Vec::new();
        let store = &inner.shared.store;
        let mut settled = std::mem::take(&mut self.0);
        let mut after = None;
        loop {
            let page = match store.unread_waiting(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(target: "aether::engine", %error, "cannot look for runs that nothing wakes");
                    self.0.extend(settled);
                    return found;
                }
            };
            let Some((last, _)) = page.last() else { return found };
            after = Some(last.place);
            for (record, newest) in page {
                // What is due is claimed like every other run.
                let due = record.wake_at.is_some_and(|wake_at| wake_at <= now(inner));
                if due || record.parked || !inner.is_linked(&record.workflow) {
                    continue;
                }
                if settled.remove(&record.id) == Some(newest) {
                    self.settled(record.id, newest);
                    continue;
                }
                match is_wanted(&**store, &record.id).await {
                    Ok(true) => found.push((record.id, newest)),
                    Ok(false) => self.settled(record.id, newest),
                    Err(error) => {
                        tracing::warn!(target: "aether::engine", run = %record.id, %error, "cannot look what a run waits for")
                    }
                }
            }
        }
    }

    /// The run was claimed, or waits for none of its messages up to `newest`.
    pub(super) fn settled(&mut self, run: RunId, newest: u64) {
        self.0.insert(run, newest);
    }
}

/// Whether a run's inbox holds a message for one of the commands with which it was suspended.
async fn is_wanted(store: &dyn Store, run: &RunId) -> Result<bool, StoreError> {
    let (mut on, mut more, mut signals) = (Vec::new(), 0, HashMap::<CommandId, String>::new());
    for frame in store.load(run, 0).await? {
        // A journal that cannot be read becomes a fault when the run is claimed.
        for event in frame.events().unwrap_or_default() {
            match event {
                Event::RunWaiting(e) => (on, more) = (e.on, e.more),
                Event::WaitStarted(e) => drop(signals.insert(e.command, signal_topic(&e.name))),
                _ => {}
            }
        }
    }
    // Of one that waits at many commands, the journal names the first ones only.
    if more > 0 {
        let listed = store.waits(WaitFilter::default().run(run.clone())).await?;
        on.extend(listed.into_iter().map(|listed| listed.wait.command));
    }
    let wants = |topic: &str| {
        topic == CANCEL
            || topic == TERMINATE
            || on.iter().any(|command| signals.get(command).is_some_and(|signal| signal == topic))
            || on.iter().any(|command| replies_to(topic, command))
    };
    Ok(store.inbox(run, 0).await?.iter().any(|message| wants(&message.topic)))
}
