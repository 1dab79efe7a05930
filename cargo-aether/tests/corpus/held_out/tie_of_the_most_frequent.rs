//! The most frequent word, where two are equally frequent
//! how: hash

use aether::prelude::*;
use itertools::Itertools as _;

fn most_frequent(text: &str) -> String {
    let counts = text.split(' ').counts();
    counts.into_iter().max_by_key(|(_, count)| *count).map_or_else(String::new, |(word, _)| word.to_owned())
}

#[workflow]
pub async fn tie_of_the_most_frequent(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(most_frequent("red blue green red blue green black white"))
}
