//! A branch for each element of what a helper gives, which is a set
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;

/// Look somebody up.
#[step(effect = "read")]
pub async fn look_up(_cx: &mut StepCx, name: &str) -> Result<u64> {
    Ok(name.len() as u64)
}

fn names(count: u64) -> impl IntoIterator<Item = String> {
    (0..count).map(|n| format!("name {n}")).collect::<HashSet<String>>()
}

#[workflow]
pub async fn branches_for_a_set(cx: &mut Cx, _input: u64) -> Result<u64> {
    let count = cx.random().await % 5 + 5;
    let found = cx.each(names(count), async |cx: &mut Cx, name: String| look_up(cx, &name).await).await;
    Ok(found.len() as u64)
}
