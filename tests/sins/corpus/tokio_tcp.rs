//! A connection, through tokio
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_tcp(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(tokio::net::TcpStream::connect("127.0.0.1:9").await.is_ok().to_string())
}
