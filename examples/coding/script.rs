//! Plays the model: what it does next depends on nothing but the conversation.

use std::pin::Pin;

use aether::llm::{ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall};
use serde_json::{Value, json};

/// The message of the commit, by which a person finds it.
pub(crate) const MESSAGE: &str = "The mean of no numbers is 0";

/// A model for those who have none.
#[derive(Debug)]
pub(crate) struct Script;

impl ModelClient for Script {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        Box::pin(async move { Ok(next(&request.messages)) })
    }
}

fn next(messages: &[ChatMessage]) -> ChatResponse {
    let repo = messages.iter().find_map(repository).unwrap_or_default();
    let told: Vec<&str> = messages.iter().filter_map(result).collect();
    let file = format!("{repo}/calc.py");
    match told.as_slice() {
        [] => call("find_todos", json!({})),
        [_] => call("run_tests", json!({})),
        [_, _] => call("files__read_text_file", json!({ "path": file })),
        [.., text] if told.len() == 3 => {
            call("files__write_file", json!({ "path": file, "content": patched(text) }))
        }
        [_, _, _, _] => call("run_tests", json!({})),
        [.., tested] if told.len() == 5 && !tested.contains("\"passed\":true") => {
            say("The patch does not make the tests pass; nothing was committed.")
        }
        [_, _, _, _, _] => call("git__git_add", json!({ "repo_path": repo, "files": ["calc.py"] })),
        [.., _] if told.len() == 6 => {
            call("git__git_commit", json!({ "repo_path": repo, "message": MESSAGE }))
        }
        [.., committed] if committed.starts_with("error") => {
            say("The patch is written and its tests pass. It was not committed.")
        }
        _ => say("mean([]) is 0 now. The tests pass, and the patch is committed."),
    }
}

/// The repository that the prompt names.
fn repository(message: &ChatMessage) -> Option<&str> {
    let ChatMessage::User { content, .. } = message else { return None };
    content.strip_prefix("The repository is ")?.strip_suffix('.')
}

/// What the model was told about a call.
fn result(message: &ChatMessage) -> Option<&str> {
    let ChatMessage::Tool { content, .. } = message else { return None };
    Some(content)
}

/// The file without its TODO.
fn patched(text: &str) -> String {
    let start = text.find("def mean").unwrap_or_default();
    let body = "    # TODO: the mean of no numbers is 0\n";
    let done = "    if not numbers:\n        return 0\n";
    text.get(start..).unwrap_or_default().replace(body, done).trim_end().to_owned() + "\n"
}

fn call(name: &str, arguments: Value) -> ChatResponse {
    let call = ToolCall { id: name.into(), name: name.into(), arguments: arguments.to_string() };
    ChatResponse { tool_calls: vec![call], ..ChatResponse::default() }
}

fn say(text: &str) -> ChatResponse {
    ChatResponse { content: Some(text.into()), ..ChatResponse::default() }
}
