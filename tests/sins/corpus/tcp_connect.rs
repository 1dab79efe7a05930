//! A connection
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tcp_connect(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::net::TcpStream::connect("127.0.0.1:9").is_ok().to_string())
}
