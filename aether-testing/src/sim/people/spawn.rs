//! Starting everybody who acts from outside, once for each process.
//!
//! Promise: the tasks live as long as the process; each of them continues what its predecessor left undone.

use std::sync::Arc;

use super::actor::PeopleActor;
use super::outside::{deliver_reports, send_recorded, send_signal};
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::live::Live;
use crate::sim::settings::Settings;

/// Starts people, signals, reports, and what the test does beside the run.
pub(crate) fn spawn_people(settings: &Settings, dispatcher: &Arc<StubDispatcher>, live: &Live) {
    let people = &settings.people;
    if people.is_asked() {
        let actor = PeopleActor::new(people.clone(), Arc::clone(dispatcher), live.clone());
        tokio::spawn(actor.run());
    }
    for (number, signal) in people.signals.iter().cloned().enumerate() {
        tokio::spawn(send_signal(signal, number, Arc::clone(dispatcher), live.clone()));
    }
    tokio::spawn(deliver_reports(Arc::clone(dispatcher), live.clone()));
    if let Some(recorded) = &settings.scripts.recorded {
        tokio::spawn(send_recorded(Arc::clone(recorded), live.clone()));
    }
    if let Some(meanwhile) = &settings.meanwhile {
        tokio::spawn(meanwhile(live.clone()));
    }
}
