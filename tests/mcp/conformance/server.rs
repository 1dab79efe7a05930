//! The server that the suite tests: workflows under the names that its scenarios call.

use std::time::Duration;

use aether::mcp::{HttpServer, InputAnswer, InputQuestion, serve};
use aether::prelude::*;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;

/// Say something.
#[workflow]
async fn test_simple_text(_cx: &mut Cx) -> Result<String> {
    Ok("This is a simple text response for testing.".into())
}

/// Fail.
#[workflow]
async fn test_error_handling(_cx: &mut Cx) -> Result<String> {
    Err(Failure::permanent("This tool intentionally returns an error for testing"))
}

/// Greet somebody.
#[workflow]
async fn greet(_cx: &mut Cx, name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

/// Take so many seconds.
#[workflow]
async fn slow_compute(cx: &mut Cx, seconds: u64, label: Option<String>) -> Result<String> {
    cx.sleep(Duration::from_secs(seconds)).await;
    Ok(format!("{} took {seconds} s", label.unwrap_or_default()))
}

/// Fail after a second.
#[workflow]
async fn failing_job(cx: &mut Cx) -> Result<String> {
    cx.sleep(Duration::from_secs(1)).await;
    Err(Failure::permanent("the job failed"))
}

fn form(tool: &str, message: &str, field: &str, kind: &str) -> InputQuestion {
    InputQuestion {
        server: "suite".into(),
        tool: tool.into(),
        key: field.into(),
        message: message.into(),
        schema: Some(
            json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] }),
        ),
        url: None,
    }
}

/// Ask before something is deleted.
#[workflow]
async fn confirm_delete(cx: &mut Cx, filename: Option<String>) -> Result<String> {
    let message = format!("Delete {}?", filename.as_deref().unwrap_or("everything"));
    let answer: InputAnswer = cx.ask(form("confirm_delete", &message, "confirm", "boolean")).await?;
    Ok(format!("{message} {answer:?}"))
}

/// Ask two things at a time.
#[workflow]
async fn multi_input(cx: &mut Cx) -> Result<String> {
    let (name, confirm) = cx
        .join((
            async |cx: &mut Cx| {
                cx.ask::<InputAnswer>(form("multi_input", "Who are you?", "name", "string")).await
            },
            async |cx: &mut Cx| {
                cx.ask::<InputAnswer>(form("multi_input", "Are you sure?", "confirm", "boolean")).await
            },
        ))
        .await;
    Ok(format!("{:?} {:?}", name?, confirm?))
}

/// Ask for a name.
#[workflow]
async fn test_input_required_result_elicitation(cx: &mut Cx) -> Result<String> {
    let asked = form("test_input_required_result_elicitation", "What is your name?", "name", "string");
    let answer: InputAnswer = cx.ask(asked).await?;
    Ok(format!("Hello, {answer:?}!"))
}

/// Ask once.
#[workflow]
async fn test_input_required_result_request_state(cx: &mut Cx) -> Result<String> {
    let _answer: InputAnswer =
        cx.ask(form("test_input_required_result_request_state", "Please confirm", "ok", "boolean")).await?;
    Ok("state-ok".into())
}

/// Ask once, of a client that may be lying.
#[workflow]
async fn test_input_required_result_tampered_state(cx: &mut Cx) -> Result<String> {
    let _answer: InputAnswer =
        cx.ask(form("test_input_required_result_tampered_state", "Please confirm", "ok", "boolean")).await?;
    Ok("done".into())
}

/// Ask what the client can answer.
#[workflow]
async fn test_input_required_result_capabilities(cx: &mut Cx) -> Result<String> {
    let _answer: InputAnswer =
        cx.ask(form("test_input_required_result_capabilities", "Please confirm", "ok", "boolean")).await?;
    Ok("done".into())
}

/// Ask once, of a client that reads a stream.
#[workflow]
async fn test_streaming_elicitation(cx: &mut Cx) -> Result<String> {
    let _answer: InputAnswer =
        cx.ask(form("test_streaming_elicitation", "Please confirm", "ok", "boolean")).await?;
    Ok("done".into())
}

/// Log something.
#[workflow]
async fn test_logging_tool(_cx: &mut Cx) -> Result<String> {
    tracing::info!("a line of the log");
    Ok("logged".into())
}

/// Ask twice.
#[workflow]
async fn test_input_required_result_multi_round(cx: &mut Cx) -> Result<String> {
    let tool = "test_input_required_result_multi_round";
    let name: InputAnswer = cx.ask(form(tool, "Step 1: What is your name?", "name", "string")).await?;
    let color: InputAnswer =
        cx.ask(form(tool, "Step 2: What is your favorite color?", "color", "string")).await?;
    Ok(format!("{name:?} {color:?}"))
}

/// Serves all of them.
pub(super) async fn serving(engine: &Engine) -> HttpServer {
    let service = serve(engine)
        .workflow::<test_simple_text>()
        .workflow::<test_error_handling>()
        .workflow::<greet>()
        .workflow::<slow_compute>()
        .workflow::<failing_job>()
        .workflow::<confirm_delete>()
        .workflow::<multi_input>()
        .workflow::<test_input_required_result_elicitation>()
        .workflow::<test_input_required_result_request_state>()
        .workflow::<test_input_required_result_tampered_state>()
        .workflow::<test_input_required_result_capabilities>()
        .workflow::<test_input_required_result_multi_round>()
        .workflow::<test_streaming_elicitation>()
        .workflow::<test_logging_tool>();
    service.http("127.0.0.1:0").await.unwrap()
}

/// Stands before the server and adds its token, which the suite cannot send. Everything else is passed on as it is.
pub(super) async fn with_token(server: &HttpServer) -> String {
    let web = aether::http::HttpClient::connections_builder().unwrap().build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let behind = (web, server.url(), server.token().to_owned());
    let router = axum::Router::new().fallback(pass_on).with_state(behind);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

type Behind = (reqwest::Client, String, String);

async fn pass_on(State((web, url, token)): State<Behind>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let sent = web.request(head.method, url).headers(head.headers).bearer_auth(token).body(body).send().await;
    let answer = sent.unwrap();
    let mut response = Response::builder().status(answer.status());
    response.headers_mut().unwrap().extend(answer.headers().clone());
    let pieces = futures::stream::unfold(answer, |mut answer| async move {
        Some((answer.chunk().await.transpose()?, answer))
    });
    response.body(Body::from_stream(pieces)).unwrap()
}
