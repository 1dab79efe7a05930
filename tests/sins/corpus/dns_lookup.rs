//! A name, looked up
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn dns_lookup(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use std::net::ToSocketAddrs as _;
    Ok(format!("{:?}", "localhost:80".to_socket_addrs().map(Iterator::count)))
}
