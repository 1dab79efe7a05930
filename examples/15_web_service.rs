//! A web service around an engine: claims are filed and decided over HTTP.
//!
//! Run: `cargo run --example 15_web_service`. It serves on loopback and is its own client: a claim is filed twice under one
//! key, listed in the inbox, approved, and approved again too late. At the end the service is drained, as before a deploy.

use std::net::SocketAddr;
use std::time::Duration;

use aether::engine::AnyWorkflow;
use aether::error::StartError;
use aether::id::RunId;
use aether::people::{DecideError, WaitFilter, WaitRef};
use aether::prelude::*;
use aether::store::{RunFilter, StoreError};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Transfer the money.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay(cx: &mut StepCx, to: &str, cents: u64) -> Result<String> {
    println!("  paying {cents} cents to {to} as {}", cx.idempotency_key());
    Ok(format!("{cents} cents to {to}"))
}

/// Pay a claim once somebody has approved it.
#[workflow]
async fn claim(cx: &mut Cx, of: Claim) -> Result<String> {
    let week = Duration::from_secs(7 * 24 * 3600);
    let by = cx.approval("claim").details(&of).expires(week).await?.granted()?;
    let paid = pay(cx, &of.customer, of.cents).await?;
    Ok(format!("{paid}, approved by {by}"))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    customer: String,
    cents: u64,
}

#[derive(Deserialize)]
struct File {
    /// The client's own key: a request that is sent again files nothing twice.
    key: String,
    #[serde(flatten)]
    claim: Claim,
}

#[derive(Deserialize)]
struct Decide {
    by: String,
    /// What the form showed, as the inbox gave it.
    shown: String,
}

#[derive(Deserialize)]
struct Find {
    customer: String,
}

async fn file(State(engine): State<Engine>, Json(file): Json<File>) -> Answer {
    let id = format!("claim-{}", file.key);
    let customer = file.claim.customer.clone();
    let run = engine.start::<claim>(file.claim).id(id).label("customer", customer).await?;
    Ok(Json(json!({ "id": run.id() })))
}

async fn status(State(engine): State<Engine>, Path(id): Path<String>) -> Answer {
    let run: RunHandle<AnyWorkflow> = engine.find(id).await?;
    let waits = engine.pending(run.id()).await?;
    let waits: Vec<_> = waits.iter().map(|w| json!({ "for": w.name, "until": w.until })).collect();
    Ok(Json(json!({ "status": run.status().await?.as_str(), "waits": waits })))
}

async fn claims(State(engine): State<Engine>, Query(find): Query<Find>) -> Answer {
    let runs = engine.runs(RunFilter::new().label("customer", find.customer).limit(50)).await?;
    Ok(Json(runs.iter().map(|run| json!({ "id": run.id, "status": run.status.as_str() })).collect()))
}

/// What waits for people, in all runs.
async fn inbox(State(engine): State<Engine>) -> Answer {
    let page = engine.all_pending(WaitFilter::for_reply().limit(50)).await?;
    let shown = |w: &aether::people::Pending| json!({ "run": w.run, "asks": w.question, "shown": w.shown() });
    Ok(Json(page.waits.iter().map(shown).collect()))
}

async fn approve(State(engine): State<Engine>, Path(id): Path<String>, Json(decide): Json<Decide>) -> Answer {
    let run = RunId::new(id).map_err(StartError::from)?;
    // Tied to what the person has seen.
    engine.approve(&run, WaitRef::from("claim").shown(decide.shown), &decide.by).await?;
    Ok(Json(json!({ "approved": true })))
}

type Answer = std::result::Result<Json<Value>, Refusal>;

/// An error as HTTP tells it.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Store(StoreError::UnknownRun { .. }) => StatusCode::NOT_FOUND,
            StartError::Id(_) | StartError::TooLarge { .. } | StartError::Label { .. } => {
                StatusCode::BAD_REQUEST
            }
            StartError::IdTaken { .. } => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(code, error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        StartError::Store(error).into()
    }
}

impl From<DecideError> for Refusal {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Store(error) => error.into(),
            error => Self(StatusCode::CONFLICT, error.to_string()),
        }
    }
}

/// The probes of an orchestrator. `/drain` is for the machine itself: do not route strangers to it.
async fn probe(State(engine): State<Engine>, uri: axum::http::Uri) -> Response {
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let Some(probe) = engine.probe(path).await else { return StatusCode::NOT_FOUND.into_response() };
    let status = StatusCode::from_u16(probe.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    (status, [("content-type", "application/json")], probe.body).into_response()
}

fn service(engine: Engine) -> Router {
    Router::new()
        .route("/healthz", get(probe))
        .route("/readyz", get(probe))
        .route("/drain", get(probe))
        .route("/claims", post(file).get(claims))
        .route("/claims/{id}", get(status))
        .route("/claims/{id}/approve", post(approve))
        .route("/inbox", get(inbox))
        .with_state(engine)
}

/// A client in few lines: sends one request, and returns status and body of the answer.
async fn request(at: SocketAddr, what: &str, body: &Value) -> Result<(String, String)> {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "host: {at}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}"
    );
    let mut stream = tokio::net::TcpStream::connect(at).await?;
    stream.write_all(format!("{what} HTTP/1.1\r\n{head}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.lines().next().unwrap_or_default().replace("HTTP/1.1 ", ""), body.to_owned()))
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::builder().sqlite(folder.path().join("claims.db")).start().await?;
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let at = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, service(engine.clone())).into_future());

    let filing = json!({ "key": "42", "customer": "acme", "cents": 1250 });
    for _ in 0..2 {
        println!("filed: {:?}", request(at, "POST /claims", &filing).await?);
    }
    let shown = loop {
        let (_, inbox) = request(at, "GET /inbox", &json!(null)).await?;
        let inbox: Value = serde_json::from_str(&inbox)?;
        if let Some(shown) = inbox[0]["shown"].as_str() {
            break shown.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    println!("it waits: {:?}", request(at, "GET /claims/claim-42", &json!(null)).await?);
    for by in ["ann", "bob"] {
        let decision = json!({ "by": by, "shown": shown });
        println!("{by}: {:?}", request(at, "POST /claims/claim-42/approve", &decision).await?);
    }
    println!("result: {}", engine.handle::<claim>("claim-42").await?.result().await?);
    println!("all of acme: {:?}", request(at, "GET /claims?customer=acme", &json!(null)).await?);
    println!("another: {}", request(at, "GET /claims/claim-43", &json!(null)).await?.0);
    println!("alive: {}", request(at, "GET /healthz", &json!(null)).await?.0);
    println!("drained: {:?}", request(at, "GET /drain?seconds=5", &json!(null)).await?);
    println!("ready: {}", request(at, "GET /readyz", &json!(null)).await?.0);
    server.abort();
    // A service that is stopped by a signal calls `aether::signals::run_until_stopped(engine, ..)` instead.
    engine.shutdown().await?;
    Ok(())
}
