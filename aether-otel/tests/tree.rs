//! The tree of spans of one run, over gRPC.

use std::collections::BTreeMap;

use aether::prelude::*;
use aether_core::id::RunId;
use opentelemetry_proto::tonic::trace::v1::Span;
use tempfile::tempdir;

use crate::collector::{Collector, hex, text};
use crate::journal;
use crate::kit::{LONG, charge, engine, name, order, order_once, to_grpc, to_http};

fn by_name<'a>(spans: &'a BTreeMap<String, Span>, name: &str) -> Vec<&'a Span> {
    spans.values().filter(|span| span.name == name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_a_tree_of_whole_spans_with_the_times_of_its_journal() {
    let (folder, collector, id) = (tempdir().unwrap(), Collector::grpc().await, name("tree"));
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    order_once(&engine, &id).await;
    telemetry.flush(LONG).await.unwrap();

    let all = collector.received.folded();
    let run = RunId::new(id.clone()).unwrap();
    let spans: BTreeMap<_, _> = all
        .iter()
        .filter(|(_, span)| text(span, "aether.run.id") == id)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let root = by_name(&spans, "invoke_workflow order")[0];
    assert!(root.parent_span_id.is_empty());
    for span in spans.values() {
        assert_eq!(span.trace_id, root.trace_id);
        let parent = hex(&span.parent_span_id);
        assert!(
            span.span_id == root.span_id || spans.contains_key(&parent),
            "{} hangs in the air",
            span.name
        );
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{}", span.name);
        assert_eq!(text(span, "aether.replayed"), "false");
    }
    let parent_of = |span: &Span| &spans[&hex(&span.parent_span_id)];

    // The agent in its own scope, with its model and its tool.
    let agent = by_name(&spans, "invoke_agent clerk")[0];
    assert_eq!(agent.parent_span_id, root.span_id);
    let of_agent: Vec<_> = spans.values().filter(|span| span.parent_span_id == agent.span_id).collect();
    assert_eq!(of_agent.iter().filter(|span| span.name == "chat gpt-test-2026").count(), 2);
    let tools: Vec<_> = spans.values().filter(|span| span.name == "execute_tool charge").collect();
    assert_eq!(tools.len(), 3);

    // Attempts below their steps: the read was tried twice.
    let read = by_name(&spans, "execute_tool price_of")[0];
    assert_eq!(text(read, "aether.attempts"), "2");
    let attempts: Vec<_> = spans.values().filter(|span| span.parent_span_id == read.span_id).collect();
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().any(|span| span.status.as_ref().is_some_and(|status| status.code == 2)));
    for attempt in spans.values().filter(|span| span.name.starts_with("aether.attempt")) {
        assert_eq!(text(parent_of(attempt), "aether.command"), text(attempt, "aether.command"));
    }

    // Waits, branches and claims.
    assert_eq!(by_name(&spans, "aether.wait timer").len(), 1);
    assert_eq!(by_name(&spans, "aether.wait signal").len(), 1);
    assert_eq!(spans.values().filter(|span| span.name.starts_with("aether.scope")).count(), 2);
    assert!(!by_name(&spans, "aether.segment").is_empty());
    let child = by_name(&spans, "invoke_workflow pack")[0];
    assert!(!text(child, "aether.child.run.id").is_empty());

    // The child is a run of its own, linked to its parent.
    let of_child = all.values().find(|span| text(span, "aether.parent.run.id") == id).unwrap();
    assert_ne!(of_child.trace_id, root.trace_id);
    assert_eq!(of_child.links[0].span_id, root.span_id);

    let times = journal::times(&journal::events(&engine, &run).await);
    let compared = journal::assert_same_times(&times, spans.values());
    assert!(compared >= times.len() && compared >= 8, "{compared} of {times:?}");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_are_waits_and_failures_are_errors() {
    let (folder, collector) = (tempdir().unwrap(), Collector::http().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_http(&collector).start(&engine);
    let run = engine.start::<crate::kit::asking>("hello".to_owned()).id(name("asking")).await.unwrap();
    let waits = loop {
        let waits = engine.pending(run.id()).await.unwrap();
        if !waits.is_empty() {
            break waits;
        }
        tokio::task::yield_now().await;
    };
    engine.approve(run.id(), &waits[0], "Ann").await.unwrap();
    run.result().await.unwrap();
    let failed = engine.start::<crate::kit::failing>(()).id(name("failing")).await.unwrap();
    failed.result().await.unwrap_err();
    telemetry.flush(LONG).await.unwrap();

    let spans = collector.received.folded();
    let approval = by_name(&spans, "aether.wait approval")[0];
    assert_eq!(spans[&hex(&approval.parent_span_id)].name, "execute_tool tell");
    assert_eq!(text(approval, "aether.status"), "completed");
    let error = by_name(&spans, "execute_tool broken")[0];
    assert_eq!((error.status.as_ref().unwrap().code, text(error, "error.type")), (2, "app".to_owned()));
    let error = by_name(&spans, "invoke_workflow failing")[0];
    assert_eq!(error.status.as_ref().unwrap().code, 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_exports_history_with_the_same_ids() {
    let (folder, id) = (tempdir().unwrap(), name("history"));
    let engine = engine(&folder.path().join("a.db")).await;
    let before = jiff::Timestamp::now();
    let live = Collector::grpc().await;
    let telemetry = to_grpc(&live).start(&engine);
    order_once(&engine, &id).await;
    telemetry.flush(LONG).await.unwrap();
    drop(telemetry);

    let later = Collector::http().await;
    let telemetry = to_http(&later).start(&engine);
    let done = telemetry.backfill(before).await.unwrap();
    assert_eq!((done.runs, done.spans), (2, later.received.folded().len() as u64));
    assert_eq!(later.received.folded(), live.received.folded());
    assert_eq!(telemetry.backfill(jiff::Timestamp::now()).await.unwrap().runs, 0);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_belongs_to_the_trace_of_its_caller_unless_that_is_not_recorded() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    for (id, flags) in [("wanted", "01"), ("unwanted", "00")] {
        let caller = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let run = engine.start::<order>("lamp".to_owned()).id(id).traceparent(caller).await.unwrap();
        engine.signal(run.id(), "go", "s1", &"now").await.unwrap();
        run.result().await.unwrap();
    }
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    assert!(spans.values().all(|span| text(span, "aether.run.id") != "unwanted"));
    let root = by_name(&spans, "invoke_workflow order")[0];
    assert_eq!(hex(&root.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&root.parent_span_id), "00f067aa0ba902b7");
    engine.shutdown().await.unwrap();
}

/// Works, waits, and begins anew once.
#[workflow]
async fn renewing(cx: &mut Cx, round: u32) -> Result<u32> {
    charge(cx, &format!("round {round}")).await?;
    let _heard: String = cx.signal("go").await?;
    if round == 0 {
        return cx.continue_as_new::<renewing>(round + 1).await;
    }
    Ok(round)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_of_a_run_are_one_trace() {
    let (folder, collector, id) = (tempdir().unwrap(), Collector::grpc().await, name("renewing"));
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    let run = engine.start::<renewing>(0).id(id.clone()).await.unwrap();
    let calls = || by_name(&collector.received.folded(), "execute_tool charge").len();
    while calls() < 1 {
        telemetry.flush(LONG).await.unwrap();
    }
    engine.signal(run.id(), "go", "s1", &"now").await.unwrap();
    while calls() < 2 {
        telemetry.flush(LONG).await.unwrap();
    }
    engine.signal(run.id(), "go", "s2", &"now").await.unwrap();
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    let root = by_name(&spans, "invoke_workflow renewing")[0];
    assert_eq!(text(root, "aether.generation"), "1");
    let calls = by_name(&spans, "execute_tool charge");
    assert_eq!(calls.len(), 2);
    for span in spans.values() {
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.start_time_unix_nano >= root.start_time_unix_nano, "{}", span.name);
    }
    assert!(calls.iter().all(|call| call.parent_span_id == root.span_id));
    engine.shutdown().await.unwrap();
}

/// Two agents, one inside a branch, and a scope that begins with branches.
#[workflow]
async fn nesting(cx: &mut Cx) -> Result<usize> {
    let (first, second) = cx
        .join((
            async |cx: &mut Cx| inner(cx, "one".into()).await,
            async |cx: &mut Cx| {
                cx.agent("clerk").tools((charge::tool(),)).run("charge").await.map(|r| r.turns as usize)
            },
        ))
        .await;
    Ok(first? + second? + inner(cx, "two".into()).await?)
}

/// Begins with branches.
#[workflow]
async fn inner(cx: &mut Cx, what: String) -> Result<usize> {
    let (a, b) = cx
        .join((
            async |cx: &mut Cx| charge(cx, &format!("{what} a")).await,
            async |cx: &mut Cx| charge(cx, &format!("{what} b")).await,
        ))
        .await;
    cx.sleep(std::time::Duration::from_millis(20)).await;
    Ok(a?.len() + b?.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_are_the_same_however_often_the_journal_is_looked_at() {
    let (folder, live, later) = (tempdir().unwrap(), Collector::grpc().await, Collector::http().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&live).start(&engine);
    let run = engine.start::<nesting>(()).id(name("nesting")).await.unwrap();
    while engine.view(run.id()).await.unwrap().result.is_none() {
        telemetry.flush(LONG).await.unwrap();
    }
    telemetry.flush(LONG).await.unwrap();
    to_http(&later).start(&engine).backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(live.received.folded(), later.received.folded());
    let spans = live.received.folded();
    assert_eq!(by_name(&spans, "invoke_agent clerk").len(), 1);
    let scopes = spans.values().filter(|span| span.name.starts_with("aether.scope")).count();
    assert_eq!(scopes, 2 + 2 * 3, "two branches, and twice a scope with two");
    engine.shutdown().await.unwrap();
}

/// Opened by the test when it has seen the reservation.
static SEEN: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);

/// Reserve something.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = give_back)]
async fn reserve(_cx: &mut StepCx, what: &str) -> Result<String> {
    Ok(what.to_owned())
}

/// Give it back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn give_back(_cx: &mut StepCx, what: &str, reserved: Option<String>) -> Result<()> {
    let _ = (what, reserved);
    Ok(())
}

/// Wait until the test has looked.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn look(_cx: &mut StepCx) -> Result<()> {
    SEEN.acquire().await?.forget();
    Ok(())
}

/// Reserves, and fails.
#[workflow]
async fn undoing(cx: &mut Cx) -> Result<()> {
    reserve(cx, "seat").await?;
    look(cx).await?;
    Err(Failure::permanent("sold out"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_undone_later_keeps_the_outcome_that_it_had() {
    let (folder, live, later) = (tempdir().unwrap(), Collector::grpc().await, Collector::http().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&live).start(&engine);
    let run = engine.start::<undoing>(()).id(name("undoing")).await.unwrap();
    while by_name(&live.received.folded(), "execute_tool reserve").is_empty() {
        telemetry.flush(LONG).await.unwrap();
    }
    SEEN.add_permits(1);
    run.result().await.unwrap_err();
    telemetry.flush(LONG).await.unwrap();
    to_http(&later).start(&engine).backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    let (live, later) = (live.received.folded(), later.received.folded());
    assert_eq!(live, later);
    let outcome = |name| text(by_name(&later, name)[0], "aether.outcome");
    assert_eq!(outcome("execute_tool reserve"), "side_effect_committed");
    assert_eq!(by_name(&later, "execute_tool give_back").len(), 1);
    engine.shutdown().await.unwrap();
}

/// Ask a model that is no client of Aether's.
#[step(effect = "llm")]
async fn foreign(_cx: &mut StepCx, question: &str) -> Result<String> {
    Ok(question.to_uppercase())
}

/// Asks it.
#[workflow]
async fn elsewhere(cx: &mut Cx) -> Result<String> {
    Ok(foreign(cx, "who?").await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_to_a_model_that_is_not_known_is_named_after_its_step() {
    let (folder, collector) = (tempdir().unwrap(), Collector::http().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_http(&collector).start(&engine);
    engine.start::<elsewhere>(()).id(name("elsewhere")).await.unwrap().result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    let chat = by_name(&spans, "chat foreign")[0];
    assert_eq!(text(chat, "gen_ai.operation.name"), "chat");
    assert!(text(chat, "gen_ai.request.model").is_empty());
    engine.shutdown().await.unwrap();
}
