//! A channel whose two ends stay in one function
//! how: clean

use std::sync::mpsc;

use aether::prelude::*;

struct Sink(mpsc::Sender<(usize, String)>);

impl Sink {
    fn send(&self, level: usize, text: &str) {
        let _ = self.0.send((level, text.to_owned()));
    }
}

fn walk(text: &str, level: usize, sink: &Sink) {
    for part in text.split([';', ','][level.min(1)]) {
        if level == 0 {
            walk(part, 1, sink);
        }
        sink.send(level, part.trim());
    }
}

fn messages(text: &str) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    let sink = Sink(sender);
    walk(text, 0, &sink);
    drop(sink);
    receiver.try_iter().map(|(level, text)| format!("{level}:{text}")).collect()
}

#[workflow]
pub async fn channel_in_one_function(cx: &mut Cx, _input: u64) -> Result<String> {
    let n = cx.random().await % 100;
    Ok(messages(&format!("a, b; c, {n}; d")).join(" "))
}
