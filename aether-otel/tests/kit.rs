//! Workflows that do a bit of everything, and engines for them.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall, Usage};
use aether::otel::{Telemetry, TelemetryBuilder, otlp};
use aether::prelude::*;

use crate::collector::Collector;

/// What the model says.
pub(crate) const ANSWER: &str = "the lamp was charged";
/// What the model is asked.
pub(crate) const PROMPT: &str = "charge the customer for the lamp";

/// A model that calls the tool it is given once, and then answers.
#[derive(Debug)]
pub(crate) struct Model;

impl ModelClient for Model {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> futures_util::future::BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let was_told =
            request.messages.iter().any(|message| matches!(message, aether::llm::ChatMessage::Tool { .. }));
        let calls = match request.tools.first() {
            Some(tool) if !was_told => {
                let arguments = serde_json::json!({ "what": "lamp" }).to_string();
                vec![ToolCall { id: "c1".into(), name: tool.name.clone(), arguments }]
            }
            _ => Vec::new(),
        };
        let answer = ChatResponse {
            model: "gpt-test-2026".into(),
            content: calls.is_empty().then(|| ANSWER.to_owned()),
            tool_calls: calls,
            finish_reason: Some("stop".into()),
            usage: Usage { cached_tokens: 3, ..Usage::of(11, 7) },
            ..ChatResponse::default()
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// Look a price up; the first attempt in this process fails.
#[step(effect = "read", retry(max_retries = 3, delay = "10ms"))]
pub(crate) async fn price_of(cx: &mut StepCx, _what: &str) -> Result<u32> {
    if cx.attempt() == 0 {
        return Err(Failure::retryable("the shop is closed"));
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(100)
}

/// Charge for something.
#[step(effect = "tool", irreversible)]
pub(crate) async fn charge(_cx: &mut StepCx, what: &str) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(format!("charged for {what}"))
}

/// Tell somebody.
#[step(effect = "tool", approval = "required")]
pub(crate) async fn tell(_cx: &mut StepCx, text: &str) -> Result<usize> {
    Ok(text.len())
}

/// Fails.
#[step(effect = "read", retry(max_retries = 0))]
pub(crate) async fn broken(_cx: &mut StepCx) -> Result<()> {
    Err(Failure::permanent("the key sk-planted-in-an-error does not fit"))
}

/// A child.
#[workflow]
pub(crate) async fn pack(cx: &mut Cx, what: String) -> Result<String> {
    Ok(charge(cx, &what).await?)
}

/// A bit of everything.
#[workflow]
pub(crate) async fn order(cx: &mut Cx, what: String) -> Result<String> {
    let price = price_of(cx, &what).await?;
    let plan = cx.llm("plan").user(PROMPT).text().await?;
    let (left, right) = cx
        .join((async |cx: &mut Cx| charge(cx, "left").await, async |cx: &mut Cx| charge(cx, "right").await))
        .await;
    let told = cx.agent("clerk").system("Charge.").tools((charge::tool(),)).run(PROMPT).await?;
    cx.sleep(Duration::from_millis(30)).await;
    let child = cx.child::<pack>("box".to_owned()).await?;
    let heard: String = cx.signal("go").await?;
    Ok(format!("{price} {plan} {} {} {} {child} {heard}", left?, right?, told.answer))
}

/// Waits for a person.
#[workflow]
pub(crate) async fn asking(cx: &mut Cx, text: String) -> Result<usize> {
    Ok(tell(cx, &text).await?)
}

/// Fails.
#[workflow]
pub(crate) async fn failing(cx: &mut Cx) -> Result<()> {
    Ok(broken(cx).await?)
}

/// One call, and the end.
#[workflow]
pub(crate) async fn short(cx: &mut Cx, what: String) -> Result<String> {
    Ok(charge(cx, &what).await?)
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A name that no other run of these tests has.
pub(crate) fn name(prefix: &str) -> String {
    format!("{prefix}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn engine(file: &Path) -> Engine {
    Engine::builder().sqlite(file).model(Model).start().await.unwrap()
}

/// Telemetry over gRPC to `collector`.
pub(crate) fn to_grpc(collector: &Collector) -> TelemetryBuilder {
    Telemetry::builder().spans_to(otlp::grpc(collector.url()).unwrap())
}

/// Telemetry over HTTP to `collector`.
pub(crate) fn to_http(collector: &Collector) -> TelemetryBuilder {
    Telemetry::builder().spans_to(otlp::http(collector.traces_url()).unwrap())
}

/// Long enough for any machine; what takes so long never ends.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Runs [`order`] to its end under `id`.
pub(crate) async fn order_once(engine: &Engine, id: &str) {
    let run = engine.start::<order>("lamp".to_owned()).id(id).await.unwrap();
    engine.signal(run.id(), "go", "s1", &"now").await.unwrap();
    run.result().await.unwrap();
}
