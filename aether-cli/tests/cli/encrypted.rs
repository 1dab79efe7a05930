//! The plain command line on a store whose program encodes its values.

use aether::encryption::{Encryption, Keys, SecretKey};
use serde_json::Value;

use crate::desk::{builder, refund, waits};
use crate::kit::{Desk, valid};

#[tokio::test(flavor = "multi_thread")]
async fn who_lacks_the_codec_is_told_that_runs_wait_and_writes_nothing_in_the_open() {
    let desk = Desk::new();
    let keys = Keys::new("key 1", SecretKey::from([1; 32]), SecretKey::from([2; 32]));
    let engine = builder(&desk.db).payload_codec(Encryption::new(keys)).start().await.unwrap();
    engine.start::<refund>("order-7".into()).id("refund-1").await.unwrap();
    waits(&engine, "refund-1").await;
    engine.shutdown().await.unwrap();

    let said = desk.cli(&["inbox", "list"]).exits(4);
    assert!(said.err.contains("`refund-1` waits") && said.err.contains("key 1"), "{}", said.err);
    let listed: Value = valid("inbox list", &desk.cli(&["inbox", "list", "--json"]).exits(4).out);
    assert_eq!(listed["waits"].as_array().unwrap().len(), 0);
    assert_eq!(listed["unreadable"][0]["run"], "refund-1");
    assert_eq!(listed["unreadable"][0]["waiting"], "approval");
    for args in [
        &["signal", "refund-1", "word", "\"4111\""][..],
        &["runs", "cancel", "refund-1", "--reason", "of ann's"],
        &["inbox", "approve", "refund-1"],
    ] {
        let said = desk.cli(args).exits(4);
        assert!(said.err.contains("no payload codec is set"), "{}", said.err);
    }
    let file = std::fs::read(&desk.db).unwrap();
    let log = std::fs::read(desk.db.with_extension("db-wal")).unwrap_or_default();
    for secret in ["4111", "of ann's"] {
        let is_there = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!is_there(&file) && !is_there(&log), "{secret}");
    }
}
