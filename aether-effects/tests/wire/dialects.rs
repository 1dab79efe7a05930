//! What the providers say on the wire: one answer in the words of each.

use std::time::Duration;

use aether_effects::llm::{ChatResponse, GenAiClient, ModelClient, OpenAiClient, ToolCall, Usage};
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use serde_json::{Value, json};

/// Text that is cut in the middle of its letters.
pub(crate) const TEXT: &str = "Grüße, 🌍";

/// How a provider speaks, and through which client.
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) client: fn(&str) -> Box<dyn ModelClient>,
    /// The path of a whole answer, and of a stream.
    pub(crate) paths: [&'static str; 2],
    /// Where the key stands.
    pub(crate) key: Option<&'static str>,
    /// A whole answer with text, two calls of tools, and all that there is to count.
    pub(crate) whole: fn() -> Value,
    /// The same as a stream, and of which type it is.
    pub(crate) stream: fn() -> Vec<String>,
    pub(crate) kind: &'static str,
    /// From how many pieces on the answer is complete.
    pub(crate) complete: usize,
    pub(crate) answer: fn() -> ChatResponse,
    /// What a stream does not tell.
    pub(crate) streamed: fn(&mut ChatResponse),
    /// An error in the middle of a stream that says that there were too many requests.
    pub(crate) limited: fn() -> String,
    /// Places in the request, and what stands there.
    pub(crate) sent: fn() -> Vec<(&'static str, Value)>,
}

pub(crate) const DIALECTS: &[Dialect] = &[OPENAI, OPENAI_BY_GENAI, ANTHROPIC, GEMINI, OLLAMA];

const KEY: &str = "very-secret-key";

fn through_genai(url: &str, kind: AdapterKind, model: &str) -> Box<dyn ModelClient> {
    let target = (Endpoint::from_owned(format!("{url}/")), AuthData::from_single(KEY));
    let builder = genai::Client::builder().append_provider_config(kind, target);
    Box::new(GenAiClient::with(builder, model).unwrap())
}

/// The answer of all of them.
fn answer(model: &str, finish_reason: &str, id: Option<&str>) -> ChatResponse {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    ChatResponse {
        model: model.into(),
        content: Some(TEXT.into()),
        tool_calls: vec![call("a", "search", "{\"q\":2}"), call("b", "send", "{}")],
        finish_reason: Some(finish_reason.into()),
        usage: Usage { cached_tokens: 4, reasoning_tokens: 3, ..Usage::of(11, 7) },
        request_id: id.map(str::to_owned),
        cost: None,
    }
}

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

// OpenAI, and whoever speaks as it does.

fn openai_usage() -> Value {
    json!({
        "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
        "prompt_tokens_details": { "cached_tokens": 4 },
        "completion_tokens_details": { "reasoning_tokens": 3 },
    })
}

fn openai_whole() -> Value {
    json!({
        "id": "chat-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini-2026",
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": TEXT, "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "search", "arguments": "{\"q\":2}" } },
                { "id": "b", "type": "function", "function": { "name": "send", "arguments": "{}" } },
            ],
        } }],
        "usage": openai_usage(),
    })
}

fn openai_stream() -> Vec<String> {
    let piece = |delta: Value, end: Value| {
        data(&json!({ "id": "chat-1", "object": "chat.completion.chunk", "model": "gpt-4o-mini-2026",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": end }] }))
    };
    let call = |call: Value| piece(json!({ "tool_calls": [call] }), Value::Null);
    vec![
        piece(json!({ "role": "assistant", "content": "" }), Value::Null),
        piece(json!({ "content": "Grüße, " }), Value::Null),
        piece(json!({ "content": "🌍" }), Value::Null),
        call(
            json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "search", "arguments": "" } }),
        ),
        call(json!({ "index": 0, "function": { "arguments": "{\"q\":" } })),
        call(json!({ "index": 0, "function": { "arguments": "2}" } })),
        call(
            json!({ "index": 1, "id": "b", "type": "function", "function": { "name": "send", "arguments": "{}" } }),
        ),
        piece(json!({}), json!("tool_calls")),
        data(&json!({ "id": "chat-1", "choices": [], "usage": openai_usage() })),
        "data: [DONE]\n\n".into(),
    ]
}

fn openai_sent() -> Vec<(&'static str, Value)> {
    vec![
        ("/messages/0", json!({ "role": "system", "content": "s" })),
        ("/messages/1/content", json!("u")),
        ("/messages/2/tool_calls/0/id", json!("c1")),
        ("/messages/2/tool_calls/0/function/arguments", json!("{\"q\":1}")),
        ("/messages/3/tool_call_id", json!("c1")),
        ("/messages/3/content", json!("found")),
        ("/tools/0/function/name", json!("search")),
        ("/tools/0/function/parameters/type", json!("object")),
        ("/response_format/json_schema/name", json!("c")),
    ]
}

