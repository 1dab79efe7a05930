//! A hash set in a field of what a step is given
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

/// Recorded as a list, in the order of the set.
#[derive(Clone, Serialize, Deserialize)]
pub struct Ticket {
    id: u64,
    tags: HashSet<String>,
}

fn ticket(id: u64) -> Ticket {
    let tags = ["billing", "refund", "urgent", "vip"].map(str::to_owned);
    Ticket { id, tags: tags.into() }
}

#[step(effect = "tool", idempotent)]
pub async fn set_in_a_field_file(_cx: &mut StepCx, ticket: Ticket) -> Result<u64> {
    Ok(ticket.id)
}

#[workflow]
pub async fn set_in_a_field(cx: &mut Cx, input: u64) -> Result<String> {
    let filed = set_in_a_field_file(cx, ticket(input)).await?;
    Ok(format!("filed as {filed}"))
}
