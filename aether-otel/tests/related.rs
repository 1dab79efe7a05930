//! Runs whose parent or origin cannot be read: they are exported all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::prelude::*;
use aether_core::codec::{CodecError, EncodedPayload, PayloadCodec, PayloadPlace};
use aether_core::id::RunId;
use tempfile::tempdir;

use crate::collector::{Collector, text};
use crate::kit::{LONG, Model, short, to_grpc};

/// A codec for which each run has a key of its own; that of `head` can be destroyed.
#[derive(Clone, Debug, Default)]
struct Keys {
    is_destroyed: Arc<AtomicBool>,
}

impl PayloadCodec for Keys {
    fn encode(&self, plain: &[u8], place: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        let key = place.run().map_or_else(String::new, RunId::to_string);
        Ok(Some(EncodedPayload { key, bytes: plain.iter().rev().copied().collect() }))
    }

    fn decode(&self, encoded: &EncodedPayload, _: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
        if encoded.key == "head" && self.is_destroyed.load(Ordering::SeqCst) {
            return Err(CodecError::DestroyedKey { key: encoded.key.clone() });
        }
        Ok(encoded.bytes.iter().rev().copied().collect())
    }

    fn keyed_digest(&self, _: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
        Ok(None)
    }
}

/// Has a child.
#[workflow]
async fn head(cx: &mut Cx) -> Result<String> {
    Ok(cx.child::<short>("lamp".to_owned()).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_parent_or_origin_was_erased_is_exported_all_the_same() {
    let (folder, collector, keys) = (tempdir().unwrap(), Collector::grpc().await, Keys::default());
    let engine = Engine::builder().sqlite(folder.path().join("a.db")).model(Model);
    let engine = engine.payload_codec(keys.clone()).start().await.unwrap();
    let parent = engine.start::<head>(()).id("head").await.unwrap();
    parent.result().await.unwrap();
    let plan = engine.fork(parent.id()).at_end().plan().await.unwrap().keep_all().id("forked");
    plan.start("ann").await.unwrap().end().await.unwrap();
    keys.is_destroyed.store(true, Ordering::SeqCst);

    // Begins to look when the key is gone. Its own journal cannot be read: that is said, and holds nobody else up.
    let telemetry = to_grpc(&collector).look_every(Duration::from_millis(50)).start(&engine);
    let exported = async {
        loop {
            let said = telemetry.flush(LONG).await;
            let spans = collector.received.folded();
            let of = |run: &str| spans.values().any(|span| text(span, "aether.run.id").starts_with(run));
            if of("head/") && of("forked") {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let said = tokio::time::timeout(LONG, exported).await.unwrap().unwrap_err().to_string();
    assert!(said.contains("`head`") && said.contains("destroyed"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_may_be_never() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = Engine::builder().sqlite(folder.path().join("a.db")).model(Model).start().await.unwrap();
    let telemetry =
        to_grpc(&collector).look_every(Duration::MAX).export_timeout(Duration::MAX).start(&engine);
    for round in 0..2 {
        let run = engine.start::<short>("lamp".to_owned()).id(format!("short-{round}")).await.unwrap();
        run.result().await.unwrap();
        telemetry.flush(LONG).await.unwrap();
    }
    assert!(!collector.received.folded().is_empty());
}
