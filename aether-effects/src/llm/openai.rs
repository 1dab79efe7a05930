//! Chat completions as OpenAI defined them and many servers speak them.
//!
//! Promise: whatever the peer answers or does not answer is a value or a [`ModelError`]; the key is in no message.

use std::env;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::http::client::HttpClient;
use crate::http::draft::Draft;
use crate::http::error::HttpError;
use crate::http::exchange::send;
use crate::http::response::HttpResponse;
use crate::model::attachment::{Attachment, AttachmentContent};
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall, ToolSpec};
use crate::model::client::ModelClient;
use crate::model::error::ModelError;
use crate::model::usage::Usage;
use crate::recorded_error::start_of;
use crate::secret::Secret;

/// Default time for one answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Where OpenAI itself answers.
const OPENAI: &str = "https://api.openai.com/v1";
/// The model asked where neither the call nor the environment names one.
const DEFAULT_MODEL: &str = "gpt-4o-mini";

/// A client for OpenAI and for servers that speak its chat completions.
///
/// ```
/// # use aether_effects::llm::OpenAiClient;
/// let client = OpenAiClient::new("http://localhost:11434/v1", "", "llama3")
///     .timeout(std::time::Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct OpenAiClient {
    base_url: String,
    key: Secret<String>,
    model: String,
    timeout: Duration,
    http: Option<HttpClient>,
}

impl OpenAiClient {
    /// Speaks to `base_url` (up to and including `/v1`), with `model` where a call names none.
    pub fn new(
        base_url: impl Into<String>,
        key: impl Into<Secret<String>>,
        model: impl Into<String>,
    ) -> Self {
        Self {
            base_url: base_url.into().trim_end_matches('/').to_owned(),
            key: key.into(),
            model: model.into(),
            timeout: TIMEOUT,
            http: None,
        }
    }

    /// Reads `OPENAI_BASE_URL` (default `https://api.openai.com/v1`), `OPENAI_API_KEY` (may be missing where the base
    /// URL is another than the default), and `OPENAI_MODEL` (default `gpt-4o-mini`).
    ///
    /// # Errors
    /// [`ModelError::Setup`] naming the variable that is missing.
    pub fn from_env() -> Result<Self, ModelError> {
        let variable = |name: &str| {
            let value = env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| ModelError::Setup(format!("environment variable `{name}` is not set")))
        };
        let base_url = variable("OPENAI_BASE_URL").unwrap_or_else(|_| OPENAI.into());
        let key = match variable("OPENAI_API_KEY") {
            Ok(key) => key,
            // Servers of one's own often want no key.
            Err(_) if base_url != OPENAI => String::new(),
            Err(error) => return Err(error),
        };
        let model = variable("OPENAI_MODEL").unwrap_or_else(|_| DEFAULT_MODEL.into());
        Ok(Self::new(base_url, key, model))
    }

    /// Time for one answer. Default 120 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Uses these connections instead of the shared ones.
    #[must_use]
    pub fn http(mut self, client: HttpClient) -> Self {
        self.http = Some(client);
        self
    }

    async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let client = match &self.http {
            Some(client) => client.clone(),
            None => HttpClient::shared().map_err(ModelError::Setup)?,
        };
        let model = request.model.clone().unwrap_or_else(|| self.model.clone());
        let mut draft = Draft::new(Method::POST, &format!("{}/chat/completions", self.base_url));
        draft.timeout(self.timeout);
        if !self.key.expose().is_empty() {
            draft.header("authorization", &format!("Bearer {}", self.key.expose()), true);
        }
        draft.json(&self.body(&model, request).await?);
        let response = send(&client, &draft).await.map_err(of_http)?;
        let text = self.without_key(&response.text());
        if !response.is_success() {
            return Err(of_status(&response, &text));
        }
        let mut answer = read(&text, model)?;
        // The id of the exchange, where the server gives one: that of the answer is no help to every provider.
        if let Some(id) = response.header("x-request-id") {
            answer.request_id = Some(id.to_owned());
        }
        Ok(answer)
    }

    async fn body(&self, model: &str, request: ChatRequest) -> Result<Value, ModelError> {
        let mut body = Map::new();
        body.insert("model".into(), model.into());
        let mut messages = Vec::with_capacity(request.messages.len());
        for said in request.messages {
            messages.push(message(said).await?);
        }
        body.insert("messages".into(), messages.into());
        if !request.tools.is_empty() {
            body.insert("tools".into(), request.tools.into_iter().map(tool).collect());
        }
        if let Some(temperature) = request.temperature {
            body.insert("temperature".into(), temperature.into());
        }
        if let Some(tokens) = request.max_tokens {
            // OpenAI's own newer models refuse the older name, and other servers may not know the newer one.
            let own = self.base_url.starts_with("https://api.openai.com/");
            let name = if own { "max_completion_tokens" } else { "max_tokens" };
            body.insert(name.into(), tokens.into());
        }
        if let Some(schema) = request.response_schema {
            let schema = json!({ "name": schema_name(&request.call), "schema": schema });
            body.insert("response_format".into(), json!({ "type": "json_schema", "json_schema": schema }));
        }
        Ok(body.into())
    }

    /// A server may repeat the key in what it says.
    fn without_key(&self, text: &str) -> String {
        let key = self.key.expose();
        if key.len() < 8 { text.to_owned() } else { text.replace(key.as_str(), "***") }
    }
}

impl ModelClient for OpenAiClient {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        Box::pin(self.ask(request))
    }
}

/// Schema names may hold letters, digits, `_` and `-`, at most 64 of them.
pub(super) fn schema_name(call: &str) -> String {
    let name: String =
        call.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() { "answer".into() } else { name }
}

