//! Tickets of a hash map, sorted by a field that has the type of the map's keys
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

struct Ticket {
    customer: String,
    text: String,
}

fn by_customer(tickets: &HashMap<String, Ticket>) -> Vec<&str> {
    let mut all: Vec<_> = tickets.iter().collect();
    all.sort_by(|a, b| a.1.customer.cmp(&b.1.customer));
    all.into_iter().map(|(_, ticket)| ticket.text.as_str()).collect()
}

fn tickets(count: u64) -> HashMap<String, Ticket> {
    let ticket = |id: u64| Ticket { customer: format!("c{}", id % 2), text: format!("t{id}") };
    (0..count).map(|id| (id.to_string(), ticket(id))).collect()
}

#[workflow]
pub async fn ties_of_a_customer(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(by_customer(&tickets(count)).join(", "))
}
