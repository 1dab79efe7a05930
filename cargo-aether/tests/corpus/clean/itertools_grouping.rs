//! Rows that are grouped, sorted and merged by itertools
//! how: clean

use aether::prelude::*;
use either::Either;
use itertools::Itertools;

fn report(rows: &[(String, u32)]) -> String {
    let sorted = rows.iter().sorted_by_key(|(name, amount)| (name.as_str(), std::cmp::Reverse(*amount)));
    let groups = sorted.chunk_by(|(name, _)| name.as_str());
    groups
        .into_iter()
        .map(|(name, group)| format!("{name}: {}", group.map(|(_, amount)| amount).join("+")))
        .join("; ")
}

fn numbers(down: bool) -> impl Iterator<Item = u32> {
    if down { Either::Left((1..8).rev()) } else { Either::Right((1..15).step_by(2)) }
}

#[workflow]
pub async fn itertools_grouping(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = cx.random().await;
    let rows = numbers(seed % 2 == 0).map(|n| (format!("team {}", (seed >> n) % 3), n)).collect_vec();
    let counts = rows.iter().counts_by(|(name, _)| name.len());
    let pairs = rows.iter().map(|(_, n)| n).tuple_windows().filter(|(a, b)| a < b).count();
    Ok(format!("{} {pairs} {}", report(&rows), counts.values().sum::<usize>()))
}
