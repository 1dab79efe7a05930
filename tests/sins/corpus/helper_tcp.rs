//! A connection in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::net::TcpStream::connect("127.0.0.1:9").is_ok().to_string()
}

#[workflow]
pub async fn helper_tcp(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
