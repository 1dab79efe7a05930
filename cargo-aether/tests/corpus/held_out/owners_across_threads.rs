//! The number of owners of a value that a thread also holds
//! how: thread

use std::sync::Arc;

use aether::prelude::*;

fn owners() -> usize {
    let shared = Arc::new(vec![1_u8; 4_096]);
    let other = Arc::clone(&shared);
    let thread = std::thread::spawn(move || other.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    let count = Arc::strong_count(&shared);
    let _sum = thread.join();
    count
}

#[workflow]
pub async fn owners_across_threads(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(owners().to_string())
}
