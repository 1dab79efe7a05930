//! Spans that hold much, for receivers that take little: those of gRPC take 4 MiB in one message.

use std::collections::BTreeSet;

use aether::prelude::*;
use tempfile::tempdir;

use crate::collector::{Collector, text};
use crate::kit::{LONG, engine, name, to_grpc, to_http};

/// Letters in a text of each step.
const LETTERS: usize = 200_000;

/// Copy a text.
#[step(effect = "read")]
async fn copy(_cx: &mut StepCx, text: &str) -> Result<usize> {
    Ok(text.len())
}

/// Copies a text often, and a long one in between.
#[workflow]
async fn copying(cx: &mut Cx, times: usize, long: usize) -> Result<usize> {
    let mut copied = 0;
    for time in 0..times {
        copied += copy(cx, &"a".repeat(LETTERS)).await?;
        if time == times / 2 {
            copied += copy(cx, &"b".repeat(long)).await?;
        }
    }
    Ok(copied)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_content_is_sent_in_parts_that_a_receiver_takes() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let (times, long) = (60, 5 << 20);
    let run = engine.start::<copying>((times, long)).id(name("copying")).await.unwrap();
    assert_eq!(run.result().await.unwrap(), times * LETTERS + long);
    let telemetry = to_grpc(&collector).capture_content(true).start(&engine);
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    let steps: Vec<_> = spans.values().filter(|span| span.name == "execute_tool copy").collect();
    assert_eq!(steps.len(), times + 1);
    // Only the one that no receiver would take has lost what was said.
    let arguments = |span| text(span, "gen_ai.tool.call.arguments").len();
    let with = steps.iter().filter(|span| arguments(span) > LETTERS).count();
    let without: Vec<_> = steps.iter().filter(|span| arguments(span) == 0).collect();
    assert_eq!((with, without.len()), (times, 1));
    assert_eq!(text(without[0], "aether.outcome"), "success");

    // A receiver that takes more has all of them.
    let large = Collector::http().await;
    let telemetry = to_http(&large).capture_content(true).start(&engine);
    telemetry.flush(LONG).await.unwrap();
    let ids = |spans: &std::collections::BTreeMap<String, _>| spans.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(ids(&large.received.folded()), ids(&spans));
    engine.shutdown().await.unwrap();
}