const OPENAI: Dialect = Dialect {
    name: "OpenAI",
    client: |url| Box::new(OpenAiClient::new(url, KEY, "gpt-4o-mini").timeout(Duration::from_secs(60))),
    paths: ["/v1/chat/completions", "/v1/chat/completions"],
    key: Some("authorization: Bearer very-secret-key"),
    whole: openai_whole,
    stream: openai_stream,
    kind: "text/event-stream",
    complete: 8,
    // The id of the exchange goes before that of the answer.
    answer: || answer("gpt-4o-mini-2026", "tool_calls", Some("req-7")),
    streamed: |_| {},
    limited: || {
        data(&json!({ "error": { "message": "slow down", "type": "throttling_error", "code": "429" } }))
    },
    sent: openai_sent,
};

const OPENAI_BY_GENAI: Dialect = Dialect {
    name: "OpenAI by genai",
    client: |url| through_genai(url, AdapterKind::OpenAI, "gpt-4o-mini"),
    complete: 10,
    answer: || answer("gpt-4o-mini-2026", "tool_calls", Some("chat-1")),
    streamed: |answer| answer.model = "gpt-4o-mini".into(),
    ..OPENAI
};

// Anthropic.

fn anthropic_event(kind: &str, mut event: Value) -> String {
    event["type"] = kind.into();
    format!("event: {kind}\ndata: {event}\n\n")
}

