//! Exporters of OTLP that need no further set-up.
//!
//! Promise: they send nothing by themselves; a batch that was not acknowledged counts as not sent. A batch that a collector
//! acknowledges and of which it rejects a part ("partial success") counts as sent: the exporters of `opentelemetry-otlp` say
//! so in a log line and nowhere else.

pub use opentelemetry_otlp;
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, SpanExporter, WithExportConfig as _};

/// A batch that is not taken is tried once more at once, and after that with pauses that grow, by who sends it: more tries of
/// one batch would only hold up the news that nobody is there.
fn retries() -> RetryPolicy {
    RetryPolicy::recommended().with_max_retries(1)
}

/// OTLP over gRPC to `endpoint`, such as `http://localhost:4317`. Within a Tokio runtime. For TLS and headers, build one with
/// [`opentelemetry_otlp`] itself.
///
/// # Errors
/// [`ExporterBuildError`] when the endpoint is not one.
#[cfg(feature = "grpc")]
pub fn grpc(endpoint: impl Into<String>) -> Result<SpanExporter, ExporterBuildError> {
    use opentelemetry_otlp::WithTonicConfig as _;
    SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_retry_policy(retries()).build()
}

/// OTLP over HTTP with protobuf to `endpoint`, the whole URL, such as `http://localhost:4318/v1/traces`. TLS is that of
/// `cx.http()`.
///
/// # Errors
/// [`ExporterBuildError`] when the endpoint is not one, or TLS cannot be set up.
#[cfg(feature = "http")]
pub fn http(endpoint: impl Into<String>) -> Result<SpanExporter, ExporterBuildError> {
    http_with_headers(endpoint, std::collections::HashMap::new())
}

/// As [`http`], with headers, such as the credentials of a hosted collector.
///
/// # Errors
/// As of [`http`].
#[cfg(feature = "http")]
pub fn http_with_headers(
    endpoint: impl Into<String>,
    headers: std::collections::HashMap<String, String>,
) -> Result<SpanExporter, ExporterBuildError> {
    use opentelemetry_otlp::WithHttpConfig as _;
    let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).with_headers(headers);
    exporter.with_http_client(client::Client::new()?).with_retry_policy(retries()).build()
}

#[cfg(feature = "http")]
mod client {
    //! The client of HTTP that the exporter sends with.

    use aether_effects::http::HttpClient;
    use futures_util::future::BoxFuture;
    use opentelemetry_http::{Bytes, HttpError, Request, Response};
    use opentelemetry_otlp::ExporterBuildError;

    /// Connections with the TLS of `cx.http()`: the exporters' own client needs a provider of cryptography that is
    /// installed for the whole process.
    #[derive(Debug)]
    pub(super) struct Client(reqwest::Client);

    impl Client {
        pub(super) fn new() -> Result<Self, ExporterBuildError> {
            let failed = ExporterBuildError::InternalFailure;
            let connections = HttpClient::connections_builder().map_err(failed)?;
            connections
                .build()
                .map(Self)
                .map_err(|error| ExporterBuildError::InternalFailure(error.to_string()))
        }
    }

    impl opentelemetry_http::HttpClient for Client {
        // What `async_trait` makes of the method.
        fn send_bytes<'a, 'b>(
            &'a self,
            request: Request<Bytes>,
        ) -> BoxFuture<'b, Result<Response<Bytes>, HttpError>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async move {
                let mut answer = self.0.execute(request.try_into()?).await?;
                let mut response = Response::builder().status(answer.status());
                if let Some(headers) = response.headers_mut() {
                    *headers = std::mem::take(answer.headers_mut());
                }
                Ok(response.body(answer.bytes().await?)?)
            })
        }
    }
}
