//! A memo table that lives as long as the call
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

struct Paths {
    known: HashMap<(u32, u32), u64>,
    hits: u32,
}

impl Paths {
    fn count(&mut self, down: u32, right: u32) -> u64 {
        if down == 0 || right == 0 {
            return 1;
        }
        if let Some(known) = self.known.get(&(down, right)) {
            self.hits += 1;
            return *known;
        }
        let count = self.count(down - 1, right) + self.count(down, right - 1);
        self.known.insert((down, right), count);
        count
    }
}

fn routes(size: u32) -> String {
    let mut paths = Paths { known: HashMap::with_capacity(64), hits: 0 };
    let count = paths.count(size, size);
    format!("{count} routes, {} kept, {} hits", paths.known.len(), paths.hits)
}

#[workflow]
pub async fn memo_table_in_call(cx: &mut Cx, _input: u64) -> Result<String> {
    let size = cx.random().await % 12;
    Ok(routes(size as u32))
}
