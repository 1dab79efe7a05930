//! Stores that fail: one call at a time, and each fault in turn.
//!
//! Promise: a run that a store's fault stopped is resumed by a second process, on the same store without the fault;
//! what must hold after a crash must hold after a fault.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::payload::Payload;
use aether_core::store::Store;
use aether_core::workflow::Workflow;

use super::guarantees::{Disturbance, check, undisturbed};
use crate::sim::processes::simulate::simulate;
use crate::sim::report::error::SimError;
use crate::sim::settings::Settings;
use crate::stores::faulty::{FaultyStore, StoreFault};

/// Every fault of the store that a run was given, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultReport {
    /// Faults that the run outlasted in its first process.
    pub outlasted: Vec<StoreFault>,
    /// Faults that stopped it; a second process ended it.
    pub stopped: Vec<StoreFault>,
    /// Faults that did not come up again: the call was not made, or the run ended before a late one was.
    pub missed: Vec<StoreFault>,
}

impl FaultReport {
    /// Number of faults that came up.
    pub fn faults(&self) -> usize {
        self.outlasted.len() + self.stopped.len()
    }

    /// Adds a run with this fault. `struck`: the fault came up; `crashes`: how often the process ended for it.
    fn count(&mut self, fault: StoreFault, struck: bool, crashes: usize) {
        let faults = match (struck, crashes) {
            (false, _) => &mut self.missed,
            (true, 0) => &mut self.outlasted,
            (true, _) => &mut self.stopped,
        };
        faults.push(fault);
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outlasted, stopped, missed } = self;
        write!(f, "{} outlasted, {} stopped the run, {} missed", outlasted.len(), stopped.len(), missed.len())
    }
}

type Last = Arc<Mutex<Option<Arc<FaultyStore>>>>;

/// A simulation whose first process has a store with this fault; keeps that store in `last`.
fn with_fault(settings: &Settings, fault: Option<StoreFault>, last: &Last) -> Settings {
    let last = Arc::clone(last);
    let front = move |inner: Arc<dyn Store>, process: usize| -> Arc<dyn Store> {
        if process > 1 {
            return inner;
        }
        let store = Arc::new(FaultyStore::new(inner, fault));
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&store));
        store
    };
    Settings { front: Some(Arc::new(front)), store_fails: fault.is_some(), ..settings.clone() }
}

pub(crate) fn with_every_fault<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    test: &str,
) -> Result<FaultReport, SimError> {
    let reproduce = format!("cargo test {test}");
    let settings = settings.for_sweep();
    let last = Last::default();
    let taken = || last.lock().unwrap_or_else(PoisonError::into_inner).take();
    let reference = simulate::<W>(&with_fault(&settings, None, &last), input)?;
    undisturbed(&reference).map_err(|broken| SimError::Undisturbed {
        broken,
        reproduce: reproduce.clone(),
        journal: reference.report.journal(),
    })?;
    let mut report = FaultReport::default();
    for fault in taken().map(|store| store.possible()).unwrap_or_default() {
        let failed = |broken: String, journal: String| {
            let (fault, reproduce) = (fault.to_string(), reproduce.clone());
            SimError::StoreFault { fault, broken, reproduce, journal }
        };
        let mut run = simulate::<W>(&with_fault(&settings, Some(fault), &last), input)
            .map_err(|error| failed(error.to_string(), "  (none)".into()))?;
        // The first process survives a fault, and may have decided itself what the fault cut off.
        run.left.extend(run.doubts.iter().cloned());
        let may_lose_streams = matches!(fault, StoreFault::StreamLate(_));
        let disturbance = Disturbance { must_die: false, may_lose_streams };
        check(&reference, &run, disturbance).map_err(|broken| failed(broken, run.report.journal()))?;
        let struck = taken().is_some_and(|store| store.struck());
        report.count(fault, struck, run.report.crashes);
    }
    Ok(report)
}
