//! Forks: what they copy happened to their origins, and is exported and counted there.

use std::collections::BTreeMap;

use aether::prelude::*;
use opentelemetry_proto::tonic::trace::v1::Span;
use tempfile::tempdir;

use crate::collector::{Collector, hex, text};
use crate::kit::{LONG, PROMPT, engine, name, to_grpc, to_http};

/// Mend something.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn mend(_cx: &mut StepCx, what: &str) -> Result<String> {
    Ok(format!("{what} is whole"))
}

/// Asks a model, mends in a scope of its own, and mends again.
#[workflow]
async fn mending(cx: &mut Cx) -> Result<String> {
    let plan = cx.llm("plan").user(PROMPT).text().await?;
    let chair = chair(cx).await?;
    Ok(format!("{plan}: {chair}, {}", mend(cx, "table").await?))
}

/// Mends in a scope of its own.
#[workflow]
async fn chair(cx: &mut Cx) -> Result<String> {
    Ok(mend(cx, "chair").await?)
}

fn of_run<'a>(spans: &'a BTreeMap<String, Span>, run: &str) -> Vec<&'a Span> {
    spans.values().filter(|span| text(span, "aether.run.id") == run).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fork_copies_is_neither_exported_nor_counted_again() {
    let (folder, collector, id) = (tempdir().unwrap(), Collector::grpc().await, name("mending"));
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    let run = engine.start::<mending>(()).id(id.clone()).await.unwrap();
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let origin = collector.received.folded();
    assert_eq!(of_run(&origin, &id).iter().filter(|span| span.name == "execute_tool mend").count(), 2);

    let plan = engine.fork(run.id()).before("2:mend").plan().await.unwrap().again("2:mend");
    let fork = plan.start("ann").await.unwrap().id().clone();
    engine.handle::<mending>(fork.as_str()).await.unwrap().result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let metrics = telemetry.metrics().prometheus().await.unwrap();
    for line in [
        r#"aether_runs_started_total{workflow="mending"} 2"#,
        r#"aether_runs_ended_total{status="completed",workflow="mending"} 2"#,
        r#"aether_steps_total{class="tool",outcome="side_effect_committed",step="mend"} 3"#,
        r#"aether_steps_total{class="llm",outcome="success",step="llm.plan"} 1"#,
        r#"aether_llm_tokens_total{kind="input",model="gpt-test-2026"} 11"#,
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line}\n{metrics}");
    }

    let spans = collector.received.folded();
    let mut names: Vec<_> = of_run(&spans, fork.as_str()).iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["aether.attempt 0", "aether.segment", "execute_tool mend", "invoke_workflow mending"]);
    let root = |run: &str| {
        let of_run = of_run(&spans, run);
        (*of_run.iter().find(|span| span.name == "invoke_workflow mending").unwrap()).clone()
    };
    let (from, root) = (root(&id), root(fork.as_str()));
    assert_eq!(root.links[0].span_id, from.span_id);
    assert_eq!(
        (hex(&root.links[0].trace_id), text(&root, "aether.origin.run.id")),
        (hex(&from.trace_id), id)
    );

    // However often it is read.
    let later = Collector::http().await;
    to_http(&later).start(&engine).backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(later.received.folded(), spans);
    engine.shutdown().await.unwrap();
}
