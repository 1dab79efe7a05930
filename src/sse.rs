//! Streams of runs over HTTP, as server-sent events: [`StreamServer`] is a router for axum, or answers in a handler of your
//! own.
//!
//! `GET /runs/{run}/streams/{stream}` sends what [`RunHandle::stream`](crate::RunHandle::stream) reads, from the beginning
//! and while it is written:
//!
//! | event | data |
//! |---|---|
//! | `chunk` | `{"seq":3,"first":1,"command":"0:say","items":["Hel","lo"]}` |
//! | `restarted` | `{"seq":4,"command":"0:say","from":1}` |
//! | `committed` | `{"seq":5,"command":"0:say","digest":"…"}` |
//! | `closed` | `{"status":"completed"}` |
//!
//! The id of an event is its number. A client that was cut off sends the last one as `Last-Event-ID`, which an
//! `EventSource` does by itself, and misses and repeats nothing; one that begins anew may ask for `?after=5`. The answer
//! ends behind `closed`; who comes back after it gets status 204, at which an `EventSource` stops.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::store::StoreError;
use aether_core::stream::{StreamError, StreamEvent, StreamReader};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{once, unfold};
use serde_json::{Value, json};

use crate::error::StartError;

/// Time between two comments that keep a connection open, where nothing else is sent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// No instant is much longer away than that where somebody says `Duration::MAX`.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(24 * 60 * 60);
/// When a client comes back that could not be answered.
const RETRY: Duration = Duration::from_secs(3);
/// Id of the last event.
const CLOSED: &str = "closed";

/// Sends streams of an engine's runs as server-sent events. It asks nobody who they are: put it behind what checks that, or
/// call [`StreamServer::respond`] in a handler that does.
///
/// ```
/// use aether::sse::StreamServer;
/// # async fn example(engine: aether::Engine) -> std::io::Result<()> {
/// let app = axum::Router::new().nest("/api", StreamServer::new(engine).router());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StreamServer {
    engine: Engine,
    heartbeat: Duration,
}

/// What a client asks for beside the path.
#[derive(Debug, serde::Deserialize)]
struct Asked {
    after: Option<u64>,
}

impl StreamServer {
    /// Of the runs of `engine`, which may be a client.
    pub fn new(engine: Engine) -> Self {
        Self { engine, heartbeat: HEARTBEAT }
    }

    /// Sends a comment when nothing else was sent for so long, so that nothing in between takes the connection for dead.
    /// Default 15 s, at most a day.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every.min(LONGEST_HEARTBEAT);
        self
    }

    /// The route `/runs/{run}/streams/{stream}`.
    pub fn router(self) -> Router {
        Router::new().route("/runs/{run}/streams/{stream}", get(serve)).with_state(self)
    }

    /// The events of the stream `stream` of the run `run` behind number `after`, or behind the one that the header
    /// `Last-Event-ID` names. An error is an answer with a status and a text: 400 for what is no id of a run, no name of a
    /// stream or no number, 404 where there is no such run. Where the store fails, the answer is a stream of no events that
    /// ends after it has said when to come back: an `EventSource` does, and never would after an error.
    pub async fn respond(
        &self,
        run: &str,
        stream: &str,
        after: Option<u64>,
        headers: &HeaderMap,
    ) -> Response {
        let after = match headers.get("last-event-id").map(|id| id.to_str()) {
            Some(Ok(CLOSED)) => return StatusCode::NO_CONTENT.into_response(),
            Some(id) => match id.ok().and_then(|id| id.trim().parse::<u64>().ok()) {
                Some(id) => id,
                None => {
                    return refused(StatusCode::BAD_REQUEST, "Last-Event-ID is not the number of an event");
                }
            },
            None => after.unwrap_or(0),
        };
        let run = match self.engine.find(run).await {
            Ok(run) => run,
            Err(error) => match fault_of(&error) {
                Some(status) => return refused(status, error),
                None => return come_back(&error),
            },
        };
        let reader = run.stream::<Value>(stream).from(after.saturating_add(1));
        if let Err(error) = reader.check() {
            return refused(StatusCode::BAD_REQUEST, error);
        }
        let events = unfold(Some(reader), |reader| async {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(event)) => Some((Ok::<_, Infallible>(sent(&event)), Some(reader))),
                Ok(None) => None,
                Err(error) => {
                    // The client comes back, with the number of the last event that it got.
                    note(&reader, &error);
                    None
                }
            }
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(self.heartbeat)).into_response()
    }
}

async fn serve(
    State(server): State<StreamServer>,
    Path((run, stream)): Path<(String, String)>,
    Query(Asked { after }): Query<Asked>,
    headers: HeaderMap,
) -> Response {
    server.respond(&run, &stream, after, &headers).await
}

fn refused(status: StatusCode, reason: impl std::fmt::Display) -> Response {
    (status, reason.to_string()).into_response()
}

/// What the client has done wrong; `None` where it has not.
fn fault_of(error: &StartError) -> Option<StatusCode> {
    match error {
        StartError::Id(_) => Some(StatusCode::BAD_REQUEST),
        StartError::Store(StoreError::UnknownRun { .. }) => Some(StatusCode::NOT_FOUND),
        _ => None,
    }
}

/// The client is asked to come back, with the number of the last event that it got.
fn come_back(error: &StartError) -> Response {
    tracing::warn!(target: "aether::sse", %error, "a stream cannot be read; its reader is asked to come back");
    let later = Ok::<_, Infallible>(Event::default().retry(RETRY));
    Sse::new(once(ready(later))).into_response()
}

fn note(reader: &StreamReader<Value>, error: &StreamError) {
    tracing::warn!(target: "aether::sse", ?reader, %error, "a stream cannot be read on; its connection is closed");
}

/// An event as it is sent.
fn sent(event: &StreamEvent<Value>) -> Event {
    match event {
        StreamEvent::Chunk { seq, first, command, items } => numbered(
            "chunk",
            *seq,
            &json!({ "seq": seq, "first": first, "command": command.as_str(), "items": items }),
        ),
        StreamEvent::Restarted { seq, command, from } => {
            numbered("restarted", *seq, &json!({ "seq": seq, "command": command.as_str(), "from": from }))
        }
        StreamEvent::Committed { seq, command, digest } => {
            numbered("committed", *seq, &json!({ "seq": seq, "command": command.as_str(), "digest": digest }))
        }
        StreamEvent::Closed { status } => {
            Event::default().event(CLOSED).id(CLOSED).data(json!({ "status": status.as_str() }).to_string())
        }
        // A kind that comes with a newer build of the core, and that clients of this one do not know.
        _ => Event::default().comment("an event of another kind"),
    }
}

fn numbered(kind: &str, seq: u64, data: &Value) -> Event {
    Event::default().event(kind).id(seq.to_string()).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_meets_a_store_that_fails_is_asked_to_come_back() {
        let error = StoreError::Unavailable { store: "disk".into(), reason: "it is away".into() };
        let error = StartError::from(error);
        assert_eq!(fault_of(&error), None);
        let answer = come_back(&error);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.starts_with("retry:") && text.ends_with("\n\n") && !text.contains("data"), "{text:?}");
    }
}
