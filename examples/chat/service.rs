//! The chat over HTTP: the page, questions, and answers as server-sent events.
//!
//! Promise: a question that is sent twice is asked once, and a reader that was cut off continues where it was.

use aether::engine::AnyWorkflow;
use aether::error::StartError;
use aether::llm::ChatMessage;
use aether::prelude::*;
use aether::sse::StreamServer;
use aether::store::StoreError;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};

use crate::{Turn, reply};

/// Longest question, in bytes.
const LONGEST: usize = 8 << 10;

pub(crate) fn router(engine: Engine) -> Router {
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/chats/{chat}", get(questions))
        .route("/chats/{chat}/turns/{number}", post(ask))
        .route("/chats/{chat}/turns/{number}/events", get(events))
        .with_state(engine)
}

/// The run that answers a question.
fn run_id(chat: &str, number: usize) -> String {
    format!("chat-{chat}-{number}")
}

/// Asks a question, once for each number.
async fn ask(
    State(engine): State<Engine>,
    Path((chat, number)): Path<(String, usize)>,
    text: String,
) -> Result<(), Refusal> {
    if text.trim().is_empty() || text.len() > LONGEST {
        let reason = format!("a question has 1 to {LONGEST} bytes");
        return Err(Refusal(StatusCode::BAD_REQUEST, reason));
    }
    let mut before = Vec::new();
    for earlier in 0..number {
        let run = engine.handle::<reply>(run_id(&chat, earlier)).await?;
        if !run.status().await?.is_terminal() {
            let reason = format!("question {earlier} is not answered yet");
            return Err(Refusal(StatusCode::CONFLICT, reason));
        }
        before.push(ChatMessage::user(question(&engine, &run_id(&chat, earlier)).await?.unwrap_or_default()));
        // What failed leaves no answer.
        if let Ok(answer) = run.result().await {
            before.push(ChatMessage::assistant(answer));
        }
    }
    engine.start::<reply>(Turn { before, text }).id(run_id(&chat, number)).await?;
    Ok(())
}

/// The questions of a chat, in order.
async fn questions(
    State(engine): State<Engine>,
    Path(chat): Path<String>,
) -> Result<axum::Json<Vec<String>>, Refusal> {
    let mut said = Vec::new();
    while let Some(text) = question(&engine, &run_id(&chat, said.len())).await? {
        said.push(text);
    }
    Ok(axum::Json(said))
}

/// What a run was asked, where there is such a run.
async fn question(engine: &Engine, id: &str) -> Result<Option<String>, Refusal> {
    let run: RunHandle<AnyWorkflow> = match engine.find(id).await {
        Ok(run) => run,
        Err(StartError::Store(StoreError::UnknownRun { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let view = engine.view(run.id()).await?;
    Ok(view.input.and_then(|input| input.decode::<Turn>().ok()).map(|turn| turn.text))
}

/// An answer while it comes: chunks, what is taken back, and the end. `Last-Event-ID` says where to continue.
async fn events(
    State(engine): State<Engine>,
    Path((chat, number)): Path<(String, usize)>,
    headers: HeaderMap,
) -> Response {
    StreamServer::new(engine).respond(&run_id(&chat, number), "reply", None, &headers).await
}

/// What the service says no to, and why.
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
            StartError::Id(_) | StartError::TooLarge { .. } => StatusCode::BAD_REQUEST,
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
