//! The view for people: what an agent did and its current status, without what is internal to the system.
//!
//! Promise: no idempotency key, no actor, no threshold (timeouts, limits, retry settings) and no system prompt of a
//! model call is in it. Who must see those reads [`RunView::audit`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::view::execution::{Execution, Purpose};
use crate::view::retrying::Retrying;
use crate::view::run::RunView;
use crate::vocabulary::contract::Status;
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;

/// Fields of a model call's input that hold instructions to the model, or how it is run.
const HIDDEN: [&str; 8] = [
    "system",
    "system_prompt",
    "system_instruction",
    "instructions",
    "max_tokens",
    "temperature",
    "response_schema",
    "tools",
];

/// One run as the people who use it see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeopleView {
    /// Id of the run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Its current status.
    pub status: Status,
    /// Since when it is being ended at somebody's request, while it is still open.
    #[serde(default)]
    pub ending_since: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// Input of its workflow.
    pub input: Option<Value>,
    /// Its value, once it ended with one that is not `null`.
    pub result: Option<Value>,
    /// Why the run failed.
    pub error: Option<String>,
    /// What it did, in the order of its steps' contracts.
    pub steps: Vec<PeopleStep>,
}

/// One execution as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeopleStep {
    /// Command id of the step.
    pub step: CommandId,
    /// Whether it makes the call, or asks a person for consent to it.
    pub purpose: Purpose,
    /// What kind of contact with the world it is.
    pub kind: EffectClass,
    /// Its current status.
    pub status: Status,
    /// When it entered that status.
    pub since: Timestamp,
    /// Whether it cannot be undone or repeated.
    pub irreversible: bool,
    /// Whether it is known to have changed the world.
    pub world_changed: bool,
    /// Whether it was started and its outcome is unknown.
    pub in_doubt: bool,
    /// Which attempt comes next and why, while the step is being tried again.
    #[serde(default)]
    pub retrying: Option<Retrying>,
    /// The arguments, as a person edited them where one did.
    pub asked: Option<Value>,
    /// Its value, where that is not `null`.
    pub result: Option<Value>,
    /// Why it has no value.
    pub error: Option<String>,
    /// Its transitions: when it entered which status.
    pub moves: Vec<(Timestamp, Status)>,
}

impl RunView {
    /// What the people who use this run may see.
    ///
    /// ```
    /// # use aether_core::view::RunView;
    /// # fn show(view: &RunView) {
    /// for step in view.for_people().steps {
    ///     println!("{} is {} since {}", step.step, step.status, step.since);
    /// }
    /// # }
    /// ```
    pub fn for_people(&self) -> PeopleView {
        let keys = self.keys();
        let steps = self.executions.iter().map(|execution| self.person_sees(execution, &keys)).collect();
        PeopleView { steps, ..self.summary_for_people() }
    }

    /// What a person sees of the run itself; its steps are left out.
    pub fn summary_for_people(&self) -> PeopleView {
        let keys = self.keys();
        let (result, error) = shown(self.result.as_ref(), &keys);
        PeopleView {
            run: self.run.clone(),
            workflow: self.workflow.clone(),
            status: self.status,
            ending_since: self.ending.as_ref().map(|ending| ending.since),
            created_at: self.lifecycle.created.at,
            updated_at: self.lifecycle.updated_at,
            input: shown(self.input.clone().map(Ok).as_ref(), &keys).0,
            result,
            error,
            steps: Vec::new(),
        }
    }

    /// What a person sees of the executions of one command, in the order in which their contracts were made: of a long run
    /// this takes far less time than [`RunView::for_people`].
    pub fn step_for_people(&self, command: &CommandId) -> Vec<PeopleStep> {
        let keys = self.keys();
        let own = self.executions.iter().filter(|execution| execution.command == *command);
        own.map(|execution| self.person_sees(execution, &keys)).collect()
    }

