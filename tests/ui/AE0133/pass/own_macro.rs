#![deny(warnings)]

use aether::prelude::*;

macro_rules! event {
    ($list:ident, $value:expr) => {
        $list.push($value)
    };
}

#[workflow(macros(event))]
async fn work(_cx: &mut Cx, mut queue: Vec<u32>) -> Result<Vec<u32>> {
    let mut popped = Vec::new();
    event!(popped, queue.pop());
    Ok(popped.into_iter().flatten().collect())
}

#[step(effect = "read")]
async fn look(_cx: &mut StepCx, mut queue: Vec<u32>) -> Result<Vec<u32>> {
    tracing::info!(job = ?queue.pop(), "recorded, and not computed again");
    Ok(queue)
}

fn main() {}
