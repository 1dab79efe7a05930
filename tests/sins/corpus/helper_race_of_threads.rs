//! Two threads that race for a channel
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let (first, results) = std::sync::mpsc::channel();
    let second = first.clone();
    std::thread::spawn(move || first.send(1));
    std::thread::spawn(move || second.send(2));
    format!("{:?}", results.recv())
}

#[workflow]
pub async fn helper_race_of_threads(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
