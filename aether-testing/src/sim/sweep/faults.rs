//! Stores that fail: one call at a time, and each fault in turn.
//!
//! Promise: a run that a store's fault stopped is taken up by a second process, on the same store without the fault;
//! what must hold after a crash must hold after a fault.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::payload::Payload;
use aether_core::step::Workflow;
use aether_core::store::Store;
use futures_util::future::BoxFuture;

use super::boundaries::test_name;
use super::crashes::{check, undisturbed};
use super::life::simulate;
use super::{Running, Settings, Sim, SimError};
use crate::faulty::{Fault, FaultyStore};

/// What faults of the store showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultReport {
    /// Faults that the run outlasted in its first process.
    pub outlasted: Vec<Fault>,
    /// Faults that stopped it; a second process ended it.
    pub stopped: Vec<Fault>,
    /// Faults that did not come up again: the call was not made.
    pub missed: Vec<Fault>,
}

impl FaultReport {
    /// Number of faults that came up.
    pub fn faults(&self) -> usize {
        self.outlasted.len() + self.stopped.len()
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
fn with_fault(settings: &Settings, fault: Option<Fault>, last: &Last) -> Settings {
    let last = Arc::clone(last);
    let front = move |inner: Arc<dyn Store>, process: usize| -> Arc<dyn Store> {
        if process > 1 {
            return inner;
        }
        let store = Arc::new(FaultyStore::new(inner, fault));
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&store));
        store
    };
    Settings { front: Some(Arc::new(front)), faults: fault.is_some(), ..settings.clone() }
}

fn with_every_fault<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    test: &str,
) -> Result<FaultReport, SimError> {
    let reproduce = format!("cargo test {test}");
    let draws = settings.draws.clone().unwrap_or_default();
    let settings = Settings { crashes: Vec::new(), draws: Some(draws), ..settings.clone() };
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
        let broken = |broken: String, journal: String| {
            let (fault, reproduce) = (fault.to_string(), reproduce.clone());
            SimError::Fault { fault, broken, reproduce, journal }
        };
        let mut run = simulate::<W>(&with_fault(&settings, Some(fault), &last), input)
            .map_err(|error| broken(error.to_string(), "  (none)".into()))?;
        // The first process lives on after a fault, and may have decided itself what the fault cut off.
        run.left.extend(run.doubts.iter().cloned());
        check(&reference, &run, false).map_err(|what| broken(what, run.report.journal()))?;
        let struck = taken().is_some_and(|store| store.struck());
        let faults = match (struck, run.report.crashes) {
            (false, _) => &mut report.missed,
            (true, 0) => &mut report.outlasted,
            (true, _) => &mut report.stopped,
        };
        faults.push(fault);
    }
    Ok(report)
}

impl<W: Workflow> Sim<W> {
    /// Runs the workflow once to learn which calls its engine makes to the store, and then once for each [`Fault`] that
    /// each of these calls can have. What a fault stopped is taken up by a second process, without the fault. Each
    /// time the same must hold as after a crash; see [`Sim::crash_at_every_boundary`].
    ///
    /// # Panics
    /// When a fault changes more than a crash may.
    #[track_caller]
    pub fn fail_at_every_call(&self, input: W::Input) -> Running<FaultReport> {
        Running::new(self.with_faults(input))
    }

    /// Like [`Sim::fail_at_every_call`].
    ///
    /// # Errors
    /// [`SimError::Fault`] when a fault changes more than a crash may; any other when the run without a fault fails.
    pub async fn try_fail_at_every_call(&self, input: W::Input) -> Result<FaultReport, SimError> {
        self.with_faults(input).await
    }

    fn with_faults(&self, input: W::Input) -> BoxFuture<'static, Result<FaultReport, SimError>> {
        let test = test_name();
        self.apart(input, move |settings, input| with_every_fault::<W>(settings, input, &test))
    }
}
