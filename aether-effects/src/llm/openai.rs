//! Chat completions as OpenAI defined them and many servers speak them.
//!
//! Promise: whatever the peer answers or does not answer is a value or a [`ModelError`]; the key is in no message.

use std::env;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::openai_events::read_events;
use super::openai_wire::{of_http, of_status, read, said};
use crate::http::client::HttpClient;
use crate::http::draft::Draft;
use crate::http::exchange::{open, send};
use crate::http::response::HttpResponse;
use crate::model::attachment::{Attachment, AttachmentContent};
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall, ToolSpec};
use crate::model::client::{ModelClient, OnText};
use crate::model::error::ModelError;
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
        let client = self.connections()?;
        let model = self.model_of(&request);
        let body = self.body(&model, request).await?;
        let response = send(&client, &self.draft(&body)).await.map_err(of_http)?;
        self.read_whole(&response, model)
    }

    /// As [`OpenAiClient::ask`], with the text as it comes. Behind a cassette, which holds whole answers, it comes as one
    /// piece.
    async fn ask_streamed(
        &self,
        request: ChatRequest,
        on_text: OnText<'_>,
    ) -> Result<ChatResponse, ModelError> {
        let client = self.connections()?;
        if client.settings.cassette.is_some() {
            let answer = self.ask(request).await?;
            answer.content.iter().for_each(|text| on_text(text));
            return Ok(answer);
        }
        let model = self.model_of(&request);
        let mut body = self.body(&model, request).await?;
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
        loop {
            let arriving = open(&client, &self.draft(&body)).await.map_err(of_http)?;
            if (200..300).contains(&arriving.status) && arriving.is_event_stream() {
                return read_events(arriving, model, on_text, &|text| self.without_key(text)).await;
            }
            let response = arriving.whole().await.map_err(of_http)?;
            let refuses_options = matches!(response.status, 400 | 422)
                && response.text().contains("stream_options")
                && body.as_object_mut().is_some_and(|body| body.remove("stream_options").is_some());
            // A server that does not count the tokens of a stream is asked without it.
            if !refuses_options {
                let answer = self.read_whole(&response, model)?;
                answer.content.iter().for_each(|text| on_text(text));
                return Ok(answer);
            }
        }
    }

    fn connections(&self) -> Result<HttpClient, ModelError> {
        match &self.http {
            Some(client) => Ok(client.clone()),
            None => HttpClient::shared().map_err(ModelError::Setup),
        }
    }

    fn model_of(&self, request: &ChatRequest) -> String {
        request.model.clone().unwrap_or_else(|| self.model.clone())
    }

    fn draft(&self, body: &Value) -> Draft {
        let mut draft = Draft::new(Method::POST, &format!("{}/chat/completions", self.base_url));
        draft.timeout(self.timeout);
        if !self.key.expose().is_empty() {
            draft.header("authorization", &format!("Bearer {}", self.key.expose()), true);
        }
        draft.json(body);
        draft
    }

    /// Reads an answer that came as a whole.
    fn read_whole(&self, response: &HttpResponse, model: String) -> Result<ChatResponse, ModelError> {
        let text = self.without_key(&response.text());
        if !response.is_success() {
            return Err(of_status(response.status, response.retry_after(), said(&text)));
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

    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<ChatResponse, ModelError>> {
        Box::pin(self.ask_streamed(request, on_text))
    }

    fn model(&self) -> Option<&str> {
        Some(&self.model)
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
