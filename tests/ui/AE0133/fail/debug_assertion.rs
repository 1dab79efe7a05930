use aether::prelude::*;

#[workflow]
async fn distinct(_cx: &mut Cx, ids: Vec<u32>) -> Result<usize> {
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        debug_assert!(seen.insert(id), "twice: {id}");
    }
    Ok(seen.len())
}

#[step(effect = "pure")]
async fn second(words: Vec<String>) -> Result<String> {
    let mut words = words.into_iter();
    debug_assert_ne!(words.next(), None);
    Ok(words.next().unwrap_or_default())
}

fn main() {}
