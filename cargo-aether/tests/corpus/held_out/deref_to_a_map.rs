//! A registry that is a map by Deref, visited with a callback
//! how: hash

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use aether::prelude::*;

#[derive(Default)]
struct Registry(HashMap<String, usize>);

impl Deref for Registry {
    type Target = HashMap<String, usize>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn visit(registry: &Registry, mut seen: impl FnMut(&str)) {
    registry.iter().for_each(|(name, _)| seen(name));
}

fn look() -> String {
    let mut registry = Registry::default();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        let at = registry.len();
        registry.insert(name.to_owned(), at);
    }
    let mut names = String::new();
    visit(&registry, |name| names.push_str(name));
    names
}

#[workflow]
pub async fn deref_to_a_map(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
