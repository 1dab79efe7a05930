//! Metrics: what counts, what does not, and the format.

use std::collections::BTreeMap;

use aether::otel::Telemetry;
use aether::otel::opentelemetry::metrics::MeterProvider as _;
use aether::otel::opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use aether::otel::otlp::opentelemetry_otlp::{MetricExporter, WithExportConfig as _};
use aether::prelude::*;
use openmetrics_parser::prometheus::parse_prometheus;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use tempfile::tempdir;

use crate::collector::Collector;
use crate::kit::{LONG, asking, engine, failing, name, order_once, tell, to_grpc};

/// The counters and histograms of a text, line by line.
fn counted(text: &str) -> BTreeMap<String, String> {
    let is_counted = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap();
        !line.starts_with('#')
            && ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
    };
    let lines = text.lines().filter(is_counted).filter_map(|line| line.rsplit_once(' '));
    lines.map(|(series, value)| (series.to_owned(), value.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_replays_add_no_span_and_no_count() {
    let (folder, collector, id) = (tempdir().unwrap(), Collector::grpc().await, name("replayed"));
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    order_once(&engine, &id).await;
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.count();
    let counts = counted(&telemetry.metrics().prometheus().await.unwrap());
    assert!(spans > 20 && counts.len() > 20, "{spans} {}", counts.len());
    let run = aether_core::id::RunId::new(id).unwrap();
    for _ in 0..50 {
        engine.verify(&run).await.unwrap();
    }
    telemetry.flush(LONG).await.unwrap();
    assert_eq!(collector.received.count(), spans);
    assert_eq!(counted(&telemetry.metrics().prometheus().await.unwrap()), counts);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_resumed_again_and_again_counts_once() {
    let folder = tempdir().unwrap();
    let (file, progress) = (folder.path().join("a.db"), folder.path().join("telemetry.json"));
    let mut started = 0.0;
    for process in 0..5 {
        let engine = engine(&file).await;
        let telemetry = Telemetry::builder().progress_in(&progress).start(&engine);
        let run = engine.start::<asking>("hello".to_owned()).id("asked-once").await.unwrap();
        while engine.pending(run.id()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        telemetry.flush(LONG).await.unwrap();
        let text = telemetry.metrics().prometheus().await.unwrap();
        started += value(&text, r#"aether_runs_started_total{workflow="asking"}"#).unwrap_or(0.0);
        assert_eq!(value(&text, "aether_approvals_open"), Some(1.0), "process {process}");
        drop(telemetry);
        engine.shutdown().await.unwrap();
    }
    assert!((started - 1.0).abs() < f64::EPSILON, "{started}");
}

/// Asks a model, and then a person.
#[workflow]
async fn spending(cx: &mut Cx) -> Result<usize> {
    let plan = cx.llm("plan").user("what?").text().await?;
    Ok(tell(cx, &plan).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_kept_progress_a_restart_counts_nothing_again() {
    let folder = tempdir().unwrap();
    let (started, tokens) = (
        r#"aether_runs_started_total{workflow="spending"}"#,
        r#"aether_llm_tokens_total{kind="input",model="gpt-test-2026"}"#,
    );
    for process in 0..3 {
        let engine = engine(&folder.path().join("a.db")).await;
        let telemetry = Telemetry::builder().start(&engine);
        // It has taken stock of what there was before.
        telemetry.flush(LONG).await.unwrap();
        let run = engine.start::<spending>(()).id("spending").await.unwrap();
        while engine.pending(run.id()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        telemetry.flush(LONG).await.unwrap();
        let text = telemetry.metrics().prometheus().await.unwrap();
        let expected = if process == 0 { (Some(1.0), Some(11.0)) } else { (None, None) };
        assert_eq!((value(&text, started), value(&text, tokens)), expected, "process {process}");
        if process == 2 {
            // What happens from now on counts.
            let waits = engine.pending(run.id()).await.unwrap();
            engine.approve(run.id(), &waits[0], "Ann").await.unwrap();
            run.result().await.unwrap();
            telemetry.flush(LONG).await.unwrap();
            let text = telemetry.metrics().prometheus().await.unwrap();
            let ended = r#"aether_runs_ended_total{status="completed",workflow="spending"}"#;
            assert_eq!((value(&text, ended), value(&text, tokens)), (Some(1.0), None));
        }
        drop(telemetry);
        engine.shutdown().await.unwrap();
    }
}

fn value(text: &str, series: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_is_what_a_strict_parser_takes_and_counts_what_happened() {
    let folder = tempdir().unwrap();
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = Telemetry::builder().start(&engine);
    order_once(&engine, &name("counted")).await;
    engine.start::<failing>(()).id(name("counted")).await.unwrap().result().await.unwrap_err();
    telemetry.flush(LONG).await.unwrap();
    let text = telemetry.metrics().prometheus().await.unwrap();
    let parsed = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for family in parsed.families.values() {
        assert!(!family.help.is_empty(), "{}", family.family_name);
    }
    for (series, expected) in [
        (r#"aether_runs_started_total{workflow="order"}"#, 1.0),
        (r#"aether_runs_ended_total{status="completed",workflow="order"}"#, 1.0),
        (r#"aether_runs_ended_total{status="completed",workflow="pack"}"#, 1.0),
        (r#"aether_runs_ended_total{status="failed",workflow="failing"}"#, 1.0),
        (r#"aether_steps_total{class="tool",outcome="side_effect_committed",step="charge"}"#, 4.0),
        (r#"aether_steps_total{class="read",outcome="permanent_failure",step="broken"}"#, 1.0),
        (r#"aether_step_retries_total{step="price_of"}"#, 1.0),
        (r#"aether_llm_tokens_total{kind="input",model="gpt-test-2026"}"#, 33.0),
        (r#"aether_llm_tokens_total{kind="output",model="gpt-test-2026"}"#, 21.0),
        (r#"aether_llm_tokens_total{kind="cache_read",model="gpt-test-2026"}"#, 9.0),
        (r#"aether_run_seconds_count{status="completed",workflow="order"}"#, 1.0),
        (r#"aether_step_seconds_count{class="llm",step="llm.clerk"}"#, 2.0),
        ("aether_replay_seconds_count", 0.0),
        ("aether_leases_lost_total", 0.0),
        ("aether_runs_parked", 0.0),
        ("aether_approvals_open", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    let (appends, batches) = ("aether_append_batch_sum", "aether_append_batch_count");
    assert!(value(&text, appends) > value(&text, batches) && value(&text, batches) > Some(1.0), "{text}");
    assert!(value(&text, r#"aether_append_seconds_bucket{le="60"}"#) > Some(20.0), "{text}");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_meter_reads_the_same_and_the_durations_of_the_conventions_for_otlp() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = Telemetry::builder().start(&engine);
    let exporter = MetricExporter::builder().with_tonic().with_endpoint(collector.url()).build().unwrap();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter).build()).build();
    telemetry.metrics().observe_with(&provider.meter("aether"));
    order_once(&engine, &name("metered")).await;
    telemetry.flush(LONG).await.unwrap();
    let flushed = provider.clone();
    tokio::task::spawn_blocking(move || flushed.force_flush().unwrap()).await.unwrap();

    let exported = collector.received.metrics.lock().unwrap().clone().unwrap();
    let metrics = exported.resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
    let metrics: BTreeMap<_, _> =
        metrics.flat_map(|of| of.metrics).map(|metric| (metric.name, metric.data.unwrap())).collect();
    let sum = |name: &str| match &metrics[name] {
        Data::Sum(sum) => {
            assert!(sum.is_monotonic);
            let value = |value: &Option<Value>| match value {
                Some(Value::AsDouble(number)) => *number,
                other => panic!("{other:?}"),
            };
            sum.data_points.iter().map(|point| value(&point.value)).sum::<f64>()
        }
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!((sum("aether_runs_started"), sum("aether_llm_tokens")), (2.0, 63.0));
    assert!(sum("aether_append_seconds_count") > 20.0 && sum("aether_append_seconds_sum") > 0.0);
    for (name, count) in [
        ("aether_run_seconds", 2),
        ("gen_ai.client.operation.duration", 3),
        ("gen_ai.execute_tool.duration", 5),
        ("gen_ai.invoke_agent.duration", 1),
        ("gen_ai.workflow.duration", 2),
    ] {
        let Data::Histogram(histogram) = &metrics[name] else { panic!("{name} is no histogram") };
        // In seconds: the conventions' own, and ours up to a week.
        let (first, last) = if name.starts_with("gen_ai.") { (0.01, 81.92) } else { (0.005, 604_800.0) };
        for point in &histogram.data_points {
            let bounds = (point.explicit_bounds.first(), point.explicit_bounds.last());
            assert_eq!(bounds, (Some(&first), Some(&last)), "{name}");
        }
        assert_eq!(histogram.data_points.iter().map(|point| point.count).sum::<u64>(), count, "{name}");
    }
    assert!(matches!(metrics["aether_runs_parked"], Data::Gauge(_)));
    tokio::task::spawn_blocking(move || provider.shutdown().unwrap()).await.unwrap();
    engine.shutdown().await.unwrap();
}
