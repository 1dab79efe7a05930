//! A blocking receive
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn std_channel_recv(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (sender, receiver) = std::sync::mpsc::channel();
    sender.send(1)?;
    Ok(format!("{:?}", receiver.recv()))
}
