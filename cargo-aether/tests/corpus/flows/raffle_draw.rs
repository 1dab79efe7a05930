//! Winners are drawn by a generator with a recorded seed
//! how: clean

use aether::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrant {
    name: String,
    tickets: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Drawn {
    seed: String,
    winners: Vec<String>,
}

/// Everybody once for each ticket.
fn urn(entrants: &[Entrant]) -> Vec<&str> {
    let tickets = entrants
        .iter()
        .flat_map(|entrant| std::iter::repeat_n(entrant.name.as_str(), entrant.tickets.into()));
    tickets.collect()
}

fn draw(entrants: &[Entrant], prizes: usize, seed: [u8; 32]) -> Vec<String> {
    let mut generator = StdRng::from_seed(seed);
    let mut urn = urn(entrants);
    urn.shuffle(&mut generator);
    let mut winners: Vec<String> = Vec::new();
    for name in urn {
        if winners.len() == prizes {
            break;
        }
        if !winners.iter().any(|winner| winner == name) {
            winners.push(name.to_owned());
        }
    }
    winners
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn raffle_draw_announce(_cx: &mut StepCx, place: usize, winner: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn raffle_draw(cx: &mut Cx, mut entrants: Vec<Entrant>, prizes: usize) -> Result<Drawn> {
    entrants.sort_by(|a, b| a.name.cmp(&b.name));
    let seed = cx.seed().await;
    let winners = draw(&entrants, prizes, seed);
    for (place, winner) in winners.iter().enumerate() {
        raffle_draw_announce(cx, place + 1, winner).await?;
    }
    Ok(Drawn { seed: hex::encode(seed), winners })
}
