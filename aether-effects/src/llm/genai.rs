//! Every provider that the `genai` crate speaks to, behind the same trait.
//!
//! Promise: its types stop here; what is recorded is ours, and the key is in no error.

use std::sync::{Arc, OnceLock};

use ::genai::chat::{
    ChatMessage as TheirMessage, ChatOptions, ChatRequest as TheirRequest, ChatResponse as TheirResponse,
    ChatResponseFormat, ChatStreamEvent, ContentPart, JsonSpec, MessageContent, StreamEnd, Tool,
    ToolCall as TheirCall, ToolResponse, Usage as TheirUsage,
};
use ::genai::resolver::AuthData;
use ::genai::{Client, ClientBuilder, Error};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::{DATE, RETRY_AFTER};
use serde_json::{Value, json};

use super::openai_events::of_said;
use crate::http::client::HttpClient;
use crate::model::attachment::{Attachment, AttachmentContent};
use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall};
use crate::model::client::{ModelClient, OnText};
use crate::model::error::ModelError;
use crate::model::usage::Usage;
use crate::recorded_error::start_of;
use crate::retry_after;

/// A client for the providers of `genai`: it finds the provider by the name of the model, and the provider's key in
/// the environment.
#[derive(Clone, Debug)]
pub struct GenAiClient {
    client: Client,
    model: String,
    /// Most bytes of text in an answer that comes piece by piece.
    limit: usize,
}

impl GenAiClient {
    /// Asks `model` where a call names none, over connections of its own. They belong to the runtime that first uses them: for
    /// another runtime, make another one.
    ///
    /// # Errors
    /// [`ModelError::Setup`] when there is no TLS.
    pub fn new(model: impl Into<String>) -> Result<Self, ModelError> {
        Self::with(Client::builder(), model)
    }

    /// The same with endpoints, keys and defaults of your own.
    ///
    /// # Errors
    /// [`ModelError::Setup`] when there is no TLS, or the client cannot be built.
    pub fn with(builder: ClientBuilder, model: impl Into<String>) -> Result<Self, ModelError> {
        let http = HttpClient::shared().map_err(ModelError::Setup)?;
        let connections = HttpClient::connections_builder().map_err(ModelError::Setup)?.build();
        let connections = connections.map_err(|error| ModelError::Setup(error.to_string()))?;
        let client = builder.with_reqwest(connections).build();
        let client = client.map_err(|error| ModelError::Setup(error.to_string()))?;
        Ok(Self { client, model: model.into(), limit: http.settings.max_body })
    }

    async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let model = request.model.clone().unwrap_or_else(|| self.model.clone());
        let options = options(&request).with_capture_raw_body(true);
        let answer = self.client.exec_chat(&model, theirs(request).await?, Some(&options)).await;
        match answer {
            Ok(answer) if is_none(&answer) => Err(self.keyless(&model).await.of_none(answer)),
            Ok(answer) => Ok(ours(answer)),
            Err(error) => Err(self.keyless(&model).await.of_error(&error)),
        }
    }

    /// What may be told of what a provider says to a question for this model.
    async fn keyless(&self, model: &str) -> Keyless {
        let auth = self.client.resolve_service_target(model).await.map(|target| target.auth);
        let keys = match auth {
            Ok(AuthData::MultiKeys(keys)) => keys.into_values().collect(),
            // `authorization: Bearer <key>`: the key may be repeated without the word.
            Ok(AuthData::RequestOverride { headers, .. }) => headers
                .into_iter()
                .map(|(_, value)| value.rsplit(' ').next().unwrap_or_default().to_owned())
                .collect(),
            Ok(auth) => auth.single_key_value().into_iter().collect(),
            Err(_) => Vec::new(),
        };
        Keyless(keys)
    }

    async fn ask_streamed(
        &self,
        request: ChatRequest,
        on_text: OnText<'_>,
    ) -> Result<ChatResponse, ModelError> {
        let model = request.model.clone().unwrap_or_else(|| self.model.clone());
        let id = Arc::new(OnceLock::new());
        let options = options(&request).with_capture_usage(true).with_capture_tool_calls(true);
        let options = options.with_raw_frame_fn({
            let id = Arc::clone(&id);
            // The first frame holds the id, where the provider gives one.
            move |_, frame| {
                id.get_or_init(|| frame.json().as_ref().and_then(id_of));
            }
        });
        let answer = self.client.exec_chat_stream(&model, theirs(request).await?, Some(&options)).await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(self.keyless(&model).await.of_error(&error)),
        };
        let mut text = String::new();
        while let Some(event) = answer.stream.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Err(self.keyless(&model).await.of_error(&error)),
            };
            match event {
                ChatStreamEvent::Chunk(piece) if text.len() + piece.content.len() > self.limit => {
                    let message = format!("the answer has more than {} bytes of text", self.limit);
                    return Err(ModelError::TooLarge { message });
                }
                ChatStreamEvent::Chunk(piece) => {
                    on_text(&piece.content);
                    text.push_str(&piece.content);
                }
                ChatStreamEvent::End(end) if end.captured_stop_reason.is_some() => {
                    let mut answer = streamed(answer.model_iden.model_name.to_string(), text, end);
                    answer.request_id = answer.request_id.or_else(|| id.get().cloned().flatten());
                    return Ok(answer);
                }
                // Some providers' streams end like this where the connection was cut.
                ChatStreamEvent::End(_) => break,
                // The model has begun to answer.
                ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_) => on_text(""),
                ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            }
        }
        let message = format!("the answer was cut off after {} bytes of text", text.len());
        Err(ModelError::Network { message })
    }
}

