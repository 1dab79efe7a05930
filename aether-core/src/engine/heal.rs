//! Runs that could move and that nothing wakes: waiting runs whose inbox holds what they wait for.
//!
//! Promise: such a run is found by the next look of any worker, whatever lost its wake-up; a message that is kept for a
//! later wait costs one look per worker.

use crate::engine::inner::{Inner, now};
use crate::inbox::topics::{CANCEL, TERMINATE, answer_topic, approval_topic, signal_topic};
use crate::journal::event::Event;
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::vocabulary::id::{CommandId, InvocationId, RunId};

/// The newest unread message of each run that was looked at.
#[derive(Debug, Default)]
pub(super) struct Healer(HashMap<RunId, u64>);

impl Healer {
    /// The runs that could move and that nothing wakes.
    pub(super) async fn look(&mut self, inner: &Inner) -> Result<Vec<RunId>, StoreError> {
        let mut found = Vec::new();
        let store = &inner.shared.store;
        let waiting = store.unread_waiting().await?;
        self.0.retain(|run, _| waiting.iter().any(|(record, _)| record.id == *run));
        for (record, newest) in waiting {
            // What is due is claimed like every other run.
            let due = record.wake_at.is_some_and(|wake_at| wake_at <= now(inner));
            if due || !inner.is_linked(&record.workflow) {
                continue;
            }
            if self.0.insert(record.id.clone(), newest) == Some(newest) {
                continue;
            }
            if is_wanted(&**store, &record.id).await? {
                tracing::warn!(run = %record.id, "a waiting run was not woken by its message; it is claimed");
                found.push(record.id);
            }
        }
        Ok(found)
    }
}

/// Whether a run's inbox holds a message for one of the commands with which it was suspended.
async fn is_wanted(store: &dyn Store, run: &RunId) -> Result<bool, StoreError> {
    let (mut on, mut signals) = (Vec::new(), HashMap::<CommandId, String>::new());
    for frame in store.load(run, 0).await? {
        // A journal that cannot be read becomes a fault when the run is claimed.
        for event in frame.events().unwrap_or_default() {
            match event {
                Event::RunWaiting(e) => on = e.on,
                Event::WaitStarted(e) => drop(signals.insert(e.command, signal_topic(&e.name))),
                _ => {}
            }
        }
    }
    let wants = |topic: &str| {
        topic == CANCEL
            || topic == TERMINATE
            || on.iter().any(|command| signals.get(command).is_some_and(|signal| signal == topic))
            || on.iter().any(|command| is_about(topic, command))
    };
    Ok(store.inbox(run, 0).await?.iter().any(|message| wants(&message.topic)))
}

/// Whether a topic is one of the replies to this command.
fn is_about(topic: &str, command: &CommandId) -> bool {
    let of_invocation = topic.strip_prefix("resolve:").or_else(|| topic.strip_prefix("callback:"));
    topic == answer_topic(command)
        || topic == approval_topic(command)
        || topic.strip_prefix("confirm:").is_some_and(|rest| rest.starts_with(&format!("{command}:")))
        || of_invocation.is_some_and(|id| InvocationId::from(id.to_owned()).command() == *command)
}
