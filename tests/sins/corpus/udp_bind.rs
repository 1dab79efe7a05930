//! A socket with a port of its own
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn udp_bind(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())))
}
