//! A message that comes in time or does not
//! how: blocking

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use aether::prelude::*;

struct Mailbox<T> {
    from: Receiver<T>,
}

impl<T> Iterator for Mailbox<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.from.recv_timeout(Duration::from_micros(60)).ok()
    }
}

fn look() -> String {
    let (to, from) = channel();
    std::thread::spawn(move || (0..50).try_for_each(|number| to.send(number)));
    Mailbox { from }.count().to_string()
}

#[workflow]
pub async fn receive_with_a_timeout(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
