//! Spans, metrics and trace contexts: for programs that are watched with OpenTelemetry or Prometheus.

pub use aether_core::step::{TraceBodies, TracedBody};
pub use aether_core::trace::{SpanName, Trace, TraceContext};
#[cfg(any(feature = "otel-grpc", feature = "otel-http"))]
pub use aether_otel::otlp;
pub use aether_otel::{
    Backfilled, FileProgress, Metrics, Nested, Progress, ProgressError, RefusedRun, Telemetry,
    TelemetryBuilder, TelemetryError, opentelemetry, opentelemetry_sdk, semconv,
};
