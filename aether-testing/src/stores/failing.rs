//! A store that answers chosen calls with an error, as a full disk or a broken connection would.
//!
//! Promise: a failed call does nothing in the inner store; every other call reaches it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aether_core::store::{AppendError, Lease, Store, StoreError};

use super::gated::{Gate, GateDecision, Gated, StoreCall};

/// A store whose chosen calls fail.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::store::memory::MemoryStore;
/// use aether_core::store::StoreError;
/// use aether_testing::failing::FailingStore;
///
/// let full = StoreError::Full { store: "disk".into(), reason: "no space left".into() };
/// let store = FailingStore::new(Arc::new(MemoryStore::new())).append_fails(2, full);
/// assert_eq!(store.appends(), 0);
/// ```
pub type FailingStore = Gated<PlannedFailures>;

/// What is still to fail.
#[derive(Debug, Default)]
pub struct PlannedFailures(Mutex<Planned>);

#[derive(Debug, Default)]
struct Planned {
    appends: u64,
    /// Number of the first and of the last append that fail, and how.
    append: Option<(u64, u64, AppendError)>,
    create: Series,
    load: Series,
    claim: Series,
    release: Series,
    effect: Series,
    read: Series,
    blob: Series,
    lost_claims: u64,
    repeated_claims: u64,
    /// Leases that are given with the next claim.
    kept: Vec<Lease>,
}

/// Calls that are still to fail.
#[derive(Debug, Default)]
struct Series {
    left: u64,
    error: Option<StoreError>,
}

impl Series {
    fn next(&mut self) -> GateDecision {
        match &self.error {
            Some(error) if self.left > 0 => {
                self.left -= 1;
                GateDecision::Fail(AppendError::Store(error.clone()))
            }
            _ => GateDecision::Pass,
        }
    }
}

impl PlannedFailures {
    fn plan(&self) -> MutexGuard<'_, Planned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for PlannedFailures {
    fn decide(&self, call: StoreCall) -> GateDecision {
        let mut plan = self.plan();
        match call {
            StoreCall::Append => {
                plan.appends += 1;
                let number = plan.appends;
                match &plan.append {
                    Some((first, last, error)) if (*first..=*last).contains(&number) => {
                        GateDecision::Fail(error.clone())
                    }
                    _ => GateDecision::Pass,
                }
            }
            StoreCall::Create => plan.create.next(),
            StoreCall::Load => plan.load.next(),
            StoreCall::Claim => plan.claim.next(),
            StoreCall::Release => plan.release.next(),
            StoreCall::Effect => plan.effect.next(),
            StoreCall::Read => plan.read.next(),
            StoreCall::Blob => plan.blob.next(),
            StoreCall::Write | StoreCall::Reserve => GateDecision::Pass,
        }
    }

    fn claimed(&self, leases: Vec<Lease>) -> Result<Vec<Lease>, StoreError> {
        let plan = &mut *self.plan();
        if plan.lost_claims > 0 && !leases.is_empty() {
            plan.lost_claims -= 1;
            plan.kept.extend(leases);
            let reason = "the answer to a claim was lost".to_owned();
            return Err(StoreError::Unavailable { store: "a failing store".into(), reason });
        }
        let mut given = std::mem::take(&mut plan.kept);
        if plan.repeated_claims > 0 && !leases.is_empty() {
            plan.repeated_claims -= 1;
            plan.kept.clone_from(&leases);
        }
        given.extend(leases);
        Ok(given)
    }
}

impl FailingStore {
    /// A store in front of `inner` that passes every call on until one of the methods below plans a failure.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::behind(inner, PlannedFailures::default())
    }

    fn with(self, change: impl FnOnce(&mut Planned)) -> Self {
        change(&mut self.gate.plan());
        self
    }

    /// The append of this number (from 1) fails; later ones do not.
    #[must_use]
    pub fn append_fails(self, number: u64, error: impl Into<AppendError>) -> Self {
        self.with(|plan| plan.append = Some((number, number, error.into())))
    }

    /// The append of this number (from 1) fails, and every later one.
    #[must_use]
    pub fn appends_fail_from(self, number: u64, error: impl Into<AppendError>) -> Self {
        self.with(|plan| plan.append = Some((number, u64::MAX, error.into())))
    }

    /// The next `times` creations of runs fail.
    #[must_use]
    pub fn create_fails(self, times: u64, error: StoreError) -> Self {
        self.with(|plan| plan.create = Series { left: times, error: Some(error) })
    }

    /// The next `times` loads of a journal fail.
    #[must_use]
    pub fn load_fails(self, times: u64, error: StoreError) -> Self {
        self.with(|plan| plan.load = Series { left: times, error: Some(error) })
    }

    /// The next `times` claims fail.
    #[must_use]
    pub fn claim_fails(self, times: u64, error: StoreError) -> Self {
        self.with(|plan| plan.claim = Series { left: times, error: Some(error) })
    }

    /// The next `times` writes to the effect store fail.
    #[must_use]
    pub fn effect_fails(self, times: u64, error: StoreError) -> Self {
        self.with(|plan| plan.effect = Series { left: times, error: Some(error) })
    }

    /// The next `times` releases of a run fail.
    #[must_use]
    pub fn release_fails(self, times: u64, error: StoreError) -> Self {
        self.with(|plan| plan.release = Series { left: times, error: Some(error) })
    }

    /// The answers to the next `times` claims that get something are lost. What they got is given with the claim that follows,
    /// whatever that asks for, as the Postgres store does.
    pub fn next_claims_are_lost(&self, times: u64) {
        self.gate.plan().lost_claims = times;
    }

    /// What the next `times` claims get is given once more with the claim that follows, whatever that asks for. No store should
    /// do that.
    pub fn next_claims_are_repeated(&self, times: u64) {
        self.gate.plan().repeated_claims = times;
    }

    /// The next `times` reads of runs, ledger rows, messages or snapshots fail, from now on.
    pub fn next_reads_fail(&self, times: u64, error: StoreError) {
        self.gate.plan().read = Series { left: times, error: Some(error) };
    }

    /// The next `times` reads of large values fail, from now on.
    pub fn next_blobs_fail(&self, times: u64, error: StoreError) {
        self.gate.plan().blob = Series { left: times, error: Some(error) };
    }

    /// Number of appends so far, failed ones included.
    pub fn appends(&self) -> u64 {
        self.gate.plan().appends
    }
}
