//! Runs as tasks: ids, statuses and results.

use aether_core::contract::Status;
use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::payload::Payload;
use aether_core::run::RunEnd;
use aether_core::store::RunRecord;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Task, TaskPayload, TaskStatus};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What the ids of runs that were started over MCP begin with.
const PREFIX: &str = "mcp:";
/// How often a client is asked to look, in milliseconds.
const POLL_MS: u64 = 1_000;
/// Longest key of a caller that stands in an id, written as an id has it.
const LONGEST_KEY: usize = 100;
/// What stands before the hash of a longer key. No other key is written with a colon.
const HASHED: &str = "sha256:";

/// The id of the run of `tool` under the caller's key. It is that of no child, fork or other run: what has a meaning in ids
/// is written as in a URL.
pub(crate) fn run_id(tool: &str, key: &str) -> String {
    let mut written = String::new();
    for byte in key.bytes() {
        match byte {
            plain if is_plain(plain) => written.push(char::from(plain)),
            other => written.push_str(&format!("%{other:02X}")),
        }
    }
    if !written.is_empty() && written.len() <= LONGEST_KEY {
        return format!("{PREFIX}{tool}:{written}");
    }
    let hash: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{tool}:{HASHED}{hash}")
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// The tool of the run of this id; `None` where no call has this id: it is that of a child, a fork, or another run.
fn tool_of(id: &str) -> Option<&str> {
    let (tool, key) = id.strip_prefix(PREFIX)?.split_once(':')?;
    let key = key.strip_prefix(HASHED).unwrap_or(key);
    key.bytes().all(|byte| is_plain(byte) || byte == b'%').then_some(tool)
}

/// The run of this task, where a call of an exposed tool started it under this id.
pub(crate) async fn find(
    engine: &Engine,
    id: &str,
    is_exposed: impl Fn(&str) -> bool,
) -> Result<Option<RunRecord>, aether_core::store::StoreError> {
    let Ok(run) = RunId::new(id) else { return Ok(None) };
    // Also a run that has continued as another workflow.
    if !tool_of(id).is_some_and(is_exposed) {
        return Ok(None);
    }
    let record = engine.store().run(&run).await?;
    // A workflow may give a child any id.
    Ok(record.filter(|record| record.parent.is_none()))
}

/// What every answer about a task holds.
pub(crate) fn task(record: &RunRecord, message: Option<String>) -> Task {
    let (created, updated) = (record.created_at.to_string(), record.updated_at.to_string());
    let task =
        Task::new(record.id.as_str(), TaskStatus::Working, created, updated).with_poll_interval_ms(POLL_MS);
    match message {
        Some(message) => task.with_status_message(message),
        None => task,
    }
}

/// How a run that has ended stands as a task.
pub(crate) fn ended(end: RunEnd) -> TaskPayload {
    match end {
        RunEnd::Cancelled { .. } | RunEnd::Terminated { .. } => TaskPayload::Cancelled,
        end => TaskPayload::Completed { result: as_object(&result(end)) },
    }
}

fn as_object(result: &CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// How a run that has ended stands as the result of a tool.
pub(crate) fn result(end: RunEnd) -> CallToolResult {
    let error = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
    match end {
        RunEnd::Completed(value) => completed(&value),
        RunEnd::Failed { message, .. } => error(message),
        RunEnd::Cancelled { reason, actor, .. } => {
            error(format!("the run was cancelled by {actor}: {reason}"))
        }
        RunEnd::Terminated { reason, actor } => error(format!("the run was terminated by {actor}: {reason}")),
        RunEnd::Expired { at } => error(format!("the run had not begun by {at}, and was not executed")),
        RunEnd::Stopped(fault) => error(format!("the run is not being advanced: {fault}")),
    }
}

fn completed(value: &Payload) -> CallToolResult {
    let structured: Value = value.decode().unwrap_or(Value::Null);
    let text = structured.as_str().map_or_else(|| value.as_str().to_owned(), str::to_owned);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    // Clients of older protocols take objects only.
    result.structured_content = Some(match structured {
        Value::Object(_) => structured,
        other => json!({ "result": other }),
    });
    result
}

/// Whether the run has ended.
pub(crate) fn has_ended(record: &RunRecord) -> bool {
    record.status.is_terminal() || record.status == Status::Cancelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_run_follows_from_tool_and_key() {
        assert_eq!(run_id("triage", "k-1"), "mcp:triage:k-1");
        let (long, other) = ("x".repeat(500), "y".repeat(500));
        assert_eq!(run_id("triage", &long), run_id("triage", &long));
        assert_ne!(run_id("triage", &long), run_id("triage", &other));
        for key in [long.as_str(), "a\nb", ""] {
            assert!(RunId::new(run_id("triage", key)).is_ok(), "{key:?}");
        }
    }

    #[test]
    fn no_key_names_a_child_a_fork_or_the_run_of_another_key() {
        assert_eq!(run_id("t", "k/3:chapter"), "mcp:t:k%2F3%3Achapter");
        let hashed = run_id("t", &"x".repeat(500));
        let copied = hashed.strip_prefix("mcp:t:").unwrap();
        let keys = ["k", "k/3:chapter", "k%2F3%3Achapter", "k~fork-1", "k~1", "a b", "ä", copied, ""];
        let ids: Vec<_> = keys.iter().map(|key| run_id("t", key)).collect();
        for (number, id) in ids.iter().enumerate() {
            assert!(!ids[..number].contains(id) && *id != hashed, "{id}");
            assert_eq!(tool_of(id), Some("t"), "{id}");
        }
        for id in ["mcp:t:k/3:chapter", "mcp:t:k~fork-1", "mcp:t:k~1", "mcp:t", "other:t:k", ""] {
            assert_eq!(tool_of(id), None, "{id}");
        }
    }

    #[test]
    fn values_and_errors_are_results() {
        let plain = result(RunEnd::Completed(Payload::encode("hi").unwrap()));
        assert_eq!(plain.structured_content, Some(json!({ "result": "hi" })));
        assert_eq!(serde_json::to_value(&plain.content).unwrap()[0]["text"], "hi");
        let object = result(RunEnd::Completed(Payload::encode(&json!({ "a": 1 })).unwrap()));
        assert_eq!(object.structured_content, Some(json!({ "a": 1 })));
        let failed =
            RunEnd::Failed { error: Payload::null(), message: "no".into(), uncompensated: Vec::new() };
        assert_eq!(result(failed.clone()).is_error, Some(true));
        assert!(matches!(ended(failed), TaskPayload::Completed { .. }));
    }
}
