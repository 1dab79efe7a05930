//! Collectors that are away, that do not answer, and that refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether::otel::{Progress, ProgressError, TelemetryError};
use aether::prelude::*;
use aether_core::store::StoreError;
use futures_util::future::BoxFuture;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tempfile::tempdir;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

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

/// An exporter that takes a few batches slowly, and then none until it is told to.
#[derive(Clone, Debug)]
struct Slow {
    spans: Arc<AtomicUsize>,
    batches: Arc<Semaphore>,
}

impl SpanExporter for Slow {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        tokio::time::sleep(Duration::from_millis(250)).await;
        self.batches.acquire().await.unwrap().forget();
        self.spans.fetch_add(batch.len(), Ordering::SeqCst);
        Ok(())
    }
}

/// Progress in memory, of which a test sees how many runs wait.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<watch::Sender<Option<String>>>);

impl Seen {
    fn waiting(text: &Option<String>) -> Option<usize> {
        let progress: serde_json::Value = serde_json::from_str(text.as_ref()?).unwrap();
        Some(progress["open"].as_object().unwrap().len())
    }
}

impl Progress for Seen {
    fn load(&self) -> BoxFuture<'_, Result<Option<String>, ProgressError>> {
        let text = self.0.borrow().clone();
        Box::pin(std::future::ready(Ok(text)))
    }

    fn save(&self, text: String) -> BoxFuture<'_, Result<(), ProgressError>> {
        self.0.send_replace(Some(text));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catch_up_saves_how_far_it_came_and_ends_when_it_is_dropped() {
    let runs = 600;
    let engine = Engine::builder().memory().start().await.unwrap();
    for _ in 0..runs {
        let run = engine.start::<short>("lamp".to_owned()).id(name("caught-up")).await.unwrap();
        run.result().await.unwrap();
    }
    // Enough for some of the runs, and more than a second.
    let (batches, spans) = (Arc::new(Semaphore::new(7)), Arc::new(AtomicUsize::new(0)));
    let slow = Slow { spans: Arc::clone(&spans), batches: Arc::clone(&batches) };
    let progress = Seen::default();
    let set_up = || aether::otel::Telemetry::builder().spans_to(slow.clone()).progress(progress.clone());
    let telemetry = set_up().export_timeout(LONG).start(&engine);
    let saved = async {
        let mut seen = progress.0.subscribe();
        let text = seen.wait_for(|text| Seen::waiting(text).is_some_and(|runs| runs < 500)).await.unwrap();
        Seen::waiting(&text)
    };
    let waiting = tokio::time::timeout(LONG, saved).await.expect("nothing was saved").unwrap();
    assert!(waiting > 0 && spans.load(Ordering::SeqCst) < 4 * runs, "{waiting} runs wait");

    // In the middle of an export that does not end.
    drop(telemetry);
    let ended = async {
        // The test's own, and the closure's.
        while Arc::strong_count(&batches) > 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG / 4, ended).await.expect("it goes on without its handle");

    batches.add_permits(1_000);
    let telemetry = set_up().start(&engine);
    telemetry.flush(LONG).await.unwrap();
    assert_eq!(Seen::waiting(&progress.0.borrow()), Some(0));
    assert_eq!(spans.load(Ordering::SeqCst), 4 * runs, "what was exported and noted came again");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_says_that_something_could_not_be_read() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let file = folder.path().join("a.db");
    let first = engine(&file).await;
    run_all(&first).await;
    first.shutdown().await.unwrap();
    let damage = aether::sqlite::rusqlite::Connection::open(&file).unwrap();
    let damaged = damage.execute("UPDATE aether_journal SET events = '[7]' WHERE run_no = 3", ()).unwrap();
    assert!(damaged > 0);
    drop(damage);
    let second = engine(&file).await;
    let telemetry = to_grpc(&collector).start(&second);
    for _ in 0..2 {
        let error = telemetry.flush(LONG).await.unwrap_err();
        assert!(matches!(error, TelemetryError::Store(StoreError::Corrupt { .. })), "{error:?}");
    }
    // The others are there.
    assert_eq!(collector.received.count(), 4 * (RUNS - 1));
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_goes_on_behind_a_run_that_is_refused() {
    let (folder, collector) = (tempdir().unwrap(), Collector::http().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let mut ids = run_all(&engine).await;
    let refused = ids.remove(RUNS / 2);
    collector.received.refuse(Some(&refused));
    // Of its own accord it exports only later.
    let later = aether::otel::Telemetry::builder();
    let later = later.spans_to(aether::otel::otlp::http(collector.traces_url()).unwrap()).start(&engine);
    let done = later.backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!((done.runs, done.spans), (ids.len() as u64, 4 * ids.len() as u64));
    assert_eq!(done.refused.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), [refused.as_str()]);
    assert_all_there(&ids, &collector);

    // Where nothing is taken at all, it is not the runs.
    let nowhere = aether::otel::otlp::grpc("http://127.0.0.1:1").unwrap();
    let telemetry = aether::otel::Telemetry::builder().spans_to(nowhere).start(&engine);
    let error = telemetry.backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(matches!(error, TelemetryError::Export { .. }), "{error:?}");
    engine.shutdown().await.unwrap();
}
