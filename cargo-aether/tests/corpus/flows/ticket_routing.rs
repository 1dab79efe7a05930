//! A hash map in a helper is only looked up in, never walked
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ticket {
    id: u64,
    text: String,
    plan: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Team {
    Billing,
    Technical,
    Sales,
    General,
}

fn keywords() -> HashMap<&'static str, (Team, u32)> {
    HashMap::from([
        ("invoice", (Team::Billing, 3)),
        ("refund", (Team::Billing, 4)),
        ("crash", (Team::Technical, 4)),
        ("error", (Team::Technical, 2)),
        ("login", (Team::Technical, 2)),
        ("upgrade", (Team::Sales, 3)),
        ("price", (Team::Sales, 2)),
    ])
}

/// The team whose words weigh most; of equal ones, the first in the order of the teams.
fn team_for(text: &str) -> Team {
    let known = keywords();
    let mut scores = [(Team::Billing, 0), (Team::Technical, 0), (Team::Sales, 0)];
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if let Some((team, weight)) = known.get(word.to_lowercase().as_str()) {
            for (scored, score) in &mut scores {
                if scored == team {
                    *score += weight;
                }
            }
        }
    }
    scores.sort_by_key(|(team, score)| (std::cmp::Reverse(*score), *team));
    if scores[0].1 == 0 { Team::General } else { scores[0].0 }
}

fn priority(plan: &str) -> u8 {
    let plans: HashMap<&str, u8> = [("free", 0), ("team", 1), ("enterprise", 2)].into();
    plans.get(plan).copied().unwrap_or_default()
}

#[step(effect = "tool", idempotent)]
pub async fn ticket_routing_assign(
    _cx: &mut StepCx,
    ticket: u64,
    team: Team,
    priority: u8,
) -> Result<String> {
    Ok(format!("{ticket} to {team:?}"))
}

#[workflow]
pub async fn ticket_routing(cx: &mut Cx, ticket: Ticket) -> Result<Team> {
    let team = team_for(&ticket.text);
    let person = ticket_routing_assign(cx, ticket.id, team, priority(&ticket.plan)).await?;
    tracing::info!(ticket = ticket.id, ?team, person, "routed");
    Ok(team)
}
