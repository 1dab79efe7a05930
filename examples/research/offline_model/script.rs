//! What the offline model says: from the conversation so far to its next reply.
//!
//! Promise: a pure function. It takes search words from the question, searches for each, reads the most promising
//! places, quotes them in a report, and says where the report is.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::evidence::{Evidence, title, words};
use crate::report::Receipt;
use crate::tree::{Hits, Slice};

/// Lines of context that are read before and after a hit.
const BEFORE: usize = 4;
const LINES: usize = 18;

/// One message as the protocol has it; what the script does not need is left out.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    role: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<WireCall>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    id: String,
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
}

/// What the model says next.
#[derive(Debug)]
pub(super) enum Reply {
    /// Its final answer.
    Text(String),
    /// Tools to be called.
    Calls(Vec<Call>),
}

/// A tool to be called.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) arguments: Value,
}

/// What is known so far.
struct Talk(Vec<Message>);

impl Talk {
    fn question(&self) -> &str {
        let asked = self.0.iter().find(|message| message.role == "user");
        let text = asked.and_then(|message| message.content.as_deref()).unwrap_or_default();
        text.trim().strip_prefix("Question:").unwrap_or(text).trim()
    }

    fn called(&self, tool: &str) -> bool {
        self.0.iter().flat_map(|message| &message.tool_calls).any(|call| call.function.name == tool)
    }

    /// What a tool answered, wherever the answer has the right shape: an error is not evidence.
    fn answers<T: DeserializeOwned>(&self, tool: &str) -> Vec<T> {
        let calls = self.0.iter().flat_map(|message| &message.tool_calls);
        let ids: BTreeSet<&str> = calls.filter(|c| c.function.name == tool).map(|c| c.id.as_str()).collect();
        let answers_one =
            |message: &&Message| message.tool_call_id.as_deref().is_some_and(|id| ids.contains(id));
        let texts = self.0.iter().filter(answers_one).filter_map(|message| message.content.as_deref());
        texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
    }

    fn calls(&self, name: &'static str, arguments: impl IntoIterator<Item = Value>) -> Reply {
        let id = |number: usize| format!("call-{}-{number}", self.0.len());
        let arguments = arguments.into_iter().enumerate();
        Reply::Calls(arguments.map(|(n, arguments)| Call { id: id(n), name, arguments }).collect())
    }
}

/// The next reply.
pub(super) fn next(messages: Vec<Message>) -> Reply {
    let talk = Talk(messages);
    let question = talk.question();
    if !talk.called("list_files") {
        return talk.calls("list_files", [json!({})]);
    }
    if !talk.called("search_text") {
        return talk.calls("search_text", words(question).into_iter().map(|word| json!({ "text": word })));
    }
    let mut evidence = Evidence::of(question, talk.answers::<Hits>("search_text"));
    if !talk.called("read_slice") && !evidence.places.is_empty() {
        let around = evidence.places.iter().map(|place| {
            let first = place.line.saturating_sub(BEFORE).max(1);
            json!({ "path": place.path, "first": first, "lines": LINES })
        });
        return talk.calls("read_slice", around);
    }
    evidence.slices = talk.answers::<Slice>("read_slice");
    if !talk.called("write_report") {
        let report = json!({ "title": title(question), "markdown": evidence.report() });
        return talk.calls("write_report", [report]);
    }
    Reply::Text(last_words(&evidence, talk.answers::<Receipt>("write_report").first()))
}

fn last_words(evidence: &Evidence, receipt: Option<&Receipt>) -> String {
    let Some(receipt) = receipt else {
        return "The report could not be written.".into();
    };
    let written = format!("The report is in {}.", receipt.path.display());
    match evidence.best() {
        Some(best) => format!("{best}\n{written}"),
        None => format!("Nothing in the tree has the words of the question. {written}"),
    }
}
