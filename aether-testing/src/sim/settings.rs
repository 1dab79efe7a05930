//! Everything a simulation is made from, in one value.
//!
//! Promise: settings are only read by a simulation, so that one value makes any number of equal simulations.

use std::sync::Arc;
use std::time::Duration;

use aether_core::deps::Deps;
use aether_core::id::RunId;
use aether_core::limits::Limits;
use aether_core::policy::Verifier;
use aether_core::recording::Masking;
use aether_core::store::Store;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::live::Live;
use super::report::error::SimError;
use super::schedule::pace::Pace;
use super::scheduler::BodyScheduler;
use super::script::people::PeoplePlan;
use super::script::scripts::Scripts;
use super::tape::{Draws, Tape};
use crate::stores::crash_point::CrashPoint;
use crate::trap::setting::Trap;
use crate::trap::watch::Skew;

/// 2026-01-01T00:00:00Z, the time at which a simulation begins unless the test sets another.
const BEGINNING: i64 = 1_767_225_600;
/// How much virtual time a run gets.
const WITHIN: Duration = Duration::from_secs(366 * 24 * 3600);

/// What a test does beside the run.
pub(crate) type Meanwhile = Arc<dyn Fn(Live) -> BoxFuture<'static, ()> + Send + Sync>;
/// Puts a store in front of the store that dies; gets the number of the process, from 1.
pub(crate) type Front = Arc<dyn Fn(Arc<dyn Store>, usize) -> Arc<dyn Store> + Send + Sync>;
/// Puts a store around the simulation's own.
pub(crate) type Wrap = Arc<dyn Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync>;

/// Everything a simulation is made from; used again for each of its runs.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) deps: Deps,
    pub(crate) verifiers: Vec<(String, Arc<dyn Verifier>)>,
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) seed: u64,
    pub(crate) within: Duration,
    pub(crate) limits: Limits,
    pub(crate) redact: Option<Masking>,
    pub(crate) crashes: Vec<CrashPoint>,
    /// How long the suspension lasts that is the first crash point, where a run without a crash has shown it.
    pub(crate) suspended_for: Option<Duration>,
    pub(crate) people: PeoplePlan,
    pub(crate) meanwhile: Option<Meanwhile>,
    pub(crate) wrap: Option<Wrap>,
    pub(crate) trap: Trap,
    pub(crate) skew: Option<Skew>,
    pub(crate) tape: Option<Tape>,
    pub(crate) draws: Option<Draws>,
    pub(crate) scheduler: Option<Arc<BodyScheduler>>,
    pub(crate) front: Option<Front>,
    /// The schedule, in one of many.
    pub(crate) pace: Option<Arc<Pace>>,
    pub(crate) prepare: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The store of the first process fails on purpose: a second process resumes what that stops.
    pub(crate) store_fails: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scripts: Arc::default(),
            deps: Deps::default(),
            verifiers: Vec::new(),
            id: "sim".into(),
            at: Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH),
            seed: 0,
            within: WITHIN,
            limits: Limits::default(),
            redact: None,
            crashes: Vec::new(),
            suspended_for: None,
            people: PeoplePlan::default(),
            meanwhile: None,
            wrap: None,
            trap: Trap::strict(),
            skew: None,
            tape: None,
            draws: None,
            scheduler: None,
            front: None,
            pace: None,
            prepare: None,
            store_fails: false,
        }
    }
}

impl Settings {
    pub(crate) fn run_id(&self) -> Result<RunId, SimError> {
        RunId::new(&self.id).map_err(|error| SimError::Broken(error.to_string()))
    }

    /// The same without crashes, for a sweep: all of its simulations share one set of draws.
    pub(crate) fn for_sweep(&self) -> Self {
        let draws = self.draws.clone().unwrap_or_default();
        Self { crashes: Vec::new(), draws: Some(draws), ..self.clone() }
    }
}