const ANTHROPIC: Dialect = Dialect {
    name: "Anthropic",
    client: |url| through_genai(url, AdapterKind::Anthropic, "claude-sonnet-4-5"),
    paths: ["/v1/messages", "/v1/messages"],
    key: Some("x-api-key: very-secret-key"),
    whole: || {
        json!({
            "id": "msg-1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-2026",
            "content": [
                { "type": "text", "text": TEXT },
                { "type": "tool_use", "id": "a", "name": "search", "input": { "q": 2 } },
                { "type": "tool_use", "id": "b", "name": "send", "input": {} },
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": { "input_tokens": 7, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0,
                "output_tokens": 7, "output_tokens_details": { "thinking_tokens": 3 } },
        })
    },
    stream: || {
        let begins = |index: u64, block: Value| {
            anthropic_event("content_block_start", json!({ "index": index, "content_block": block }))
        };
        let delta = |index: u64, delta: Value| {
            anthropic_event("content_block_delta", json!({ "index": index, "delta": delta }))
        };
        let ends = |index: u64| anthropic_event("content_block_stop", json!({ "index": index }));
        let text = |text: &str| delta(0, json!({ "type": "text_delta", "text": text }));
        let input = |input: &str| delta(1, json!({ "type": "input_json_delta", "partial_json": input }));
        let usage = json!({ "input_tokens": 7, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 1 });
        vec![
            anthropic_event(
                "message_start",
                json!({ "message": { "id": "msg-1", "role": "assistant",
                "model": "claude-sonnet-4-5-2026", "content": [], "usage": usage } }),
            ),
            begins(0, json!({ "type": "text", "text": "" })),
            anthropic_event("ping", json!({})),
            text("Grüße, "),
            text("🌍"),
            ends(0),
            begins(1, json!({ "type": "tool_use", "id": "a", "name": "search", "input": {} })),
            input("{\"q\":"),
            input("2}"),
            ends(1),
            begins(2, json!({ "type": "tool_use", "id": "b", "name": "send", "input": {} })),
            ends(2),
            anthropic_event(
                "message_delta",
                json!({ "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 7 } }),
            ),
            anthropic_event("message_stop", json!({})),
        ]
    },
    kind: "text/event-stream",
    complete: 14,
    answer: || answer("claude-sonnet-4-5-2026", "tool_use", Some("msg-1")),
    streamed: |answer| {
        answer.model = "claude-sonnet-4-5".into();
        answer.usage.reasoning_tokens = 0;
    },
    limited: || {
        anthropic_event("error", json!({ "error": { "type": "rate_limit_error", "message": "slow down" } }))
    },
    sent: || {
        vec![
            ("/system", json!("s")),
            ("/messages/0/role", json!("user")),
            ("/messages/1/content/0/type", json!("tool_use")),
            ("/messages/1/content/0/id", json!("c1")),
            ("/messages/1/content/0/input", json!({ "q": 1 })),
            ("/messages/2/content/0/type", json!("tool_result")),
            ("/messages/2/content/0/tool_use_id", json!("c1")),
            ("/messages/2/content/0/content", json!("found")),
            ("/tools/0/name", json!("search")),
            ("/tools/0/input_schema/type", json!("object")),
        ]
    },
};

// Gemini.

fn gemini(parts: &Value, end: Option<&str>, usage: &Value) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(end) = end {
        candidate["finishReason"] = end.into();
    }
    json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash-2026", "responseId": "resp-1" })
}

fn gemini_usage() -> Value {
    json!({ "promptTokenCount": 11, "cachedContentTokenCount": 4, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 18 })
}

const GEMINI: Dialect = Dialect {
    name: "Gemini",
    client: |url| through_genai(url, AdapterKind::Gemini, "gemini-2.5-flash"),
    paths: [
        "/v1/models/gemini-2.5-flash:generateContent",
        "/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    ],
    key: Some("x-goog-api-key: very-secret-key"),
    whole: || {
        let parts = json!([
            { "text": TEXT },
            { "functionCall": { "id": "a", "name": "search", "args": { "q": 2 } } },
            { "functionCall": { "id": "b", "name": "send", "args": {} } },
        ]);
        gemini(&parts, Some("STOP"), &gemini_usage())
    },
    stream: || {
        let early = json!({ "promptTokenCount": 11 });
        let calls = json!([
            { "functionCall": { "id": "a", "name": "search", "args": { "q": 2 } } },
            { "functionCall": { "id": "b", "name": "send", "args": {} } },
        ]);
        vec![
            data(&gemini(&json!([{ "text": "Grüße, " }]), None, &early)),
            data(&gemini(&json!([{ "text": "🌍" }]), None, &early)),
            data(&gemini(&calls, None, &early)),
            data(&gemini(&json!([{ "text": "" }]), Some("STOP"), &gemini_usage())),
        ]
    },
    kind: "text/event-stream",
    complete: 4,
    answer: || answer("gemini-2.5-flash-2026", "STOP", Some("resp-1")),
    streamed: |answer| answer.model = "gemini-2.5-flash".into(),
    limited: || {
        data(&json!({ "error": { "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED" } }))
    },
    sent: || {
        vec![
            ("/systemInstruction/parts/0/text", json!("s")),
            ("/contents/0/parts/0/text", json!("u")),
            ("/contents/1/parts/0/functionCall/name", json!("search")),
            ("/contents/1/parts/0/functionCall/args", json!({ "q": 1 })),
            ("/contents/2/parts/0/functionResponse/name", json!("search")),
            ("/tools/0/functionDeclarations/0/name", json!("search")),
        ]
    },
};

// Ollama.

fn ollama(message: &Value, end: Value) -> Value {
    let mut line =
        json!({ "model": "llama3", "created_at": "2026-11-01T00:00:00Z", "message": message, "done": false });
    if let (Value::Object(line), Value::Object(end)) = (&mut line, end) {
        line.extend(end);
    }
    line
}

fn ollama_calls() -> Value {
    json!([
        { "id": "a", "function": { "name": "search", "arguments": { "q": 2 } } },
        { "id": "b", "function": { "name": "send", "arguments": {} } },
    ])
}

fn ollama_end() -> Value {
    json!({ "done": true, "done_reason": "stop", "prompt_eval_count": 11, "prompt_eval_cached_count": 4, "eval_count": 7 })
}

const OLLAMA: Dialect = Dialect {
    name: "Ollama",
    client: |url| through_genai(url, AdapterKind::Ollama, "llama3"),
    paths: ["/v1/api/chat", "/v1/api/chat"],
    key: None,
    whole: || {
        let message = json!({ "role": "assistant", "content": TEXT, "tool_calls": ollama_calls() });
        ollama(&message, ollama_end())
    },
    stream: || {
        let line = |message: Value, end: Value| format!("{}\n", ollama(&message, end));
        vec![
            line(json!({ "role": "assistant", "content": "Grüße, " }), json!({})),
            line(json!({ "role": "assistant", "content": "🌍" }), json!({})),
            line(json!({ "role": "assistant", "content": "", "tool_calls": ollama_calls() }), json!({})),
            line(json!({ "role": "assistant", "content": "" }), ollama_end()),
        ]
    },
    kind: "application/x-ndjson",
    complete: 4,
    answer: || {
        let mut answer = answer("llama3", "stop", None);
        answer.usage.reasoning_tokens = 0;
        answer
    },
    streamed: |_| {},
    limited: || format!("{}\n", json!({ "error": "slow down" })),
    sent: || {
        vec![
            ("/messages/0/content", json!("s")),
            ("/messages/2/tool_calls/0/function/name", json!("search")),
            ("/messages/2/tool_calls/0/function/arguments", json!({ "q": 1 })),
            ("/messages/3/role", json!("tool")),
            ("/messages/3/content", json!("found")),
            ("/tools/0/function/name", json!("search")),
        ]
    },
};
