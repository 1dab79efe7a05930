//! Runs that this process is creating, in a store of several databases.
//!
//! Promise: a run is noted here from the moment at which appends to it may be queued until its creation is answered. While
//! its bucket is moved they may come to the new database first, and wait there. Of a run that is not noted, a look that
//! begins afterwards sees whether it is there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aether_core::id::RunId;

/// The runs, each with how many creations of it are not answered.
#[derive(Debug, Default)]
pub(crate) struct Births(Mutex<HashMap<RunId, usize>>);

/// A creation that is not answered.
#[derive(Debug)]
pub(crate) struct Birth<'b> {
    births: &'b Births,
    run: RunId,
}

impl Births {
    fn known(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A creation begins; it is over when this is dropped.
    pub(crate) fn begin(&self, run: &RunId) -> Birth<'_> {
        *self.known().entry(run.clone()).or_default() += 1;
        Birth { births: self, run: run.clone() }
    }

    /// Those of some runs that are being created.
    pub(crate) fn of<'r>(&self, runs: &'r [RunId]) -> Vec<&'r str> {
        let known = self.known();
        runs.iter().filter(|run| known.contains_key(*run)).map(RunId::as_str).collect()
    }
}

impl Drop for Birth<'_> {
    fn drop(&mut self) {
        let mut known = self.births.known();
        if let Some(count) = known.get_mut(&self.run) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_being_created_until_the_last_creation_is_answered() {
        let (births, runs) = (Births::default(), [RunId::new("a").unwrap(), RunId::new("b").unwrap()]);
        let (first, second) = (births.begin(&runs[0]), births.begin(&runs[0]));
        drop(first);
        assert_eq!(births.of(&runs), ["a"]);
        drop(second);
        assert!(births.of(&runs).is_empty());
    }
}
