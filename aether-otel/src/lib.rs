//! Telemetry of Aether: spans and metrics for OpenTelemetry and Prometheus, made of the journals in the store.
//!
//! Promise: a span is exported after what it shows is durable, whole, and with ids that follow from the journal, so that a
//! restart, another worker or a second export gives the same span. A replay exports none and counts nothing. Nobody waits
//! for an exporter, and while one is away nothing is lost.

mod attributes;
mod content;
mod counting;
mod error;
mod exporter;
mod fold;
mod journal;
mod metrics;
mod nested;
#[cfg(any(feature = "grpc", feature = "http"))]
pub mod otlp;
mod progress;
mod reader;
mod registry;
mod saving;
mod scopes;
pub mod semconv;
mod sending;
mod settings;
mod spans;
mod sweep;
mod telemetry;
mod timeline;
mod work;

pub use error::TelemetryError;
pub use metrics::Metrics;
pub use nested::Nested;
pub use opentelemetry;
pub use opentelemetry_sdk;
pub use progress::{FileProgress, Progress, ProgressError};
pub use telemetry::{Backfilled, RefusedRun, Telemetry, TelemetryBuilder};
