//! The program's own spans inside the spans of their attempts.

use std::sync::{Arc, Mutex};

use aether::otel::Nested;
use aether::prelude::*;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tempfile::tempdir;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::kit::{LONG, name};

/// Keeps spans.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

/// Work with spans of its own.
#[step(effect = "tool")]
async fn work(_cx: &mut StepCx) -> Result<String> {
    let current = opentelemetry::Context::current().span().span_context().span_id();
    let _span = tracing::info_span!("user's own").entered();
    Ok(current.to_string())
}

/// Works.
#[workflow]
async fn working(cx: &mut Cx) -> Result<String> {
    Ok(work(cx).await?)
}

/// The spans of a run of [`working`], where the layer of `tracing-opentelemetry` sees Aether's own spans or not, and what
/// the body found as its context.
async fn spans(with_own: bool) -> (Vec<SpanData>, String) {
    let (folder, kept) = (tempdir().unwrap(), Kept::default());
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let seen = filter_fn(move |span| with_own || !span.target().starts_with("aether::"));
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("program")).with_filter(seen);
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let engine = Engine::builder().sqlite(folder.path().join("a.db")).trace_bodies(Arc::new(Nested));
    let engine = engine.start().await.unwrap();
    let telemetry = aether::otel::Telemetry::builder().spans_to(kept.clone()).start(&engine);
    let run = engine.start::<working>(()).id(name("nested")).await.unwrap();
    let current = run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    provider.force_flush().unwrap();
    engine.shutdown().await.unwrap();
    let spans = kept.0.lock().unwrap().clone();
    (spans, current)
}

#[tokio::test(flavor = "current_thread")]
async fn spans_of_a_body_are_inside_the_span_of_their_attempt() {
    // First without: where another test registers a place of `tracing` at the moment at which a subscriber is set, the place
    // may stay off until the next one is set.
    for with_own in [false, true] {
        let (spans, current) = spans(with_own).await;
        let named = |name: &str| spans.iter().find(|span| span.name == name);
        let attempt = named("aether.attempt 0").unwrap();
        // Also for those who do without `tracing`.
        assert_eq!(current, attempt.span_context.span_id().to_string());
        assert_eq!(named("attempt").is_some(), with_own);
        for span in [named("user's own"), named("attempt")].into_iter().flatten() {
            assert_eq!(span.parent_span_id, attempt.span_context.span_id(), "{}", span.name);
            assert_eq!(span.span_context.trace_id(), attempt.span_context.trace_id());
        }
    }
}
