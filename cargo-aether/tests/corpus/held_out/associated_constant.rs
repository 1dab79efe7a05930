//! A strategy in an associated constant, a function pointer
//! how: random

use aether::prelude::*;

trait Policy {
    const PICK: fn(usize) -> usize;
}

struct First;
struct Anyone;

impl Policy for First {
    const PICK: fn(usize) -> usize = |_| 0;
}

impl Policy for Anyone {
    const PICK: fn(usize) -> usize = |length| fastrand::usize(..length);
}

fn assign<P: Policy>(people: &[&str]) -> String {
    people[P::PICK(people.len())].to_owned()
}

#[workflow]
pub async fn associated_constant(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(assign::<Anyone>(&["Ada", "Bo", "Cy", "Di", "Eve"]))
}
