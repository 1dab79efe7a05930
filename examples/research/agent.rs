//! The agent itself: one question, one model, four tools.

use std::path::PathBuf;

use aether::llm::ChatMessage;
use aether::prelude::*;
use serde::{Deserialize, Serialize};

use crate::report::Receipt;
use crate::tools;

/// How often the model may be asked in one run.
const MAX_TURNS: u32 = 24;

const RULES: &str = "\
You research one question about a source tree. Use the tools: look around with list_files, find places with \
search_text, and read them with read_slice before you claim anything. Give file:line for every claim. When the \
evidence is complete, call write_report exactly once, then answer in two or three sentences.";

/// The input of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Brief {
    /// The question.
    pub(crate) question: String,
    /// The folder to look in.
    pub(crate) tree: PathBuf,
    /// Where the report goes.
    pub(crate) report: PathBuf,
}

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// The model's final answer.
    pub(crate) answer: String,
    /// The report.
    pub(crate) report: Receipt,
    /// How often the model was asked.
    pub(crate) turns: u32,
}

/// Answer a question about a source tree, with a report.
#[workflow]
pub(crate) async fn research(cx: &mut Cx, brief: Brief) -> Result<Findings> {
    let question = format!("Question: {}", brief.question);
    let agent = cx.agent("research").system(RULES).tools(tools::all()).max_turns(MAX_TURNS);
    let done = agent.run(question).await?;
    let report = match written(&done.transcript) {
        Some(receipt) => receipt,
        // A model may forget to call it. Its answer is then the report.
        None => tools::write_report(cx, brief.question, done.answer.clone()).await?,
    };
    Ok(Findings { answer: done.answer, report, turns: done.turns })
}

/// The receipt that the model got for its report.
fn written(transcript: &[ChatMessage]) -> Option<Receipt> {
    transcript.iter().find_map(|message| match message {
        ChatMessage::Tool { name, content, .. } if name == "write_report" => {
            serde_json::from_str(content).ok()
        }
        _ => None,
    })
}
