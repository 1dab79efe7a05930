//! The contents that the bodies of a run keep, in the run's store.

use futures_util::future::BoxFuture;

use crate::run::claim::Run;
use crate::step::contents::Contents;
use crate::vocabulary::id::RunId;

impl Contents for Run {
    fn put(&self, sha256: String, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.insist(|| self.shared.store.put_blob(&self.id, &sha256, bytes.clone())).await;
        })
    }

    fn get(&self, run: RunId, sha256: String) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { self.insist(|| self.shared.store.blob(&run, &sha256)).await })
    }

    fn redacts(&self) -> bool {
        self.shared.redaction.is_on()
    }
}
