//! Encryption: nothing of what is recorded stands in the open, everything reads as before, and erased means erased.

mod everything;
mod keys;
mod killed;
mod plaintext;
mod subjects;
mod without_codec;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aether::Engine;
use aether::encryption::{CodedStore, Encryption, Keys, SecretKey};
use aether::error::SendError;
use aether::id::RunId;
use aether::store::memory::MemoryStore;
use aether::store::{Sent, Store};
use aether_testing::conformance::Fixture;

/// A key that is the same for the same number.
fn key(number: u8) -> SecretKey {
    SecretKey::from([number; 32])
}

/// A ring whose current key has this number. The key of names is always the same.
fn ring(current: u8) -> Keys {
    Keys::new(format!("key {current}"), key(current), key(200))
}

fn coded(store: Arc<dyn Store>, codec: Option<Encryption>) -> Arc<dyn Store> {
    Arc::new(CodedStore::new(store, codec.map(|codec| Arc::new(codec) as _)))
}

// The store in front of a store is a store, whatever its codec does.
aether_testing::store_suite!(encrypted, async || {
    Fixture::new(coded(Arc::new(MemoryStore::new()), Some(Encryption::new(ring(1)))))
});
aether_testing::store_suite!(read_only, async || {
    Fixture::new(coded(Arc::new(MemoryStore::new()), Some(Encryption::new(ring(1)).reading_only())))
});
aether_testing::store_suite!(without_a_codec, async || {
    Fixture::new(coded(Arc::new(MemoryStore::new()), None))
});

/// Sends a signal with an id of its own.
async fn say<T: serde::Serialize>(
    engine: &Engine,
    run: &RunId,
    name: &str,
    value: &T,
) -> Result<Sent, SendError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    engine.signal(run, name, &NUMBER.fetch_add(1, Ordering::SeqCst).to_string(), value).await
}