impl ModelClient for GenAiClient {
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

fn options(request: &ChatRequest) -> ChatOptions {
    let response_format = request.response_schema.as_ref().map(|schema| {
        let name = super::openai::schema_name(&request.call);
        ChatResponseFormat::JsonSpec(JsonSpec::new(name, schema.clone()))
    });
    let (temperature, max_tokens) = (request.temperature, request.max_tokens);
    ChatOptions { temperature, max_tokens, response_format, ..ChatOptions::default() }
}

async fn theirs(request: ChatRequest) -> Result<TheirRequest, ModelError> {
    let mut messages = Vec::with_capacity(request.messages.len());
    for said in request.messages {
        messages.push(message(said).await?);
    }
    let tools = request.tools.into_iter();
    let tools: Vec<_> = tools
        .map(|tool| Tool::new(tool.name).with_description(tool.description).with_schema(tool.schema))
        .collect();
    let theirs = TheirRequest::from_messages(messages);
    Ok(if tools.is_empty() { theirs } else { theirs.with_tools(tools) })
}

async fn message(message: ChatMessage) -> Result<TheirMessage, ModelError> {
    Ok(match message {
        ChatMessage::System { content } => TheirMessage::system(content),
        ChatMessage::User { content, attachments } => {
            let mut parts = Vec::new();
            if !content.is_empty() || attachments.is_empty() {
                parts.push(ContentPart::Text(content));
            }
            for Attachment { media_type, source, name } in attachments {
                let loaded =
                    Attachment { media_type: media_type.clone(), source, name: name.clone() }.load().await?;
                parts.push(match loaded {
                    AttachmentContent::Url(url) => ContentPart::from_binary_url(media_type, url, name),
                    AttachmentContent::Base64(data) => {
                        ContentPart::from_binary_base64(media_type, data, name)
                    }
                });
            }
            TheirMessage::user(MessageContent::from_parts(parts))
        }
        ChatMessage::Assistant { content, tool_calls } => {
            let text = content.filter(|text| !text.is_empty()).map(ContentPart::Text);
            let calls = tool_calls.into_iter().map(|call| ContentPart::ToolCall(their_call(call)));
            TheirMessage::assistant(MessageContent::from_parts(
                text.into_iter().chain(calls).collect::<Vec<_>>(),
            ))
        }
        ChatMessage::Tool { call_id, name, content } => {
            TheirMessage::tool(ToolResponse::new(call_id, content).with_fn_name(name))
        }
    })
}

/// Several providers refuse a question with arguments that are no object. Those go as text in one: the model wrote them and
/// may see them again.
fn their_call(ToolCall { id, name, arguments }: ToolCall) -> TheirCall {
    let fn_arguments = match serde_json::from_str(&arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "unreadable": arguments }),
    };
    TheirCall { call_id: id, fn_name: name, fn_arguments, thought_signatures: None }
}

/// The provider's id of an answer, from the answer or from its first event.
fn id_of(body: &Value) -> Option<String> {
    let id = ["/id", "/responseId", "/message/id"].iter().find_map(|place| body.pointer(place)?.as_str());
    id.map(str::to_owned)
}

/// Whether it is none: of JSON that is no answer at all, some adapters make an empty one.
fn is_none(answer: &TheirResponse) -> bool {
    answer.content.is_empty() && answer.stop_reason.is_none()
}

fn ours(answer: TheirResponse) -> ChatResponse {
    let text = answer.content.texts().concat();
    let raw = answer.captured_raw_body;
    ChatResponse {
        model: answer.provider_model_iden.model_name.to_string(),
        content: (!text.is_empty()).then_some(text),
        tool_calls: answer.content.tool_calls().into_iter().map(our_call).collect(),
        finish_reason: answer.stop_reason.as_ref().map(|reason| reason.raw().to_owned()),
        usage: our_usage(answer.usage),
        request_id: answer.response_id.or_else(|| raw.as_ref().and_then(id_of)),
        cost: None,
    }
}

/// An answer that came in pieces: its text, and what its end says.
fn streamed(model: String, text: String, end: StreamEnd) -> ChatResponse {
    let calls = end.captured_content.iter().flat_map(|content| content.tool_calls());
    ChatResponse {
        model,
        content: (!text.is_empty()).then_some(text),
        tool_calls: calls.map(our_call).collect(),
        finish_reason: end.captured_stop_reason.as_ref().map(|reason| reason.raw().to_owned()),
        usage: end.captured_usage.map(our_usage).unwrap_or_default(),
        request_id: end.captured_response_id,
        cost: None,
    }
}

