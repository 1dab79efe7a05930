//! An interner that numbers names in the order in which they come
//! how: clean

use std::collections::HashMap;
use std::rc::Rc;

use aether::prelude::*;

#[derive(Default)]
struct Interner {
    ids: HashMap<Rc<str>, u32>,
    names: Vec<Rc<str>>,
}

impl Interner {
    fn intern(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        let shared: Rc<str> = Rc::from(name);
        self.names.push(Rc::clone(&shared));
        self.ids.insert(shared, id);
        id
    }

    fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id as usize).map(|name| &**name)
    }
}

fn symbols(source: &str) -> (Vec<u32>, String) {
    let mut interner = Interner::default();
    let ids = source.split_whitespace().map(|word| interner.intern(word)).collect::<Vec<_>>();
    let last =
        ids.iter().copied().max().and_then(|id| interner.name(id).map(str::to_owned)).unwrap_or_default();
    (ids, last)
}

#[workflow]
pub async fn string_interner(cx: &mut Cx, input: u64) -> Result<String> {
    let pick = cx.random().await;
    let source = if pick % 2 == 0 { "let x be y and let y be z" } else { "move a to b then move b to a" };
    let (ids, last) = symbols(source);
    Ok(format!("{input}: {ids:?} {last}"))
}
