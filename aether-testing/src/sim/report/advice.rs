//! What to add to a test: for a call that has no stub, for a wait that was never ended, for a signal that never came.
//!
//! Promise: each advice is a line that can be pasted into the test and names the step, call or question it is for.

use std::collections::BTreeMap;

use aether_core::id::CommandId;
use aether_core::journal::event::Event;
use aether_core::payload::Payload;
use aether_core::view::pending::{Pending, Waiting};
use aether_effects::llm::{ChatMessage, ChatRequest};
use serde::Deserialize;
use serde_json::Value;

/// The arguments of a call; of a question to a model, its last message.
pub(super) fn shown(asked: &str, args: &Payload) -> String {
    match args.decode::<ChatRequest>() {
        Ok(request) if asked.starts_with("llm.") => format!("last message {:?}", last_message(&request)),
        _ => format!("arguments {args:?}"),
    }
}

/// The last message that a model got.
pub(crate) fn last_message(request: &ChatRequest) -> String {
    match request.messages.last() {
        Some(
            ChatMessage::System { content }
            | ChatMessage::User { content, .. }
            | ChatMessage::Tool { content, .. },
        ) => content.clone(),
        Some(ChatMessage::Assistant { content, .. }) => content.clone().unwrap_or_default(),
        None => String::new(),
    }
}

/// What a request's arguments tell of its address.
#[derive(Deserialize)]
struct Requested {
    url: String,
}

/// What to add for a step, or for an effect of the context: a line that can be pasted.
pub(super) fn for_call(asked: &str, args: &Payload) -> String {
    if let Some(call) = asked.strip_prefix("llm.") {
        return format!(
            "add `.model_for(\"{call}\", |request| \"its answer\")`, or `.model_seq(\"{call}\", [..])` for answers in order"
        );
    }
    if let Some(method) = asked.strip_prefix("http.") {
        let url = args.decode::<Requested>().map_or_else(|_| "https://*".into(), |call| call.url);
        return format!("add `.http(\"{}\", \"{url}\", |call| (200, \"its body\"))`", method.to_uppercase());
    }
    match asked.rsplit_once("::") {
        Some((_, name)) => format!(
            "add `.stub::<{name}>(|{}| unimplemented!(\"its answer\"))`, or `.real::<{name}>()` to run its body",
            parameters(args)
        ),
        None => format!("add `.stub_effect(\"{asked}\", |args| unimplemented!(\"its answer\"))`"),
    }
}

/// The parameter of a stub's closure.
fn parameters(args: &Payload) -> String {
    let named: BTreeMap<String, serde::de::IgnoredAny> = args.decode().unwrap_or_default();
    // In the order in which they were recorded, which is that of the signature.
    let mut names: Vec<_> = named.keys().collect();
    names.sort_by_key(|name| args.as_str().find(&format!("\"{name}\":")));
    match names.as_slice() {
        [] if args.as_str() == "{}" => "()".into(),
        [] => "args".into(),
        [one] => (*one).clone(),
        several => format!("({})", several.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

/// What to add to the test for a wait that was never ended.
pub(crate) fn for_wait(pending: &Pending) -> String {
    let (run, command) = (&pending.run, &pending.command);
    let add = to_end(pending.waiting, command.name(), pending.question.as_ref());
    format!("command `{command}` of run `{run}` waits for {}: add {add}", pending.waiting)
}

/// What to add to the test for a request that nobody responded to.
pub(crate) fn for_request(command: &CommandId, request: &Payload) -> String {
    let asks = |field| request.decode::<Value>().is_ok_and(|request| request.get(field).is_some());
    let is_approval = asks("step") || command.name() == "approval" && asks("what");
    let waiting = if is_approval { Waiting::Approval } else { Waiting::Question };
    to_end(waiting, command.name(), Some(request))
}

/// What ends a wait of a command of this name.
fn to_end(waiting: Waiting, name: &str, question: Option<&Payload>) -> String {
    let question: Value = question.and_then(|question| question.decode().ok()).unwrap_or_default();
    let text = |field: &str| question.get(field).and_then(Value::as_str);
    match (waiting, text("step"), text("what")) {
        (Waiting::Approval, Some(path), _) => {
            let step = path.rsplit("::").next().unwrap_or(path);
            format!(
                "`.approves::<{step}>(\"ann\")`, `.edits::<{step}>(|args| args)` or `.rejects::<{step}>(\"why\")`"
            )
        }
        (Waiting::Approval, None, Some(what)) => {
            format!("`.grants({what:?}, \"ann\")` or `.refuses({what:?}, \"why\")`")
        }
        (Waiting::Question, ..) => match &question {
            Value::String(question) => format!("`.answer({question:?}, its_answer)`"),
            _ => "`.answers(|question| Some(its_answer))`".into(),
        },
        (Waiting::Callback, ..) => {
            format!("`.reports_after::<{name}>(Duration::from_secs(60), |args| Ok(its_outcome))`")
        }
        (Waiting::Resolution, ..) => format!(
            "`.resolves::<{name}>(|args| Probe::Happened(its_value))`, or in it `Probe::DidNotHappen` or `Probe::Unknown`"
        ),
        _ => "`.meanwhile(|live| ..)`, and in it what it waits for".into(),
    }
}

/// What to add to the test for signals that are waited for.
pub(crate) fn for_signals(events: &[Event]) -> Vec<String> {
    let mut waits = BTreeMap::new();
    for event in events {
        match event {
            Event::WaitStarted(wait) => drop(waits.insert(&wait.command, &wait.name)),
            Event::WaitCompleted(wait) => drop(waits.remove(&wait.command)),
            _ => {}
        }
    }
    let line = |(command, name)| {
        format!(
            "command `{command}` waits for a signal: add `.signal_at(Duration::from_secs(60), {name:?}, its_value)`"
        )
    };
    waits.into_iter().map(line).collect()
}
