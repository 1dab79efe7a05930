//! Bids come as signals until the deadline, which late bids move
//! how: clean

use std::time::Duration;

use aether::jiff::{SignedDuration, Timestamp};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bid {
    bidder: String,
    cents: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lot {
    name: String,
    reserve_cents: u64,
    ends: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Hammer {
    Sold { to: String, cents: u64, bids: usize },
    Unsold,
}

fn step_above(cents: u64) -> u64 {
    match cents {
        0..=99_99 => cents + 5_00,
        100_00..=999_99 => cents + 20_00,
        _ => cents + cents / 20,
    }
}

#[step(effect = "tool", idempotent)]
pub async fn auction_tell(_cx: &mut StepCx, bidder: &str, text: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn auction(cx: &mut Cx, lot: Lot) -> Result<Hammer> {
    let mut ends = lot.ends;
    let mut bids: Vec<Bid> = Vec::new();
    loop {
        let now = cx.now().await;
        let Ok(left) = Duration::try_from(ends.duration_since(now)) else { break };
        let bid: Bid = match cx.signal("bid").timeout(left).await {
            Ok(bid) => bid,
            Err(StepError::TimedOut(_)) => break,
            Err(other) => return Err(other.into()),
        };
        let highest = bids.last();
        if bid.cents < highest.map_or(1_00, |highest| step_above(highest.cents)) {
            auction_tell(cx, &bid.bidder, "your bid is too low").await?;
            continue;
        }
        if let Some(outbid) = highest.filter(|highest| highest.bidder != bid.bidder) {
            auction_tell(cx, &outbid.bidder, &format!("{} was bid for {}", bid.cents, lot.name)).await?;
        }
        bids.push(bid);
        let extended = cx.now().await.checked_add(SignedDuration::from_mins(2)).in_context("the new end")?;
        ends = ends.max(extended);
    }
    Ok(match bids.last() {
        Some(best) if best.cents >= lot.reserve_cents => {
            Hammer::Sold { to: best.bidder.clone(), cents: best.cents, bids: bids.len() }
        }
        _ => Hammer::Unsold,
    })
}
