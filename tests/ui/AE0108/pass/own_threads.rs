#![deny(warnings)]

use aether::prelude::*;

/// Threads of a conversation.
mod thread {
    pub(crate) fn summary(messages: &[String]) -> usize {
        messages.len()
    }
}

#[workflow]
async fn flow(cx: &mut Cx, messages: Vec<String>) -> Result<usize> {
    let _ = cx;
    let spawn = messages.len();
    Ok(thread::summary(&messages) + spawn)
}

fn main() {}
