//! Starting everybody who acts from outside, once for each process.
//!
//! Promise: the tasks live as long as the process; each of them continues what its predecessor left undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::run::Observed;
use tokio::sync::broadcast::Receiver;

use super::actor::PeopleActor;
use super::outside::{cancel, deliver_reports, send_recorded, send_signals};
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::live::Live;
use crate::sim::settings::Settings;

/// Starts people, signals, reports, and what the test does beside the run. `watch` shows what the run does from its
/// beginning.
pub(crate) fn spawn_people(
    settings: &Settings,
    dispatcher: &Arc<StubDispatcher>,
    live: &Live,
    watch: Receiver<Observed>,
) {
    let people = &settings.people;
    if people.is_asked() {
        let pace = settings.pace.clone();
        let actor = PeopleActor::new(people.clone(), Arc::clone(dispatcher), live.clone(), pace);
        tokio::spawn(actor.run(watch));
    }
    let mut senders: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (number, signal) in people.signals.iter().enumerate() {
        senders.entry(&signal.name).or_default().push((number, signal.clone()));
    }
    for mut signals in senders.into_values() {
        signals.sort_by_key(|(_, signal)| signal.after);
        tokio::spawn(send_signals(signals, settings.pace.clone(), Arc::clone(dispatcher), live.clone()));
    }
    for (number, planned) in people.cancels.iter().cloned().enumerate() {
        tokio::spawn(cancel(planned, number, settings.pace.clone(), Arc::clone(dispatcher), live.clone()));
    }
    tokio::spawn(deliver_reports(Arc::clone(dispatcher), settings.pace.clone(), live.clone()));
    if let Some(recorded) = &settings.scripts.recorded {
        tokio::spawn(send_recorded(Arc::clone(recorded), live.clone()));
    }
    if let Some(meanwhile) = &settings.meanwhile {
        tokio::spawn(meanwhile(live.clone()));
    }
}
