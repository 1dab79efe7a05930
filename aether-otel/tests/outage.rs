//! Collectors that are away, that do not answer, and that refuse.

use std::time::Duration;

use aether::otel::TelemetryError;
use aether::prelude::*;
use opentelemetry_proto::tonic::trace::v1::Span;
use tempfile::tempdir;
use tokio::net::TcpListener;

use crate::collector::{Collector, text};
use crate::kit::{LONG, engine, name, short, to_grpc, to_http};

const RUNS: usize = 20;

async fn run_all(engine: &Engine) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..RUNS {
        let id = name("outage");
        let run = engine.start::<short>("lamp".to_owned()).id(id.clone()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "charged for lamp");
        ids.push(id);
    }
    ids
}

fn assert_all_there(ids: &[String], collector: &Collector) {
    let spans = collector.received.folded();
    for id in ids {
        let of_run: Vec<&Span> = spans.values().filter(|span| text(span, "aether.run.id") == *id).collect();
        let mut names: Vec<_> = of_run.iter().map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["aether.attempt 0", "aether.segment", "execute_tool charge", "invoke_workflow short"],
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_nothing_but_time() {
    let folder = tempdir().unwrap();
    let engine = engine(&folder.path().join("a.db")).await;
    // A port that refuses connections for as long as nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let exporter = aether::otel::otlp::http(format!("http://{address}/v1/traces")).unwrap();
    let progress = folder.path().join("telemetry.json");
    let set_up = |exporter| aether::otel::Telemetry::builder().spans_to(exporter).progress_in(&progress);
    let telemetry = set_up(exporter).start(&engine);
    let ids = run_all(&engine).await;
    let refused = telemetry.flush(LONG).await.unwrap_err();
    assert!(matches!(refused, TelemetryError::Export { .. }), "{refused}");

    let collector = Collector::http_at(TcpListener::bind(address).await.unwrap()).await;
    telemetry.flush(LONG).await.unwrap();
    assert_all_there(&ids, &collector);

    // The next process goes on behind it.
    drop(telemetry);
    let count = collector.received.count();
    let telemetry = set_up(aether::otel::otlp::http(collector.traces_url()).unwrap()).start(&engine);
    telemetry.flush(LONG).await.unwrap();
    assert_eq!(collector.received.count(), count);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_that_no_process_exported_are_exported_by_the_next_one() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let file = folder.path().join("a.db");
    let progress = folder.path().join("telemetry.json");
    let first = engine(&file).await;
    let nowhere = aether::otel::otlp::grpc("http://127.0.0.1:1").unwrap();
    let telemetry = aether::otel::Telemetry::builder().spans_to(nowhere).progress_in(&progress).start(&first);
    let ids = run_all(&first).await;
    telemetry.flush(LONG).await.unwrap_err();
    drop(telemetry);
    first.shutdown().await.unwrap();

    let second = engine(&file).await;
    let telemetry = to_grpc(&collector).progress_in(&progress).start(&second);
    telemetry.flush(LONG).await.unwrap();
    assert_all_there(&ids, &collector);
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_does_not_answer_blocks_no_run() {
    let (grpc, http) = (Collector::grpc().await, Collector::http().await);
    for (collector, telemetry) in [(&grpc, to_grpc(&grpc)), (&http, to_http(&http))] {
        let folder = tempdir().unwrap();
        let engine = engine(&folder.path().join("a.db")).await;
        let telemetry = telemetry.export_timeout(LONG).start(&engine);
        collector.received.hang(true);
        let mut ids = run_all(&engine).await;
        collector.received.arrived(0).await;
        // Nobody answers, and runs begin and end.
        ids.extend(run_all(&engine).await);
        let late = telemetry.flush(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(late, TelemetryError::TimedOut { .. }), "{late}");
        assert_eq!(collector.received.count(), 0);
        collector.received.hang(false);
        telemetry.flush(LONG).await.unwrap();
        assert_all_there(&ids, collector);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_spans_are_refused_holds_up_no_other() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    collector.received.hang(true);
    let mut ids = run_all(&engine).await;
    let refused = ids.remove(RUNS / 2);
    collector.received.refuse(Some(&refused));
    collector.received.hang(false);
    // Each that was in a batch with it is tried alone.
    let mut tries = 0;
    while collector.received.folded().len() < 4 * ids.len() {
        telemetry.flush(LONG).await.unwrap_err();
        tries += 1;
        assert!(tries <= 2 * RUNS, "the others are not exported");
    }
    assert_all_there(&ids, &collector);
    // While it waits for its next turn, others go on.
    let more = run_all(&engine).await;
    while collector.received.folded().len() < 4 * (ids.len() + more.len()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_all_there(&more, &collector);
    collector.received.refuse(None);
    telemetry.flush(LONG).await.unwrap();
    assert_all_there(&[refused], &collector);
    engine.shutdown().await.unwrap();
}