async fn message(message: ChatMessage) -> Result<Value, ModelError> {
    Ok(match message {
        ChatMessage::System { content } => json!({ "role": "system", "content": content }),
        ChatMessage::User { content, attachments } if attachments.is_empty() => {
            json!({ "role": "user", "content": content })
        }
        ChatMessage::User { content, attachments } => {
            let mut parts = Vec::new();
            if !content.is_empty() {
                parts.push(json!({ "type": "text", "text": content }));
            }
            for attachment in attachments {
                parts.push(part(attachment).await?);
            }
            json!({ "role": "user", "content": parts })
        }
        ChatMessage::Assistant { content, tool_calls } if tool_calls.is_empty() => {
            json!({ "role": "assistant", "content": content.unwrap_or_default() })
        }
        ChatMessage::Assistant { content, tool_calls } => {
            let calls: Value = tool_calls
                .into_iter()
                .map(|ToolCall { id, name, arguments }| {
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
                })
                .collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        ChatMessage::Tool { call_id, content, .. } => {
            json!({ "role": "tool", "tool_call_id": call_id, "content": content })
        }
    })
}

/// An attachment as a part of a message. Of what is at a URL, the protocol takes images only.
async fn part(attachment: Attachment) -> Result<Value, ModelError> {
    let content = attachment.load().await?;
    let (is_image, media_type) = (attachment.is_image(), attachment.media_type);
    let url = match content {
        AttachmentContent::Url(url) if is_image => url,
        AttachmentContent::Url(url) => {
            let reason =
                format!("a `{media_type}` cannot be given by its URL in chat completions: give a file");
            return Err(ModelError::Attachment { path: url, reason });
        }
        AttachmentContent::Base64(content) => format!("data:{media_type};base64,{content}"),
    };
    Ok(if is_image {
        json!({ "type": "image_url", "image_url": { "url": url } })
    } else {
        let name = attachment.name.unwrap_or_else(|| "file".into());
        json!({ "type": "file", "file": { "filename": name, "file_data": url } })
    })
}

fn tool(ToolSpec { name, description, schema }: ToolSpec) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": description, "parameters": schema } })
}

fn of_http(error: HttpError) -> ModelError {
    let message = error.to_string();
    match error {
        HttpError::Invalid { .. } => ModelError::Setup(message),
        HttpError::Timeout { .. } => ModelError::Timeout { message },
        HttpError::TooLarge { .. } => ModelError::TooLarge { message },
        HttpError::NotRecorded { refusal, .. } => ModelError::NotRecorded { refusal },
        _ => ModelError::Network { message },
    }
}

fn of_status(response: &HttpResponse, text: &str) -> ModelError {
    let (status, message) = (response.status, said(text));
    match status {
        401 | 403 => ModelError::Unauthorized { status, message },
        429 => ModelError::RateLimited { retry_after: response.retry_after(), message },
        408 | 425 | 500.. => ModelError::Overloaded { status, retry_after: response.retry_after(), message },
        _ => ModelError::BadRequest { status, message },
    }
}

/// The message of an error answer, or the start of it where it has none.
fn said(text: &str) -> String {
    let message = serde_json::from_str::<Value>(text).ok().and_then(|answer| {
        let error = answer.get("error")?;
        error.get("message").unwrap_or(error).as_str().map(start_of)
    });
    message.unwrap_or_else(|| start_of(text))
}

/// An answer as the protocol defines it; all that servers are known to leave out is optional.
#[derive(Deserialize)]
struct Completion {
    id: Option<Value>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Choice {
    message: WireMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireMessage {
    /// A text by the protocol; some servers send a list of parts.
    content: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
struct WireCall {
    id: Option<String>,
    function: WireFunction,
}

#[derive(Deserialize)]
struct WireFunction {
    name: String,
    /// A text by the protocol; some servers send the object itself.
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Value>,
    completion_tokens_details: Option<Value>,
}

impl WireUsage {
    fn counted(self) -> Usage {
        let detail = |details: Option<Value>, name| details?.get(name)?.as_u64();
        Usage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cached_tokens: detail(self.prompt_tokens_details, "cached_tokens").unwrap_or(0),
            reasoning_tokens: detail(self.completion_tokens_details, "reasoning_tokens").unwrap_or(0),
        }
    }
}

/// Reads an answer. `asked` is the model that was asked, where the answer names none.
fn read(text: &str, asked: String) -> Result<ChatResponse, ModelError> {
    let wrong = |reason: String| ModelError::WrongShape { reason, start: start_of(text) };
    let json: Value = serde_json::from_str(text)
        .map_err(|error| ModelError::NotJson { reason: error.to_string(), start: start_of(text) })?;
    let completion: Completion = serde_json::from_value(json).map_err(|error| wrong(error.to_string()))?;
    let choice = completion.choices.and_then(|choices| choices.into_iter().next());
    let Choice { message, finish_reason } = choice.ok_or_else(|| wrong("it has no choices".into()))?;
    let usage = completion.usage.map(WireUsage::counted).unwrap_or_default();
    let id = completion.id.as_ref().and_then(Value::as_str);
    let calls = message.tool_calls.unwrap_or_default();
    Ok(ChatResponse {
        model: completion.model.unwrap_or(asked),
        content: message.content.and_then(plain).or(message.refusal),
        tool_calls: calls.into_iter().enumerate().map(|(number, call)| tool_call(number, call)).collect(),
        finish_reason,
        usage,
        request_id: id.map(str::to_owned),
        cost: None,
    })
}

/// The text of a content, where there is one.
fn plain(content: Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        _ => None,
    }
}

fn tool_call(number: usize, WireCall { id, function }: WireCall) -> ToolCall {
    let arguments = match function.arguments {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{number}"));
    ToolCall { id, name: function.name, arguments }
}
