//! A small simulation with a queue by time and rank
//! how: clean

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use aether::prelude::*;

#[derive(Debug, PartialEq, Eq)]
struct Event {
    at: u64,
    rank: u32,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Arrive,
    Leave,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at).then(self.rank.cmp(&other.rank))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn simulate(seed: u64) -> (u64, usize, usize) {
    let mut queue = BinaryHeap::from([Reverse(Event { at: 0, rank: 0, what: What::Arrive })]);
    let (mut rank, mut inside, mut most, mut clock) = (0, 0_usize, 0, 0);
    while let Some(Reverse(event)) = queue.pop() {
        clock = event.at;
        rank += 2;
        match event.what {
            What::Arrive if rank < 120 => {
                inside += 1;
                most = most.max(inside);
                let gap = seed.rotate_left(rank) % 7;
                let stay = seed.rotate_right(rank) % 23 + 1;
                queue.push(Reverse(Event { at: clock + gap, rank, what: What::Arrive }));
                queue.push(Reverse(Event { at: clock + stay, rank: rank + 1, what: What::Leave }));
            }
            What::Arrive => {}
            What::Leave => inside -= 1,
        }
    }
    (clock, most, inside)
}

#[workflow]
pub async fn heap_event_simulation(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(format!("{:?}", simulate(cx.random().await)))
}
