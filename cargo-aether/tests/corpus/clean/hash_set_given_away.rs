//! Hash collections that are given to what sorts them, or counts
//! how: clean

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use aether::prelude::*;

fn guests(
    invited: &[&'static str],
    friends: HashSet<&'static str>,
    seats: HashMap<&'static str, u8>,
) -> String {
    let count = invited.iter().chain(&friends).count();
    let both: BTreeSet<_> = invited.iter().chain(&friends).copied().collect();
    let mut sorted = Vec::from_iter(friends.clone());
    sorted.sort_unstable();
    let mut by_name: BTreeMap<_, _> = invited.iter().map(|name| (*name, 0)).collect();
    by_name.extend(seats);
    let mut all = BTreeSet::from_iter(friends);
    all.extend(by_name.keys());
    format!("{count} {both:?} {sorted:?} {by_name:?} {all:?}")
}

#[workflow]
pub async fn hash_set_given_away(cx: &mut Cx, _input: u64) -> Result<String> {
    let seat = (cx.random().await % 20) as u8;
    let friends = ["c", "d", "e", "f", "g"].into_iter().collect();
    Ok(guests(&["a", "b", "c"], friends, [("a", seat), ("f", 3), ("k", 7)].into_iter().collect()))
}
