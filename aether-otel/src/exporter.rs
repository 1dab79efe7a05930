//! Any exporter of spans, behind one type.
//!
//! Promise: an export ends in bounded time, with an error if need be.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Why a batch was not exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unexported {
    /// The exporter said so.
    #[error("{0}")]
    Refused(String),
    /// It said nothing in time.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
}

/// An exporter whose type is forgotten.
pub(crate) trait Exporter: Send + Sync + Debug {
    /// Exports a batch, or says why it did not.
    fn export(&self, batch: Vec<SpanData>, limit: Duration) -> BoxFuture<'_, Result<(), Unexported>>;
    /// What is sent with every batch.
    fn set_resource(&mut self, resource: &Resource);
}

impl<E: SpanExporter> Exporter for E {
    fn export(&self, batch: Vec<SpanData>, limit: Duration) -> BoxFuture<'_, Result<(), Unexported>> {
        Box::pin(async move {
            match tokio::time::timeout(limit, SpanExporter::export(self, batch)).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(Unexported::Refused(error.to_string())),
                Err(_) => Err(Unexported::NoAnswer(limit)),
            }
        })
    }

    fn set_resource(&mut self, resource: &Resource) {
        SpanExporter::set_resource(self, resource);
    }
}
