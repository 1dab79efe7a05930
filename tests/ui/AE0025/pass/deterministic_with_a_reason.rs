//! Functions of every kind may be called deterministic.
#![deny(warnings)]

use aether::deterministic;

struct Cache;

impl Cache {
    /// Looks something up.
    #[deterministic(reason = "the same for every run")]
    #[must_use]
    pub fn get<T: Clone>(&self, value: &T) -> T {
        value.clone()
    }

    #[deterministic(reason = "the same for every run")]
    async fn wait(self) -> Self {
        self
    }
}

#[deterministic(reason = "reads a table that is compiled in")]
unsafe fn raw<'a>(text: &'a str) -> impl Iterator<Item = char> + 'a {
    text.chars()
}

fn main() {
    assert_eq!(Cache.get(&7), 7);
    assert_eq!(unsafe { raw("ab") }.count(), 2);
    drop(Cache.wait());
}
