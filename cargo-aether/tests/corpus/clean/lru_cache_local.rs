//! A cache that drops what was used least recently, in one call
//! how: clean

use std::collections::{HashMap, VecDeque};

use aether::prelude::*;

struct Lru<V> {
    room: usize,
    values: HashMap<u64, V>,
    used: VecDeque<u64>,
}

impl<V: Clone> Lru<V> {
    fn new(room: usize) -> Self {
        Self { room, values: HashMap::new(), used: VecDeque::with_capacity(room) }
    }

    fn get_or(&mut self, key: u64, make: impl FnOnce(u64) -> V) -> (V, bool) {
        if let Some(value) = self.values.get(&key).cloned() {
            self.used.retain(|used| *used != key);
            self.used.push_back(key);
            return (value, true);
        }
        if self.values.len() == self.room
            && let Some(oldest) = self.used.pop_front()
        {
            self.values.remove(&oldest);
        }
        let value = make(key);
        self.values.insert(key, value.clone());
        self.used.push_back(key);
        (value, false)
    }
}

fn misses(seed: u64) -> (usize, u64) {
    let mut cache = Lru::new(4);
    let mut sum = 0;
    let mut misses = 0;
    for n in 0..64_u32 {
        let (square, hit) = cache.get_or((seed >> n) & 7, |key| key * key);
        sum += square;
        misses += usize::from(!hit);
    }
    (misses, sum)
}

#[workflow]
pub async fn lru_cache_local(cx: &mut Cx, _input: u64) -> Result<String> {
    let (misses, sum) = misses(cx.random().await);
    Ok(format!("{misses} misses, {sum}"))
}
