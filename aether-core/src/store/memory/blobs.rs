//! Values outside of journals, and whose they are.
//!
//! Promise: equal bytes are kept once, and as long as one of the runs is there that stored them.

use crate::sched::HashMap;
use crate::vocabulary::id::RunId;

#[derive(Debug, Default)]
pub(super) struct Blobs(HashMap<String, Blob>);

#[derive(Debug)]
struct Blob {
    bytes: Vec<u8>,
    /// The runs that stored it.
    of: Vec<RunId>,
}

impl Blobs {
    pub(super) fn put(&mut self, run: &RunId, hash: &str, bytes: &[u8]) {
        let new = || Blob { bytes: bytes.into(), of: Vec::new() };
        let blob = self.0.entry(hash.into()).or_insert_with(new);
        if !blob.of.contains(run) {
            blob.of.push(run.clone());
        }
    }

    pub(super) fn get(&self, hash: &str) -> Option<Vec<u8>> {
        self.0.get(hash).map(|blob| blob.bytes.clone())
    }

    /// Deletes what only this run stored.
    pub(super) fn purge(&mut self, run: &RunId) {
        self.0.retain(|_, blob| {
            blob.of.retain(|of| of != run);
            !blob.of.is_empty()
        });
    }
}
