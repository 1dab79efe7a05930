//! A first agent hands a customer over to one for invoices, or back
//! how: clean

use aether::agent::{AgentSpec, Compaction};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Conversation {
    customer: String,
    messages: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    by: String,
    text: String,
    tokens: u64,
}

/// Look up an invoice by its number.
#[step(effect = "read")]
pub async fn agent_hand_off_invoice(_cx: &mut StepCx, number: u64) -> Result<String> {
    Ok(format!("invoice {number}: 20.00"))
}

/// Search the manual.
#[step(effect = "read")]
pub async fn agent_hand_off_manual(_cx: &mut StepCx, query: &str) -> Result<String> {
    Ok(format!("chapter about {query}"))
}

fn billing() -> AgentSpec {
    AgentSpec::new("billing")
        .description("Answers what is about invoices.")
        .system("You answer questions about invoices.")
        .tools(agent_hand_off_invoice::tool())
        .hand_off_named("support")
}

fn transcript(conversation: &Conversation) -> String {
    let numbered =
        conversation.messages.iter().enumerate().map(|(n, text)| format!("{}. {}", n + 1, text.trim()));
    let lines: Vec<String> = numbered.collect();
    format!("{} wrote:\n{}", conversation.customer, lines.join("\n"))
}

#[workflow]
pub async fn agent_hand_off(cx: &mut Cx, conversation: Conversation) -> Result<Reply> {
    let report = cx
        .agent("support")
        .description("Answers everything else.")
        .system("You answer customers.")
        .tools(agent_hand_off_manual::tool())
        .hand_off(billing())
        .compact(Compaction::elide_above(30_000))
        .max_turns(12)
        .run(transcript(&conversation))
        .await?;
    let by = report.handed_to().unwrap_or("support").to_owned();
    Ok(Reply { by, tokens: report.usage.total(), text: report.answer })
}
