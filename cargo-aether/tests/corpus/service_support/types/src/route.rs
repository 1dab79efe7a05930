//! Which team a ticket goes to.

use std::collections::HashMap;

use crate::ticket::{Plan, Priority, Team, Ticket};

/// Something that has an opinion on where a ticket belongs.
pub trait Router {
    fn votes(&self, ticket: &Ticket) -> Vec<(Team, u32)>;
}

/// By words in the text.
pub struct Words(HashMap<&'static str, (Team, u32)>);

/// By the product that the mail names.
pub struct Products;

impl Default for Words {
    fn default() -> Self {
        Self(HashMap::from([
            ("invoice", (Team::Billing, 3)),
            ("refund", (Team::Billing, 3)),
            ("charged", (Team::Billing, 2)),
            ("crash", (Team::Technical, 3)),
            ("error", (Team::Technical, 2)),
            ("slow", (Team::Technical, 1)),
            ("leak", (Team::Security, 5)),
            ("vulnerability", (Team::Security, 8)),
        ]))
    }
}

impl Router for Words {
    fn votes(&self, ticket: &Ticket) -> Vec<(Team, u32)> {
        let words = ticket.subject.split_whitespace().chain(ticket.text.split_whitespace());
        let plain = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
        plain.filter_map(|word| self.0.get(word.as_str()).copied()).collect()
    }
}

impl Router for Products {
    fn votes(&self, ticket: &Ticket) -> Vec<(Team, u32)> {
        match ticket.fields.get("x-product").map(String::as_str) {
            Some("checkout" | "invoices") => vec![(Team::Billing, 2)],
            Some(_) => vec![(Team::Technical, 1)],
            None => Vec::new(),
        }
    }
}

/// The team with the most votes; of those with equal ones, the first.
pub fn team<'r>(ticket: &Ticket, routers: impl IntoIterator<Item = &'r dyn Router>) -> Team {
    let mut votes: HashMap<Team, u32> = HashMap::new();
    for (team, weight) in routers.into_iter().flat_map(|router| router.votes(ticket)) {
        *votes.entry(team).or_default() += weight;
    }
    let mut ranked: Vec<(Team, u32)> = votes.into_iter().collect();
    ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.first().map_or(Team::General, |(team, _)| *team)
}

pub fn priority(ticket: &Ticket, team: Team) -> Priority {
    let raised = match (team, ticket.plan) {
        (Team::Security, _) => Priority::Urgent,
        (_, Plan::Enterprise) => Priority::High,
        (_, Plan::Team) => Priority::Normal,
        (_, Plan::Free) => Priority::Low,
    };
    raised.max(ticket.priority)
}
