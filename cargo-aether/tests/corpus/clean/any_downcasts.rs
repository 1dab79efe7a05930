//! A bag of values that are told apart by their types
//! how: clean

use std::any::{Any, TypeId};
use std::collections::HashMap;

use aether::prelude::*;

#[derive(Default)]
struct Bag(HashMap<TypeId, Box<dyn Any>>);

impl Bag {
    fn put<T: Any>(&mut self, value: T) -> Option<T> {
        let old = self.0.insert(TypeId::of::<T>(), Box::new(value))?;
        old.downcast().ok().map(|old| *old)
    }

    fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

#[derive(Debug)]
struct Limit(u64);

fn bag(limit: u64) -> String {
    let mut bag = Bag::default();
    bag.put("name".to_owned());
    bag.put(Limit(1));
    let old = bag.put(Limit(limit));
    let name = bag.get::<String>().map_or(0, String::len);
    format!("{old:?} {:?} {name} {}", bag.get::<Limit>(), bag.get::<u8>().is_none())
}

#[workflow]
pub async fn any_downcasts(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(bag(cx.random().await))
}
