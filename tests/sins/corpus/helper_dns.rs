//! A name, looked up in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::net::ToSocketAddrs::to_socket_addrs("localhost:80").map(Iterator::count))
}

#[workflow]
pub async fn helper_dns(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
