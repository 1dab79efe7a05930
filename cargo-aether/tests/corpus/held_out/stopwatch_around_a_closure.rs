//! A generic function that says how long a closure took
//! how: clock

use std::time::{Duration, Instant};

use aether::prelude::*;

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let value = work();
    (value, begin.elapsed())
}

#[workflow]
pub async fn stopwatch_around_a_closure(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (sum, took) = timed(|| (0..1_000_u64).sum::<u64>());
    Ok(format!("{sum} in {took:?}"))
}
