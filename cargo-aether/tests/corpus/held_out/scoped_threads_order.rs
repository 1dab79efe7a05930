//! Scoped threads that append to one list
//! how: thread

use aether::prelude::*;
use parking_lot::Mutex;

fn lengths(words: &[&str]) -> Vec<usize> {
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for word in words {
            let found = &found;
            scope.spawn(move || found.lock().push(word.len()));
        }
    });
    found.into_inner()
}

#[workflow]
pub async fn scoped_threads_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", lengths(&["a", "bb", "ccc", "dddd", "eeeee"])))
}
