//! A sorted map whose keys are pointers
//! how: address

use std::collections::BTreeMap;

use aether::prelude::*;

#[derive(Default)]
struct Marks<'a, T> {
    of: BTreeMap<*const T, &'a T>,
}

impl<'a, T> Marks<'a, T> {
    fn mark(&mut self, item: &'a T) {
        self.of.insert(item, item);
    }

    fn marked(&self) -> impl Iterator<Item = &'a T> + '_ {
        self.of.values().copied()
    }
}

fn look() -> String {
    let words: Vec<Box<[u8]>> = (1..30_u8).map(|size| vec![size; usize::from(size) * 40].into()).collect();
    let mut marks = Marks { of: BTreeMap::new() };
    words.iter().for_each(|word| marks.mark(&word[0]));
    format!("{:?}", marks.marked().collect::<Vec<_>>())
}

#[workflow]
pub async fn keyed_by_pointer(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
