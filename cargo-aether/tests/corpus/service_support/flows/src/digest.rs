//! What a week was about.

use std::collections::BTreeMap;

use aether::prelude::*;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};
use support_types::{Priority, Team, Ticket, text};

use crate::desk::as_chrono;
use crate::steps::{send_mail, tickets_of_week};

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Digest {
    pub by_team: BTreeMap<Team, usize>,
    pub urgent: Vec<u64>,
    pub text: String,
}

fn counted(tickets: &[Ticket]) -> BTreeMap<Team, usize> {
    let counts = tickets.iter().filter_map(|ticket| ticket.status.team()).counts();
    counts.into_iter().collect()
}

fn table(by_team: &BTreeMap<Team, usize>) -> String {
    let widest = by_team.keys().map(|team| format!("{team:?}").len()).max().unwrap_or(0);
    by_team.iter().map(|(team, count)| format!("{:<widest$} {count:>5}", format!("{team:?}"))).join("\n")
}

/// Sum up the tickets of a week by teams, and send that to those who want to know.
#[workflow]
pub async fn weekly_digest(cx: &mut Cx, readers: Vec<String>) -> Result<Digest> {
    let tick = match cx.scheduled_for() {
        Some(tick) => tick,
        None => cx.now().await,
    };
    let tickets = tickets_of_week(cx, as_chrono(tick)?).await?;
    let by_team = counted(&tickets);
    let parts: Vec<(Team, String)> = by_team
        .keys()
        .map(|team| {
            let own = tickets.iter().filter(|ticket| ticket.status.team() == Some(*team));
            (*team, own.map(|ticket| text::shortened(&ticket.subject, 80)).join("\n"))
        })
        .collect();
    let budget = Budget::new().named("digest").tokens(20_000);
    let summaries = cx
        .budget(budget)
        .each(parts, async |cx: &mut Cx, (team, subjects)| {
            let question = format!("In one sentence, what are these about?\n{subjects}");
            match cx.llm("digest").user(question).max_tokens(100).text().await {
                Ok(sentence) => format!("{team:?}: {}", sentence.trim()),
                Err(error) => format!("{team:?}: no summary ({error})"),
            }
        })
        .limit(2)
        .await;
    let urgent =
        tickets.iter().filter(|t| t.priority == Priority::Urgent).map(|t| t.number).sorted().collect();
    let text = format!("{}\n\n{}", table(&by_team), summaries.join("\n"));
    for reader in readers.iter().unique() {
        send_mail(cx, reader, "The week", &text).await?;
    }
    Ok(Digest { by_team, urgent, text })
}
