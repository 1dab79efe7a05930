//! What maps hold of each of a list, sorted behind the loop
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn tags(ids: &[u64], count: u8) -> Vec<&'static str> {
    let of = HashMap::from([("a", 2), ("b", count), ("c", 7), ("d", 1), ("e", 3)]);
    let tags_of = HashMap::from([(1, of.clone()), (2, of)]);
    let mut tags = Vec::new();
    for id in ids {
        if let Some(of) = tags_of.get(id) {
            for (tag, count) in of {
                if *count > 1 {
                    tags.push(*tag);
                }
            }
        }
    }
    tags.sort_unstable();
    tags
}

#[workflow]
pub async fn hash_map_in_a_loop(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = (cx.random().await % 5) as u8;
    Ok(tags(&[1, 2], count).join(", "))
}
