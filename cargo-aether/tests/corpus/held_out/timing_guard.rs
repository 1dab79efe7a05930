//! A guard that notes at the end of its scope how long that was
//! how: clock

use std::cell::Cell;
use std::time::Instant;

use aether::prelude::*;

struct Span<'a> {
    begin: Instant,
    total: &'a Cell<u128>,
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        self.total.set(self.total.get() + self.begin.elapsed().as_nanos());
    }
}

fn look() -> String {
    let total = Cell::new(0);
    for _ in 0..3 {
        let _span = Span { begin: Instant::now(), total: &total };
    }
    total.get().to_string()
}

#[workflow]
pub async fn timing_guard(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
