//! A collector of OTLP, over gRPC and over HTTP with protobuf.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// What a collector has received.
#[derive(Debug)]
pub(crate) struct Received {
    /// Every export, byte for byte.
    bytes: Mutex<Vec<Vec<u8>>>,
    spans: Mutex<Vec<Span>>,
    /// While it is true, requests are not answered.
    hangs: watch::Sender<bool>,
    /// How many requests arrived, also those that are not answered.
    arrived: watch::Sender<usize>,
    /// A run whose spans are refused.
    refused: Mutex<Option<String>>,
    /// The newest export of metrics.
    pub(crate) metrics: Mutex<Option<ExportMetricsServiceRequest>>,
}

impl Received {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::default(),
            spans: Mutex::default(),
            hangs: watch::Sender::new(false),
            arrived: watch::Sender::new(0),
            refused: Mutex::default(),
            metrics: Mutex::default(),
        })
    }

    /// Takes an export in. Whether it is accepted.
    async fn take(&self, request: ExportTraceServiceRequest) -> bool {
        self.arrived.send_modify(|arrived| *arrived += 1);
        self.hangs.subscribe().wait_for(|hangs| !hangs).await.unwrap();
        let bytes = request.encode_to_vec();
        let spans = request.resource_spans.into_iter().flat_map(|of| of.scope_spans);
        let spans: Vec<Span> = spans.flat_map(|of| of.spans).collect();
        let refused = self.refused.lock().unwrap().clone();
        if refused.is_some_and(|run| spans.iter().any(|span| text(span, "aether.run.id") == run)) {
            return false;
        }
        self.bytes.lock().unwrap().push(bytes);
        self.spans.lock().unwrap().extend(spans);
        true
    }

    /// Stops to answer, or answers what has arrived meanwhile and goes on.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.send_replace(hangs);
    }

    /// Refuses every export that has spans of this run.
    pub(crate) fn refuse(&self, run: Option<&str>) {
        *self.refused.lock().unwrap() = run.map(str::to_owned);
    }

    /// Waits until more than `count` requests have arrived.
    pub(crate) async fn arrived(&self, count: usize) -> usize {
        *self.arrived.subscribe().wait_for(|arrived| *arrived > count).await.unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        self.spans.lock().unwrap().len()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().concat()
    }

    /// Every span once, by its id. A span that came several times must be the same each time.
    pub(crate) fn folded(&self) -> BTreeMap<String, Span> {
        let mut folded = BTreeMap::new();
        for span in self.spans.lock().unwrap().iter() {
            let id = hex(&span.span_id);
            if let Some(known) = folded.insert(id.clone(), span.clone()) {
                assert_eq!(known, *span, "span {id} was exported as two different ones");
            }
        }
        folded
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        match self.received.take(request.into_inner()).await {
            true => Ok(Response::new(ExportTraceServiceResponse::default())),
            false => Err(Status::invalid_argument("refused")),
        }
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        *self.received.metrics.lock().unwrap() = Some(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// A collector that listens.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) received: Arc<Received>,
    pub(crate) address: SocketAddr,
}

async fn over_http(State(received): State<Arc<Received>>, body: Bytes) -> (StatusCode, Vec<u8>) {
    match received.take(ExportTraceServiceRequest::decode(body).unwrap()).await {
        true => (StatusCode::OK, ExportTraceServiceResponse::default().encode_to_vec()),
        false => (StatusCode::BAD_REQUEST, Vec::new()),
    }
}

impl Collector {
    /// Listens for OTLP over gRPC.
    pub(crate) async fn grpc() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Self { received: Received::new(), address: listener.local_addr().unwrap() };
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        let server = server.add_service(MetricsServiceServer::new(collector.clone()));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        drop(tokio::spawn(server.serve_with_incoming(incoming)));
        collector
    }

    /// Listens for OTLP over HTTP.
    pub(crate) async fn http() -> Self {
        Self::http_at(TcpListener::bind("127.0.0.1:0").await.unwrap()).await
    }

    /// Listens for OTLP over HTTP with a socket that is there.
    pub(crate) async fn http_at(listener: TcpListener) -> Self {
        let collector = Self { received: Received::new(), address: listener.local_addr().unwrap() };
        let router = axum::Router::new().route("/v1/traces", axum::routing::post(over_http));
        let router = router.with_state(Arc::clone(&collector.received));
        drop(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
        collector
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn traces_url(&self) -> String {
        format!("{}/v1/traces", self.url())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute of a span as text; empty where there is none.
pub(crate) fn text(span: &Span, key: &str) -> String {
    let value = span.attributes.iter().find(|attribute| attribute.key == key);
    match value.and_then(|attribute| attribute.value.as_ref()?.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::ArrayValue(array)) => format!("{:?}", array.values),
        _ => String::new(),
    }
}
