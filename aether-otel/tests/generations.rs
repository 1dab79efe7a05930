//! Runs that continue as new: one trace, in which nothing hangs in the air.

use std::collections::BTreeMap;

use aether::prelude::*;
use opentelemetry_proto::tonic::trace::v1::Span;
use tempfile::tempdir;
use tokio::sync::Semaphore;

use crate::collector::{Collector, hex, text};
use crate::kit::{LONG, Model, PROMPT, name, to_grpc};

/// Opened by the test when it has seen what there is before.
static AGENT: Semaphore = Semaphore::const_new(0);
static INLINE: Semaphore = Semaphore::const_new(0);

/// Wait until the test has seen the agent's first question.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn held(_cx: &mut StepCx, what: &str) -> Result<String> {
    AGENT.acquire().await?.forget();
    Ok(format!("{what} was held"))
}

/// Wait until the test has seen the step before.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn hold(_cx: &mut StepCx) -> Result<u32> {
    INLINE.acquire().await?.forget();
    Ok(1)
}

/// Note something.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn note(_cx: &mut StepCx) -> Result<u32> {
    Ok(1)
}

/// An agent is the last thing that a generation does.
#[workflow]
async fn agents(cx: &mut Cx, round: u32) -> Result<u32> {
    cx.agent("clerk").tools((held::tool(),)).run(PROMPT).await?;
    if round == 0 {
        return cx.continue_as_new::<agents>(round + 1).await;
    }
    Ok(round)
}

/// A scope is the last thing that a generation does.
#[workflow]
async fn scopes(cx: &mut Cx, round: u32) -> Result<u32> {
    inline(cx).await?;
    if round == 0 {
        return cx.continue_as_new::<scopes>(round + 1).await;
    }
    Ok(round)
}

/// In a scope of its own.
#[workflow]
async fn inline(cx: &mut Cx) -> Result<u32> {
    Ok(note(cx).await? + hold(cx).await?)
}

async fn engine() -> (tempfile::TempDir, Engine) {
    let folder = tempdir().unwrap();
    let engine = Engine::builder().sqlite(folder.path().join("a.db")).model(Model);
    let engine = engine.start().await.unwrap();
    (folder, engine)
}

fn named<'a>(spans: &'a BTreeMap<String, Span>, name: &str) -> Vec<&'a Span> {
    spans.values().filter(|span| span.name == name).collect()
}

/// Every span has a parent in the tree, and the first claim ended with its generation.
fn assert_whole(spans: &BTreeMap<String, Span>, root: &str) {
    let root = named(spans, root)[0];
    for span in spans.values().filter(|span| span.span_id != root.span_id) {
        assert!(spans.contains_key(&hex(&span.parent_span_id)), "{} hangs in the air", span.name);
    }
    let mut ends: Vec<_> =
        named(spans, "aether.segment").iter().map(|span| text(span, "aether.segment.end")).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["ended", "renewed"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_works_until_the_run_continues_as_new_has_its_span() {
    let ((_folder, engine), collector) = (engine().await, Collector::grpc().await);
    let telemetry = to_grpc(&collector).start(&engine);
    let run = engine.start::<agents>(0).id(name("agents")).await.unwrap();
    while named(&collector.received.folded(), "chat gpt-test-2026").is_empty() {
        telemetry.flush(LONG).await.unwrap();
    }
    AGENT.add_permits(2);
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    assert_eq!(named(&spans, "invoke_agent clerk").len(), 2);
    assert_whole(&spans, "invoke_workflow agents");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_is_open_when_the_run_continues_as_new_has_its_span() {
    let ((_folder, engine), collector) = (engine().await, Collector::grpc().await);
    let telemetry = to_grpc(&collector).start(&engine);
    let run = engine.start::<scopes>(0).id(name("scopes")).await.unwrap();
    while named(&collector.received.folded(), "execute_tool note").is_empty() {
        telemetry.flush(LONG).await.unwrap();
    }
    INLINE.add_permits(2);
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    let scopes = spans.values().filter(|span| span.name.starts_with("aether.scope")).count();
    assert_eq!(scopes, 2);
    assert_whole(&spans, "invoke_workflow scopes");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_continues_as_new_before_anybody_looked_counts_as_started_once() {
    let ((folder, first), progress) = (engine().await, tempdir().unwrap());
    let progress = progress.path().join("telemetry.json");
    let file = folder.path().join("a.db");
    // Another process advances it: this one sees only the list of runs, when it looks.
    let watcher = Engine::builder().sqlite(&file).client().start().await.unwrap();
    let telemetry = aether::otel::Telemetry::builder().look_every(LONG).progress_in(&progress);
    let telemetry = telemetry.start(&watcher);
    telemetry.flush(LONG).await.unwrap();
    let run = first.start::<quick>(0).id(name("quick")).await.unwrap();
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let metrics = telemetry.metrics().prometheus().await.unwrap();
    for line in [
        r#"aether_runs_started_total{workflow="quick"} 1"#,
        r#"aether_runs_ended_total{status="completed",workflow="quick"} 1"#,
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line}\n{metrics}");
    }
    watcher.shutdown().await.unwrap();
    first.shutdown().await.unwrap();
}

/// Continues as new at once.
#[workflow]
async fn quick(cx: &mut Cx, round: u32) -> Result<u32> {
    note(cx).await?;
    if round == 0 {
        return cx.continue_as_new::<quick>(round + 1).await;
    }
    Ok(round)
}
