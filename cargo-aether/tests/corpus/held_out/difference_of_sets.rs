//! What one set has and the other has not
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;

fn missing(wanted: &[&'static str], present: &[&'static str]) -> String {
    let wanted: HashSet<_> = wanted.iter().copied().collect();
    let present = HashSet::from_iter(present.iter().copied());
    (&wanted - &present).into_iter().collect::<Vec<_>>().join(", ")
}

#[workflow]
pub async fn difference_of_sets(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(missing(&["a", "b", "c", "d", "e", "f", "g"], &["c"]))
}
