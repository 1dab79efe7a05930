//! The workflows that the tests look at: each stops in another way.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::llm::{ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall, Usage};
use aether::mcp::{InputAnswer, InputQuestion};
use aether::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often the money was paid back, in this process.
#[derive(Debug, Default)]
pub(crate) struct Paid(pub(crate) AtomicU32);

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speed {
    Normal,
    Express,
}

/// Look an order up.
#[step(effect = "read")]
pub(crate) async fn look_up(_cx: &mut StepCx, order: &str) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(120)).await;
    Ok(format!("{order}: 2 lamps, 41,80 EUR, delivered on Monday; the customer says that one is broken"))
}

/// Pay money back to a customer.
#[step(effect = "tool", irreversible, approval = "required", needs(std::sync::Arc<Paid>))]
pub(crate) async fn pay_back(
    cx: &mut StepCx,
    /// Who gets the money.
    customer: &str,
    /// How much, in cents.
    cents: u64,
    note: String,
    urgent: bool,
    speed: Speed,
) -> Result<String> {
    cx.dep::<std::sync::Arc<Paid>>()?.0.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(format!("paid {cents} cents to {customer} ({speed:?}, urgent: {urgent}): {note}"))
}

/// Answer a complaint: look the order up, pay back what is due.
#[workflow]
pub(crate) async fn complaint(cx: &mut Cx, text: String) -> Result<String> {
    let agent =
        cx.agent("support").system("You are the support of a lamp shop. SECRET-HOUSE-RULES: be generous.");
    Ok(agent.tools((look_up::tool(), pay_back::tool())).run(text).await?.answer)
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Priority {
    Urgent,
    Normal,
}

/// Send a mail.
#[step(effect = "tool", approval = "required")]
pub(crate) async fn send_mail(
    _cx: &mut StepCx,
    to: String,
    text: String,
    priority: Option<Priority>,
    save_draft: Option<bool>,
    reply_to: Option<String>,
) -> Result<String> {
    Ok(format!("{} characters to {to}, {priority:?}, {save_draft:?}, {reply_to:?}", text.chars().count()))
}

/// Have an agent send a mail.
#[workflow]
pub(crate) async fn mail(cx: &mut Cx, text: String) -> Result<String> {
    Ok(cx.agent("mailer").tools((send_mail::tool(),)).run(text).await?.answer)
}

/// What a tool over MCP asks: a form, or a page to be opened.
pub(crate) fn asked(is_page: bool) -> InputQuestion {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "amount": { "type": "integer", "minimum": 1 },
            "fast": { "type": "boolean" },
            "way": { "type": "string", "oneOf": [{ "const": "b", "title": "By bank" }, { "const": "p", "title": "By post" }] },
        },
        "required": ["amount"],
    });
    InputQuestion {
        server: "bank".into(),
        tool: "pay".into(),
        key: "amount".into(),
        message: "How much may it be?".into(),
        schema: Some(schema).filter(|_| !is_page),
        url: Some("https://bank.example/login".to_owned()).filter(|_| is_page),
    }
}

/// Ask as a tool over MCP does in the middle of a call.
#[workflow]
pub(crate) async fn ask_for_tool(cx: &mut Cx, is_page: bool) -> Result<InputAnswer> {
    let answer: InputAnswer = cx.ask(asked(is_page)).named("bank.pay: amount").await?;
    Ok(answer)
}

/// Ask for consent, without a call.
#[workflow]
pub(crate) async fn consent(cx: &mut Cx, matter: String) -> Result<bool> {
    Ok(cx.approval(matter).await.is_ok())
}

/// Read something again and again, which fails in the words of the text.
#[step(effect = "read", retry(max_retries = 3, delay = "1h"))]
pub(crate) async fn fail_with(_cx: &mut StepCx, text: String) -> Result<String> {
    Err(Failure::retryable(format!("SECRET-ERROR of {text}")))
}

/// Wait for the next try.
#[workflow]
pub(crate) async fn read_again(cx: &mut Cx, text: String) -> Result<String> {
    Ok(fail_with(cx, text).await?)
}

/// Read a feed, which fails now and then.
#[step(effect = "read", retry(max_retries = 4, delay = "60ms"))]
pub(crate) async fn read_feed(cx: &mut StepCx, feed: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_millis(40 + 30 * u64::from(feed))).await;
    if cx.attempt() < feed % 3 {
        return Err(Failure::retryable(format!("feed {feed}: the server is busy\nattempt {}", cx.attempt())));
    }
    Ok(feed * 10)
}

/// Read three feeds at once, wait, and add them up.
#[workflow]
pub(crate) async fn digest(cx: &mut Cx, seconds: u64) -> Result<u32> {
    let (one, two) = cx
        .join((
            async |cx: &mut Cx| read_feed(cx, 1).await,
            async |cx: &mut Cx| {
                Ok::<_, StepError<Failure>>(read_feed(cx, 2).await? + read_feed(cx, 3).await?)
            },
        ))
        .await;
    cx.sleep(Duration::from_secs(seconds)).await;
    let last = read_feed(cx, 4).await?;
    Ok(one? + two? + last)
}

