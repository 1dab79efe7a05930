//! Bodies in the trace contexts of their attempts, so that the program's own spans are inside.
//!
//! Promise: nothing else changes about a body.

use aether_core::step::{TraceBodies, TracedBody};
use aether_core::trace::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{
    FutureExt as _, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};

/// Puts each body into the trace context of its attempt: spans that it makes with `opentelemetry`, and, with the feature
/// `tracing`, those that it makes with `tracing` under the layer of `tracing-opentelemetry`, are children of the attempt's
/// span. The engine also sends the context on: in requests of `cx.http()`, to MCP tools and to child runs.
///
/// ```
/// use std::sync::Arc;
/// # fn with(builder: aether_core::engine::EngineBuilder) -> aether_core::engine::EngineBuilder {
/// builder.trace_bodies(Arc::new(aether_otel::Nested))
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nested;

impl TraceBodies for Nested {
    fn around(&self, attempt: &TraceContext, span: &tracing::Span, body: TracedBody) -> TracedBody {
        let (trace, id) = (TraceId::from_bytes(attempt.trace), SpanId::from_bytes(attempt.span));
        let flags = TraceFlags::new(attempt.flags);
        let context = SpanContext::new(trace, id, flags, true, TraceState::NONE);
        let context = Context::new().with_remote_span_context(context);
        adopt(span, &context);
        Box::pin(body.with_context(context))
    }
}

/// Makes the span of the attempt that `tracing-opentelemetry` exports a child of the attempt's.
#[cfg(feature = "tracing")]
fn adopt(span: &tracing::Span, context: &Context) {
    // Without the layer there is nothing to be adopted.
    let _without_layer = tracing_opentelemetry::OpenTelemetrySpanExt::set_parent(span, context.clone());
}

#[cfg(not(feature = "tracing"))]
fn adopt(_: &tracing::Span, _: &Context) {}
