//! An agent drafts an answer.

use aether::agent::Parallel;
use aether::prelude::*;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};
use support_types::{Ticket, text};

use crate::steps::{article, past_tickets, solved_tickets};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drafted {
    pub text: String,
    pub confident: bool,
    pub like: Vec<u64>,
}

/// The three solved tickets that are most like this one.
fn most_alike(ticket: &Ticket, solved: &[Ticket]) -> Vec<u64> {
    let likeness = |other: &Ticket| text::likeness(&ticket.text, &other.text);
    let scored = solved.iter().map(|other| (std::cmp::Reverse(likeness(other)), other.number));
    scored.filter(|(likeness, _)| likeness.0 >= 20).sorted().take(3).map(|(_, number)| number).collect()
}

/// The text of an answer, and whether its last line says that the model is sure.
fn read(answer: &str) -> anyhow::Result<(String, bool)> {
    let (body, last) =
        answer.trim().rsplit_once('\n').ok_or_else(|| anyhow::anyhow!("an answer of one line"))?;
    match last.trim().strip_prefix("sure: ").map(str::trim) {
        Some("yes") => Ok((body.trim().to_owned(), true)),
        Some("no") => Ok((body.trim().to_owned(), false)),
        _ => anyhow::bail!("`{}` does not say whether it is sure", text::shortened(last, 40)),
    }
}

/// Draft an answer to a ticket.
#[workflow]
pub async fn draft_answer(cx: &mut Cx, ticket: Ticket) -> Result<Drafted> {
    let like = match ticket.status.team() {
        Some(team) => most_alike(&ticket, &solved_tickets(cx, team).await?),
        None => Vec::new(),
    };
    let system = "You draft answers of a help desk. End with a line `sure: yes` or `sure: no`.";
    let prompt = format!("{}\n\n{}\n\nLike tickets: {}", ticket.subject, ticket.text, like.iter().join(", "));
    let agent = cx.agent("drafter").system(system).tools((article::tool(), past_tickets::tool()));
    let report = agent.parallel(Parallel::Reads).max_turns(6).run(prompt).await?;
    let (text, confident) = read(&report.answer).unwrap_or_else(|error| {
        tracing::warn!(ticket = ticket.number, %error, "taken as it is");
        (report.answer.clone(), false)
    });
    Ok(Drafted { text, confident, like })
}