fn our_usage(usage: TheirUsage) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    let (input, output) = (usage.prompt_tokens_details, usage.completion_tokens_details);
    Usage {
        input_tokens: count(usage.prompt_tokens),
        output_tokens: count(usage.completion_tokens),
        cached_tokens: count(input.and_then(|details| details.cached_tokens)),
        reasoning_tokens: count(output.and_then(|details| details.reasoning_tokens)),
    }
}

fn our_call(call: &TheirCall) -> ToolCall {
    let arguments = match &call.fn_arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ToolCall { id: call.call_id.clone(), name: call.fn_name.clone(), arguments }
}

/// What may be told of what a provider says: all but the keys that it was asked with, which it may repeat.
struct Keyless(Vec<String>);

impl Keyless {
    fn text(&self, text: &str) -> String {
        let keys = self.0.iter().filter(|key| key.len() >= 8);
        keys.fold(text.to_owned(), |text, key| text.replace(key.as_str(), "***"))
    }

    fn start_of(&self, text: &str) -> String {
        start_of(&self.text(text))
    }

    fn json(&self, json: &Value) -> Value {
        serde_json::from_str(&self.text(&json.to_string())).unwrap_or(Value::Null)
    }

    fn of_none(&self, answer: TheirResponse) -> ModelError {
        let raw = answer.captured_raw_body;
        let start = raw.map(|raw| self.start_of(&raw.to_string())).unwrap_or_default();
        let reason = "it has neither text nor calls of tools, nor a reason why it ends".into();
        ModelError::WrongShape { reason, start }
    }

    fn of_error(&self, error: &Error) -> ModelError {
        use ::genai::webc::Error as Web;
        if let Some(status) = error.status().map(|status| status.as_u16()) {
            return self.of_status(status, error);
        }
        let message = self.start_of(&error.to_string());
        match error {
            Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
                match webc_error {
                    Web::Reqwest(error) if error.is_timeout() => ModelError::Timeout { message },
                    Web::Reqwest(_) => ModelError::Network { message },
                    Web::ResponseFailedNotJson { body, .. } | Web::ResponseFailedInvalidJson { body, .. } => {
                        ModelError::NotJson {
                            reason: "the provider's answer does not parse".into(),
                            start: self.start_of(body),
                        }
                    }
                    _ => ModelError::WrongShape { reason: message, start: String::new() },
                }
            }
            Error::RequiresApiKey { .. } | Error::NoAuthResolver { .. } | Error::NoAuthData { .. } => {
                ModelError::Setup(message)
            }
            Error::Resolver { .. } | Error::ModelMapperFailed { .. } => ModelError::Setup(message),
            Error::WebStream { error, .. } => self.of_stream(error.as_ref(), message),
            Error::StreamParse { .. } => {
                ModelError::NotJson { reason: "an event of the answer does not parse".into(), start: message }
            }
            Error::ChatResponse { body, .. } => self.of_body(body, message),
            Error::ChatResponseGeneration { cause, response_body, .. } => ModelError::WrongShape {
                reason: self.start_of(cause),
                start: self.start_of(&response_body.to_string()),
            },
            Error::NoChatResponse { .. }
            | Error::InvalidJsonResponseElement { .. }
            | Error::JsonValueExt(_)
            | Error::SerdeJson(_) => ModelError::WrongShape { reason: message, start: String::new() },
            _ => ModelError::Setup(message),
        }
    }

    /// Why a stream ended. A status that is an error comes here as well.
    fn of_stream(
        &self,
        error: &(dyn std::error::Error + Send + Sync + 'static),
        message: String,
    ) -> ModelError {
        if let Some(error) = error.downcast_ref::<Error>() {
            return self.of_error(error);
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_timeout() => ModelError::Timeout { message },
            _ => ModelError::Network { message },
        }
    }

    /// What a provider says instead of an answer, or in the middle of one; or something that is no answer.
    fn of_body(&self, body: &Value, message: String) -> ModelError {
        let body = &self.json(body);
        let error = body.get("error").unwrap_or(body);
        if error.is_string() || error.get("message").is_some() {
            return of_said(error);
        }
        ModelError::WrongShape { reason: message, start: self.start_of(&body.to_string()) }
    }

    fn of_status(&self, status: u16, error: &Error) -> ModelError {
        let message = self.start_of(&error.to_string());
        let header = |name| error.headers()?.get(name)?.to_str().ok();
        let retry_after = header(RETRY_AFTER).and_then(|wait| retry_after::wait(wait, header(DATE)));
        match status {
            401 | 403 => ModelError::Unauthorized { status, message },
            429 => ModelError::RateLimited { retry_after, message },
            408 | 425 | 500.. => ModelError::Overloaded { status, retry_after, message },
            _ => ModelError::BadRequest { status, message },
        }
    }
}
