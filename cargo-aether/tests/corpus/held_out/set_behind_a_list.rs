//! A sorted list that a set is appended to, and counted with
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;

fn guests(invited: &[&'static str], friends: &[&'static str]) -> (usize, String) {
    let friends: HashSet<_> = friends.iter().copied().collect();
    let count = invited.iter().chain(&friends).count();
    let mut all = invited.to_vec();
    all.sort_unstable();
    all.extend(friends);
    (count, all.join(", "))
}

#[workflow]
pub async fn set_behind_a_list(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (count, names) = guests(&["a", "b"], &["c", "d", "e", "f", "g", "h"]);
    Ok(format!("{count}: {names}"))
}
