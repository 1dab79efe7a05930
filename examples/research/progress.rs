//! What the user sees while the agent works: one line for each thing that became part of the journal.

use std::collections::HashMap;
use std::time::Instant;

use aether::effect::Payload;
use aether::engine::Observed;
use aether::id::{CommandId, RunId};
use aether::store::event::Event;
use aether::{Failure, StepError};
use serde_json::Value;

/// Longest text shown of a value, in characters.
const SHOWN: usize = 72;

/// Prints what happens.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    /// What the commands were given.
    open: HashMap<CommandId, String>,
}

impl Progress {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), open: HashMap::new() }
    }

    /// Prints the events of one append, if it is one of `run`.
    pub(crate) fn show(&mut self, observed: &Observed, run: &RunId) {
        if observed.run != *run {
            return;
        }
        for event in observed.events.iter() {
            if let Some(line) = self.line(event) {
                println!("{:>7.2}s  {line}", self.started.elapsed().as_secs_f64());
            }
        }
    }

    fn line(&mut self, event: &Event) -> Option<String> {
        Some(match event {
            Event::RunCreated(_) => "run begun".into(),
            Event::RunRequeued(_) => "run resumed; what is recorded is not done again".into(),
            Event::RunWaiting(_) => "run waits".into(),
            Event::NodeStarted(e) => {
                let input = e.input.as_ref().map(shown).unwrap_or_default();
                self.open.insert(e.command.clone(), input);
                return None;
            }
            Event::CommandEmitted(e) if e.attempt == 0 => "… asking the model".into(),
            Event::CommandEmitted(e) => format!("… asking the model, attempt {}", e.attempt + 1),
            Event::ToolInvocationStarted(e) => format!("! {}: intent recorded, now it may run", e.tool),
            Event::InvocationResolved(e) => {
                format!("? {} was interrupted; {}: {:?}", e.command.name(), e.actor, e.decision)
            }
            Event::StepRetried(e) => {
                format!("↻ {}: attempt {} failed: {}", e.command.name(), e.attempt + 1, why(&e.error))
            }
            Event::TimerScheduled(e) => format!("… waits until {}", e.due),
            Event::CommandCommitted(e) => self.done(&e.command, e.result.as_ref(), e.error.as_ref()),
            Event::RunCompleted(_) => "run completed".into(),
            Event::RunFailed(e) => format!("run failed: {}", e.message),
            _ => return None,
        })
    }

    /// The line of a command that has ended.
    fn done(&mut self, command: &CommandId, result: Option<&Payload>, error: Option<&Payload>) -> String {
        let input = self.open.get(command).map_or("", String::as_str);
        let name = command.name();
        match (error, result) {
            (Some(error), _) => format!("✗ {name} {input}: {}", why(error)),
            (None, Some(result)) if name.starts_with("llm.") => format!("✓ model: {}", answer(result)),
            _ => format!("✓ {name} {input}"),
        }
    }
}

/// What a model answered: the tools it wants, or its text.
fn answer(response: &Payload) -> String {
    let response: Value = response.decode().unwrap_or_default();
    let calls: Vec<&str> = response["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|call| call["name"].as_str())
        .collect();
    match response["content"].as_str() {
        Some(text) if calls.is_empty() => cut(text),
        _ => format!("wants {}", calls.join(", ")),
    }
}

/// A recorded step error, as text.
fn why(error: &Payload) -> String {
    error.decode::<StepError<Failure>>().map_or_else(|_| shown(error), |error| cut(&error.to_string()))
}

fn shown(value: &Payload) -> String {
    cut(value.as_str())
}

fn cut(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c == '\n' { ' ' } else { c }).take(SHOWN).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}
