//! A message of a channel
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn channel_recv(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<u32>(1);
    sender.try_send(1)?;
    Ok(format!("{:?}", receiver.recv().await))
}