/// Wire money; the bank's answer gets lost.
#[step(effect = "external", on_unknown = "ask")]
pub(crate) async fn wire(_cx: &mut StepCx, account: &str, cents: u64) -> Result<String> {
    Err(Failure::unknown(format!("the connection broke while {cents} cents went to {account}")))
}

/// Send money somewhere.
#[workflow]
pub(crate) async fn transfer(cx: &mut Cx, account: String) -> Result<String> {
    Ok(wire(cx, &account, 12_500).await?)
}

/// Welcome somebody: ask for a name, and wait until they have paid.
#[workflow]
pub(crate) async fn welcome(cx: &mut Cx, who: String) -> Result<String> {
    let name: String = cx.ask(format!("How should we address {who}?")).await?;
    let paid: u64 = cx.signal("paid").await?;
    Ok(format!("{name} paid {paid}"))
}

/// Reserve something, which can be undone.
#[step(effect = "tool", compensate = release)]
pub(crate) async fn reserve(_cx: &mut StepCx, seat: &str) -> Result<String> {
    Ok(format!("reserved {seat}"))
}

/// Give it back.
#[step(effect = "tool")]
pub(crate) async fn release(_cx: &mut StepCx, seat: &str, _done: Option<String>) -> Result<()> {
    tracing::debug!(seat, "released");
    Ok(())
}

/// Charge a card.
#[step(effect = "tool")]
pub(crate) async fn charge(_cx: &mut StepCx, card: &str) -> Result<String> {
    Err(Failure::permanent(format!("the card {card} was declined")))
}

/// Look at the price of a seat.
#[step(effect = "tool")]
pub(crate) async fn announce(_cx: &mut StepCx, seat: &str) -> Result<String> {
    Ok(format!("announced {seat}"))
}

/// Book a seat; the card is declined.
#[workflow]
pub(crate) async fn booking(cx: &mut Cx, seat: String) -> Result<String> {
    announce(cx, &seat).await?;
    reserve(cx, &seat).await?;
    Ok(charge(cx, "4000 0000 0000 0002").await?)
}

/// Note a number.
#[step(effect = "read")]
pub(crate) async fn note(_cx: &mut StepCx, number: u32) -> Result<u32> {
    Ok(number)
}

/// Note many numbers.
#[workflow]
pub(crate) async fn count_up(cx: &mut Cx, to: u32) -> Result<u32> {
    let mut sum = 0;
    for number in 0..to {
        sum += note(cx, number).await?;
    }
    Ok(sum)
}

/// Note a number each time that a signal comes.
#[workflow]
pub(crate) async fn on_signal(cx: &mut Cx, times: u32) -> Result<u32> {
    let mut sum = 0;
    for _ in 0..times {
        let number: u32 = cx.signal("number").await?;
        sum += note(cx, number).await?;
    }
    Ok(sum)
}

/// Ask for consent to whatever text it is given, in every place where a text can stand.
#[workflow]
pub(crate) async fn hostile(cx: &mut Cx, text: String) -> Result<String> {
    let echoed = echo(cx, text.clone()).await.unwrap_or_else(|error| error.to_string());
    let _why = refuse(cx, text.clone()).await;
    pay_back(cx, &text, 1, text.clone(), true, Speed::Normal).await?;
    Ok(echoed)
}

/// Say it again.
#[step(effect = "tool")]
pub(crate) async fn echo(_cx: &mut StepCx, text: String) -> Result<String> {
    Ok(text)
}

/// Fail with it.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
pub(crate) async fn refuse(_cx: &mut StepCx, text: String) -> Result<String> {
    Err(Failure::retryable(text))
}

/// Plays a model: looks the order up, pays back, and says so.
#[derive(Debug)]
pub(crate) struct Script;

impl ModelClient for Script {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::result::Result<ChatResponse, ModelError>> + Send + '_>>
    {
        let call = |name: &str, arguments: &str| {
            let call =
                ToolCall { id: format!("call-{name}"), name: name.into(), arguments: arguments.into() };
            ChatResponse { tool_calls: vec![call], ..ChatResponse::default() }
        };
        let answer = match request.messages.last() {
            Some(ChatMessage::Tool { name, .. }) if name == "look_up" => call(
                "pay_back",
                r#"{"customer": "ann@example.com", "cents": 2090, "note": "One of two lamps was broken.\nWe are sorry.", "urgent": false, "speed": "normal"}"#,
            ),
            Some(ChatMessage::User { content, .. }) if content.starts_with("Mail: ") => {
                let arguments = serde_json::json!({ "to": "ann@example.com", "text": &content[6..] });
                call("send_mail", &arguments.to_string())
            }
            Some(ChatMessage::Tool { content, .. }) => ChatResponse {
                content: Some(format!("Dear customer, it is settled: {content}")),
                ..ChatResponse::default()
            },
            _ => call("look_up", r#"{"order": "order-7"}"#),
        };
        let answer = ChatResponse {
            model: "small-1".into(),
            usage: Usage::of(820 + 140 * request.messages.len() as u64, 64),
            finish_reason: Some("stop".into()),
            ..answer
        };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(250)).await;
            Ok(answer)
        })
    }
}
