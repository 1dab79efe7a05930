//! Groups of words by their length, in the map that itertools returns
//! how: hash

use aether::prelude::*;
use itertools::Itertools as _;

fn by_length(words: &[&str]) -> String {
    words
        .iter()
        .into_group_map_by(|word| word.len())
        .into_values()
        .map(|group| group.into_iter().join("+"))
        .join(" ")
}

#[workflow]
pub async fn groups_of_itertools(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(by_length(&["a", "bb", "cc", "ddd", "eeee", "fffff", "gggggg"]))
}
