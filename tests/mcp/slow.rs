//! A tool that asks in the middle of a call, or answers with a task: what it plans, and what it saw.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http_server::Manner;

/// What the tool does, and what it saw.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    /// What it asks for in each round, by key.
    pub(crate) rounds: Vec<Value>,
    /// Executes once per idempotency key, however often it is called.
    pub(crate) dedups: bool,
    /// The answers that it got, with the state that came along.
    pub(crate) answers: Vec<(String, Value)>,
    /// The keys of all requests.
    pub(crate) keys: Vec<Value>,
    pub(crate) done: BTreeSet<String>,
    /// The task that a call becomes.
    pub(crate) task: Option<Task>,
    pub(crate) looks: usize,
    pub(crate) updates: Vec<Value>,
    /// How many answers the task asks behind as if it had not got them.
    pub(crate) deaf: usize,
    /// How many calls are told to come again, without a question and without a word that tells one from another.
    pub(crate) busy: usize,
    pub(crate) cancels: usize,
    /// What requests about the task are answered with instead: a status, or an error.
    pub(crate) refuses: Option<Manner>,
}

/// A task that a call becomes.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// How often it is still working when it is asked.
    pub(crate) working: usize,
    pub(crate) poll_ms: u64,
    /// What it asks for before its end, by key.
    pub(crate) asks: Option<Value>,
    /// Its end: the fields of the answer, or null where the server does not know it any more.
    pub(crate) end: Value,
    /// Ends when it is cancelled.
    pub(crate) obeys: bool,
}

/// A form with one whole number.
pub(crate) fn form() -> Value {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"] });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "How much?", "requestedSchema": schema } })
}

/// A page to be opened.
pub(crate) fn page() -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "Log in.", "url": "https://bank.example/login" } })
}

pub(crate) fn paid() -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": "paid" }] })
}

impl Slow {
    /// Answers a call; also whether it executed something.
    pub(crate) fn call(&mut self, params: &Value) -> (Value, bool) {
        let key = params["_meta"][aether::mcp::KEY_FIELD].clone();
        self.keys.push(key.clone());
        if self.busy > 0 {
            self.busy -= 1;
            return (json!({ "resultType": "input_required", "requestState": "s0" }), false);
        }
        let state = params["requestState"].as_str().unwrap_or("s0");
        let round: usize = state[1..].parse().unwrap();
        if round > 0 {
            self.answers.push((state.to_owned(), params["inputResponses"].clone()));
        }
        if let Some(requests) = self.rounds.get(round) {
            let mut asks =
                json!({ "resultType": "input_required", "requestState": format!("s{}", round + 1) });
            if requests.as_object().is_some_and(|requests| !requests.is_empty()) {
                asks["inputRequests"] = requests.clone();
            }
            return (asks, false);
        }
        let declined = params["inputResponses"].as_object().into_iter().flatten();
        if declined.into_iter().any(|(_, answer)| answer["action"] != "accept") {
            let content = json!([{ "type": "text", "text": "nobody agreed" }]);
            return (json!({ "resultType": "complete", "content": content, "isError": true }), false);
        }
        let is_new = self.done.insert(key.to_string()) || !self.dedups;
        match &self.task {
            Some(task) => {
                let mut began = told(task, "working");
                began["resultType"] = "task".into();
                (began, is_new)
            }
            None => (paid(), is_new),
        }
    }

    /// Answers what is asked about the task; `None` where it is not known.
    pub(crate) fn about_task(&mut self, method: &str, params: &Value) -> Option<Value> {
        let task = self.task.clone()?;
        assert_eq!(params["taskId"], "t1");
        match method {
            "tasks/update" => {
                self.updates.push(params["inputResponses"].clone());
                Some(json!({ "resultType": "complete" }))
            }
            "tasks/cancel" => {
                self.cancels += 1;
                Some(json!({ "resultType": "complete" }))
            }
            _ => {
                self.looks += 1;
                self.seen(&task)
            }
        }
    }

    fn seen(&self, task: &Task) -> Option<Value> {
        if self.cancels > 0 && task.obeys {
            return Some(told(task, "cancelled"));
        }
        if self.looks <= task.working {
            return Some(told(task, "working"));
        }
        if let (Some(asks), true) = (&task.asks, self.updates.len() <= self.deaf) {
            let mut asking = told(task, "input_required");
            asking["inputRequests"] = asks.clone();
            return Some(asking);
        }
        let end = task.end.as_object()?;
        let mut ended = told(task, "");
        for (name, value) in end {
            ended[name] = value.clone();
        }
        Some(ended)
    }
}

fn told(task: &Task, status: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({
        "resultType": "complete", "taskId": "t1", "status": status, "createdAt": at, "lastUpdatedAt": at,
        "ttlMs": 3_600_000, "pollIntervalMs": task.poll_ms,
    })
}
