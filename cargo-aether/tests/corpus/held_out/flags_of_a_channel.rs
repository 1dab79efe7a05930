//! Flags of the newest message of a channel, in a static
//! how: static

use std::sync::LazyLock;

use aether::prelude::*;
use tokio::sync::watch;

static FLAGS: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

pub fn switch(on: bool) {
    let _former = FLAGS.send_replace(on);
}

fn is_on() -> bool {
    *FLAGS.borrow()
}

#[workflow]
pub async fn flags_of_a_channel(cx: &mut Cx, _input: u64) -> Result<u64> {
    let amount = cx.random().await;
    Ok(if is_on() { amount / 2 } else { amount })
}
