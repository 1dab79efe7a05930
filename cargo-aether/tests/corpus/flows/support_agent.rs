//! An agent with tools answers a ticket within turns and tokens
//! how: clean

use aether::agent::{Parallel, Progress};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Ticket {
    from: String,
    subject: String,
    text: String,
    tags: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Answered {
    letter: String,
    turns: u32,
    stopped: bool,
}

/// Search the archive of tickets.
#[step(effect = "read")]
pub async fn support_agent_search(_cx: &mut StepCx, query: &str) -> Result<Vec<String>> {
    Ok(vec![format!("about {query}")])
}

/// Give a customer a credit. A person agrees above 20.00.
#[step(effect = "tool", approval = |cents| *cents > 20_00)]
pub async fn support_agent_credit(_cx: &mut StepCx, customer: &str, cents: u64) -> Result<String> {
    Ok(format!("{cents} cents for {customer}"))
}

fn prompt(ticket: &Ticket) -> String {
    let mut tags = ticket.tags.clone();
    tags.sort_unstable();
    tags.dedup();
    format!(
        "From: {}\nSubject: {}\nTags: {}\n\n{}",
        ticket.from,
        ticket.subject,
        tags.join(", "),
        ticket.text.trim()
    )
}

#[workflow]
pub async fn support_agent(cx: &mut Cx, ticket: Ticket) -> Result<Answered> {
    let report = cx
        .agent("support")
        .system("You answer customers politely and briefly.")
        .tools((support_agent_search::tool(), support_agent_credit::tool()))
        .parallel(Parallel::Reads)
        .max_turns(8)
        .stop_when(|so_far: &Progress<'_>| so_far.usage.total() > 50_000)
        .run(prompt(&ticket))
        .await?;
    if report.stopped {
        tracing::warn!(turns = report.turns, "stopped by the limit on tokens");
    }
    Ok(Answered { letter: report.answer, turns: report.turns, stopped: report.stopped })
}