    fn keys(&self) -> Vec<&str> {
        let kept = self.executions.iter().filter_map(|e| e.key.as_ref());
        let mut keys: Vec<_> = kept.chain(self.keys_elsewhere()).map(|key| key.as_str()).collect();
        // Longest first: a key may be the beginning of another one.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        keys
    }

    fn person_sees(&self, execution: &Execution, keys: &[&str]) -> PeopleStep {
        let step = self.step(&execution.command);
        let newest = self.newest.get(execution.command.as_str()).and_then(|at| self.executions.get(*at));
        let is_newest = newest.is_some_and(|newest| newest.id == execution.id);
        let (result, error) = match step.filter(|_| is_newest) {
            Some(step) => shown(step.result.as_ref(), keys),
            None => (None, execution.error.as_ref().map(|error| hidden_in(error, keys))),
        };
        PeopleStep {
            step: execution.command.clone(),
            purpose: execution.purpose,
            kind: execution.class,
            status: execution.lifecycle.status,
            since: execution.lifecycle.updated_at,
            irreversible: execution.constraints.irreversible,
            world_changed: execution.world_changed,
            in_doubt: is_newest && step.is_some_and(|step| step.in_doubt),
            retrying: step.filter(|_| is_newest).and_then(|step| {
                let retrying = step.retrying()?;
                let error = hidden_in(&error_for_people(&step.last_failure.as_ref()?.error), keys);
                Some(Retrying { error, ..retrying })
            }),
            asked: step.and_then(|step| step.edited.as_ref().or(step.input.as_ref())).map(|input| {
                let asked = value(input);
                without_keys(
                    if execution.class == EffectClass::Llm { unprompted(asked) } else { asked },
                    keys,
                )
            }),
            result,
            error,
            moves: execution.lifecycle.transitions.iter().map(|moved| (moved.moment.at, moved.to)).collect(),
        }
    }
}

fn value(payload: &Payload) -> Value {
    payload.decode().unwrap_or_else(|_| Value::String(payload.as_str().to_owned()))
}

/// A recorded result, without keys and thresholds: a value, or why there is none.
fn shown(result: Option<&Result<Payload, Payload>>, keys: &[&str]) -> (Option<Value>, Option<String>) {
    match result {
        None => (None, None),
        Some(Ok(given)) => (Some(without_keys(value(given), keys)).filter(|given| !given.is_null()), None),
        Some(Err(error)) => (None, Some(hidden_in(&error_for_people(error), keys))),
    }
}

/// The text of a recorded error. Errors whose text would reveal a limit get another one.
fn error_for_people(error: &Payload) -> String {
    match error.decode::<StepError<Payload>>() {
        Ok(StepError::TimedOut(_)) => "there was no answer in time".into(),
        Ok(StepError::Unrecordable(_)) => "the result could not be kept".into(),
        Ok(StepError::InDoubt(_)) => "it is not known whether it happened".into(),
        _ => error_text(error),
    }
}

/// A model call's input, without what was not written by the user.
fn unprompted(asked: Value) -> Value {
    match asked {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !HIDDEN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name, unprompted(value))).collect())
        }
        Value::Array(items) => {
            let by_system = |item: &Value| {
                matches!(item.get("role").and_then(Value::as_str), Some("system" | "developer"))
            };
            Value::Array(items.into_iter().filter(|item| !by_system(item)).map(unprompted).collect())
        }
        other => other,
    }
}

fn without_keys(shown: Value, keys: &[&str]) -> Value {
    match shown {
        Value::String(text) => Value::String(hidden_in(&text, keys)),
        Value::Array(items) => items.into_iter().map(|item| without_keys(item, keys)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (hidden_in(&name, keys), without_keys(value, keys)))
                .collect(),
        ),
        other => other,
    }
}

fn hidden_in(text: &str, keys: &[&str]) -> String {
    if !text.contains("aether:") {
        return text.to_owned();
    }
    keys.iter().fold(text.to_owned(), |text, key| text.replace(key, "…"))
}
