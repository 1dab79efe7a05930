//! The first element of any collection, here of a hash set
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;

fn first<C>(items: C) -> Option<C::Item>
where
    C: IntoIterator,
{
    items.into_iter().next()
}

fn look() -> String {
    let names: HashSet<&str> = ["a", "b", "c", "d", "e", "f", "g", "h"].into();
    first(&names).copied().unwrap_or_default().to_owned()
}

#[workflow]
pub async fn generic_over_collections(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
