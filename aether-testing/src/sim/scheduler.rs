//! The order in which concurrent bodies come back: one at a time, as a plan or a seed chooses.
//!
//! Promise: a body that has come back is held until nothing else can run; then one of those that are held is released.
//! So each run has one order, which its choices name, and which the same choices give again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::world::Entropy;

/// The shortest wait in virtual time: it is over when nothing else can run.
const INSTANT: Duration = Duration::from_millis(1);

/// Holds bodies that came back, and releases them one by one.
#[derive(Debug)]
pub(crate) struct BodyScheduler {
    state: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    held: BTreeMap<String, oneshot::Sender<()>>,
    plan: Vec<usize>,
    draws: Option<Entropy>,
    released: Released,
}

/// The order in which bodies were released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    /// Number of the released body among those that were held, and their number; where there was a choice.
    pub(crate) choices: Vec<(usize, usize)>,
    /// Bodies in their order.
    pub(crate) names: Vec<String>,
    /// Most bodies that were held at one time.
    pub(crate) most_at_once: usize,
}

impl Queue {
    /// Releases one body, if one is held.
    fn release_one(&mut self) {
        // The branch of a body whose channel is closed has lost a race.
        self.held.retain(|_, held| !held.is_closed());
        let count = self.held.len();
        self.released.most_at_once = self.released.most_at_once.max(count);
        let choice = if count > 1 { self.choose(count) } else { 0 };
        let Some(name) = self.held.keys().nth(choice).cloned() else { return };
        if let Some(held) = self.held.remove(&name) {
            let _its_branch_was_dropped = held.send(());
        }
        self.released.names.push(name);
    }

    fn choose(&mut self, count: usize) -> usize {
        let planned = self.plan.get(self.released.choices.len()).copied();
        let drawn = || self.draws.as_ref().map(|draws| draws.below(count));
        let choice = planned.or_else(drawn).unwrap_or(0).min(count - 1);
        self.released.choices.push((choice, count));
        choice
    }
}

impl BodyScheduler {
    /// Releases bodies as `plan` chooses; after it as `draws` chooses, or else the first one.
    pub(crate) fn new(plan: Vec<usize>, draws: Option<Entropy>) -> Self {
        Self { state: Mutex::new(Queue { plan, draws, ..Queue::default() }), arrived: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a body that came back until it is released.
    pub(crate) async fn hold(&self, name: String) {
        let (held, released) = oneshot::channel();
        {
            let held_before = &mut self.state().held;
            let again = (2..).map(|number| format!("{name} ({number})"));
            let free =
                std::iter::once(name.clone()).chain(again).find(|name| !held_before.contains_key(name));
            held_before.insert(free.unwrap_or(name), held);
        }
        self.arrived.notify_one();
        // An error: the scheduler was dropped, and with it the simulation.
        let _released = released.await;
    }

    /// The order so far.
    pub(crate) fn released(&self) -> Released {
        self.state().released.clone()
    }

    /// Releases bodies one at a time; does not return.
    pub(crate) async fn run(&self) {
        loop {
            if self.state().held.is_empty() {
                self.arrived.notified().await;
            }
            tokio::time::sleep(INSTANT).await;
            self.state().release_one();
        }
    }
}
