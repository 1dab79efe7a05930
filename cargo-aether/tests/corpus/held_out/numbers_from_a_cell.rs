//! Entries of a hash map that get numbers from a counter behind a borrow
//! how: hash

use std::cell::Cell;
use std::collections::HashMap;

use aether::prelude::*;

struct Numbers {
    next: Cell<u64>,
}

impl Numbers {
    fn next(&self) -> u64 {
        let next = self.next.get();
        self.next.set(next + 1);
        next
    }
}

fn number(entries: &mut HashMap<u64, u64>, numbers: &Numbers) {
    for value in entries.values_mut() {
        *value = numbers.next();
    }
}

#[workflow]
pub async fn numbers_from_a_cell(cx: &mut Cx, _input: u64) -> Result<u64> {
    let count = cx.random().await % 5 + 5;
    let mut entries = (0..count).map(|n| (n, 0)).collect();
    number(&mut entries, &Numbers { next: Cell::new(0) });
    Ok(entries[&3])
}
