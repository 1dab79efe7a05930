//! The thread that a barrier makes its leader
//! how: thread

use std::sync::{Arc, Barrier};
use std::thread;

use aether::prelude::*;

fn leader(count: usize) -> Option<usize> {
    let barrier = Arc::new(Barrier::new(count));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait().is_leader())
        })
        .collect();
    threads.into_iter().position(|thread| thread.join().unwrap_or(false))
}

#[workflow]
pub async fn leader_of_a_barrier(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", leader(4)))
}
