//! An arena whose keys know when their slot was used again
//! how: clean

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    slot: u32,
    generation: u32,
}

struct Arena<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(value);
        Key { slot, generation: *generation }
    }

    fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, place) = self.slots.get_mut(key.slot as usize)?;
        let value = place.take_if(|_| *generation == key.generation)?;
        *generation += 1;
        self.free.push(key.slot);
        Some(value)
    }
}

fn exercise(seed: u64) -> String {
    let mut arena = Arena::default();
    let mut keys: Vec<Key> = (0..6).map(|n| arena.insert(n)).collect();
    let removed: Vec<_> =
        (0..6).filter(|n| seed >> n & 1 == 1).filter_map(|n| arena.remove(keys[n])).collect();
    keys.extend(removed.iter().map(|n| arena.insert(n * 10)));
    let alive = keys.iter().filter_map(|key| arena.remove(*key)).collect::<Vec<_>>();
    format!("{removed:?} {alive:?} {:?}", keys.last())
}

#[workflow]
pub async fn arena_with_generations(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(exercise(cx.random().await))
}
